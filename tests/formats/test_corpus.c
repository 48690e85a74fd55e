/* The committed corpus of the fuzz targets: at least 40 valid files; each opens, and each of its prefixes is refused with a message. */
#include "support/testing.h"

#include "base/file.h"
#include "formats/gguf.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"

#include <dirent.h>
#include <unistd.h>

#define CORPUS LJ_SOURCE_DIR "/tests/fuzz/corpus/"

static char copy[300];
static int files;

typedef lj_status (*open_fn)(const char *path);

static lj_status open_gguf(const char *path)
{
    lj_gguf *gguf;
    LJ_TRY(lj_gguf_open(path, &gguf));
    lj_gguf_close(gguf);
    return LJ_OK;
}

static lj_status open_safetensors(const char *path)
{
    lj_safetensors *file;
    LJ_TRY(lj_safetensors_open(path, &file));
    lj_safetensors_close(file);
    return LJ_OK;
}

static lj_status open_config(const char *path)
{
    lj_model_config config;
    return lj_hf_config_read(path, &config);
}

static void prefixes_of(const char *path, open_fn open, size_t spare)
{
    lj_mapped_file whole;
    assert_ok(open(path));
    assert_ok(lj_mapped_file_init(&whole, path));
    assert_ok(lj_file_write(copy, whole.data, whole.bytes));
    for (size_t n = whole.bytes - spare; n-- > 0;) {
        assert_int_equal(truncate(copy, (off_t)n), 0);
        assert_fails(open(copy), LJ_ERR_FORMAT, copy); /* names the file; offset, expected and found come from the parser */
    }
    lj_mapped_file_release(&whole);
    files++;
}

static void folder_of(const char *name, open_fn open, size_t spare)
{
    char path[600];
    snprintf(path, sizeof path, CORPUS "%s", name);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, CORPUS "%s/%s", name, entry->d_name);
        prefixes_of(path, open, spare);
    }
    closedir(folder);
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    char folder[256];
    test_folder_create(folder, sizeof folder);
    snprintf(copy, sizeof copy, "%s/x", folder);
    folder_of("gguf", open_gguf, 31); /* the end may be padding to 32 */
    folder_of("safetensors", open_safetensors, 0);
    folder_of("hf_config", open_config, 0);
    assert_true(files >= 40);
    assert_int_equal(lj_memory_live(), 0);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_prefix_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
