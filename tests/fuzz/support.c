/* The wrapped file functions (see CMakeLists.txt: -Wl,--wrap). */
#include "support.h"

#include "base/file.h"
#include "formats/model_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 8 };

static struct {
    const char *path;
    const uint8_t *data;
    size_t bytes;
} files[MAX_FILES];
static size_t file_count;

void fuzz_file_set(const char *path, const uint8_t *data, size_t bytes)
{
    fuzz_expect(file_count < MAX_FILES, "few files");
    files[file_count].path = path;
    files[file_count].data = data;
    files[file_count++].bytes = bytes;
}

void fuzz_files_clear(void)
{
    file_count = 0;
}

void fuzz_expect(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz: does not hold: %s (last message: %s)\n", what, lj_error_message());
    abort();
}

lj_status __wrap_lj_mapped_file_init(lj_mapped_file *file, const char *path);
void __wrap_lj_mapped_file_release(lj_mapped_file *file);
bool __wrap_lj_path_exists(const char *path);
bool __wrap_lj_path_is_folder(const char *path);
lj_status __wrap_lj_model_folder_file(const char *folder, const char *name, char *buffer, size_t capacity);

static int file_index(const char *path)
{
    for (size_t i = 0; i < file_count; i++)
        if (strcmp(files[i].path, path) == 0) return (int)i;
    return -1;
}

lj_status __wrap_lj_mapped_file_init(lj_mapped_file *file, const char *path)
{
    int index = file_index(path);
    if (index < 0) return lj_fail(LJ_ERR_IO, "open %s: not there", path);
    size_t bytes = files[index].bytes;
    if (bytes == 0) {
        *file = (lj_mapped_file){.data = (const uint8_t *)""};
        return LJ_OK;
    }
    uint8_t *copy = malloc(bytes);
    fuzz_expect(copy != NULL, "memory for the input");
    memcpy(copy, files[index].data, bytes);
    *file = (lj_mapped_file){copy, bytes, copy};
    return LJ_OK;
}

void __wrap_lj_mapped_file_release(lj_mapped_file *file)
{
    free(file->mapping);
    *file = (lj_mapped_file){0};
}

bool __wrap_lj_path_exists(const char *path)
{
    return file_index(path) >= 0 || __wrap_lj_path_is_folder(path);
}

bool __wrap_lj_path_is_folder(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < file_count; i++)
        if (strncmp(files[i].path, path, length) == 0 && files[i].path[length] == '/') return true;
    return false;
}

/* Symbolic links are the file system's; what is left of the check is the name. */
lj_status __wrap_lj_model_folder_file(const char *folder, const char *name, char *buffer, size_t capacity)
{
    if (!*name || *name == '.' || strchr(name, '/')) return lj_fail(LJ_ERR_FORMAT, "%s: '%.200s' is no plain file name", folder, name);
    if (snprintf(buffer, capacity, "%s/%s", folder, name) >= (int)capacity) return lj_fail(LJ_ERR_INVALID, "path is too long");
    return file_index(buffer) >= 0 ? LJ_OK : lj_fail(LJ_ERR_IO, "open %s: not there", buffer);
}
