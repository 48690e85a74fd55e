/* The kernel cache and the compiler as a process: hits, damage, limits, packs, missing and failing compilers, each fallible call failed
 * once, two processes at the same kernels. */
#define _GNU_SOURCE
#include "support/testing.h"

#include "base/file.h"
#include "base/log.h"
#include "codegen/cache.h"
#include "codegen/kernel.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[300], kernels_folder[400], path_before[4096];

static int set_up(void **state)
{
    (void)state;
    test_folder_create(folder, sizeof folder);
    snprintf(kernels_folder, sizeof kernels_folder, "%s/kernels", folder);
    snprintf(path_before, sizeof path_before, "%s", getenv("PATH"));
    setenv("LJPERF_CACHE", folder, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    setenv("PATH", path_before, 1);
    unsetenv("LJPERF_CC"), unsetenv("LJPERF_KERNEL_PACK"), unsetenv("LJPERF_KERNEL_CACHE_SIZE");
    lj_fault_set(NULL, NULL);
    test_folder_remove(folder);
    return 0;
}

/* y = x * factor: a kernel of its own for each factor. */
static lj_graph *scaled(double factor)
{
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_dim n = lj_dim_symbol(g, "N");
    lj_value x = lj_input(g, "x", lj_type_dims(LJ_F32, 1, &n), LJ_ROLE_DATA);
    lj_graph_output(g, "y", lj_mul(g, x, lj_const(g, lj_value_type(g, x), factor)));
    assert_ok(lj_graph_status(g));
    return g;
}

static void check_runs(const lj_kernel *kernel, float factor)
{
    float x[70], y[70];
    int64_t n = 70;
    for (int i = 0; i < 70; i++) x[i] = (float)i;
    assert_int_equal(kernel->run((void *[]){x, y}, &n, 0, 1), 0);
    for (int i = 0; i < 70; i++) assert_true(y[i] == (float)i * factor);
}

static lj_status build_scaled(double factor)
{
    lj_graph *g = scaled(factor);
    lj_kernel *kernel = NULL;
    lj_status status = lj_kernels_build((const lj_graph *const *)&g, 1, &kernel);
    if (status == LJ_OK) check_runs(kernel, (float)factor);
    lj_kernel_destroy(kernel);
    lj_graph_destroy(g);
    return status;
}

static uint64_t compiles(void)
{
    return lj_kernel_counters_get().compiles;
}

/* Calls `visit` with the path of each entry; returns their number. */
static int each_entry(void (*visit)(const char *path))
{
    int count = 0;
    DIR *dir = opendir(kernels_folder);
    for (struct dirent *at; dir && (at = readdir(dir));) {
        char path[700];
        size_t length = strlen(at->d_name);
        if (length < 3 || strcmp(at->d_name + length - 3, ".so") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", kernels_folder, at->d_name);
        count++;
        if (visit) visit(path);
    }
    if (dir) closedir(dir);
    return count;
}

static int files_besides_entries(void)
{
    int count = 0;
    DIR *dir = opendir(kernels_folder);
    for (struct dirent *at; dir && (at = readdir(dir));) {
        size_t length = strlen(at->d_name);
        bool kept = (length > 3 && strcmp(at->d_name + length - 3, ".so") == 0) || strcmp(at->d_name, "last-compiler.txt") == 0;
        count += at->d_name[0] != '.' && !kept;
    }
    if (dir) closedir(dir);
    return count;
}

/* -- hits ------------------------------------------------------------------------------------------------------------------- */

static void second_time_is_a_hit(void **state)
{
    (void)state;
    uint64_t before = compiles();
    assert_ok(build_scaled(2));
    assert_int_equal(compiles(), before + 1);
    uint64_t hits = lj_kernel_counters_get().cache_hits;
    assert_ok(build_scaled(2));
    assert_int_equal(compiles(), before + 1);
    assert_int_equal(lj_kernel_counters_get().cache_hits, hits + 1);
    struct stat info;
    assert_int_equal(stat(kernels_folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(files_besides_entries(), 0);
}

static void equal_kernels_are_one(void **state)
{
    (void)state;
    lj_graph *graphs[3] = {scaled(3), scaled(4), scaled(3)};
    lj_kernel *kernels[3];
    assert_ok(lj_kernels_build((const lj_graph *const *)graphs, 3, kernels));
    assert_ptr_equal(kernels[0], kernels[2]);
    assert_ptr_not_equal(kernels[0], kernels[1]);
    assert_int_equal(each_entry(NULL), 2);
    lj_kernel_destroy(kernels[0]);
    check_runs(kernels[2], 3);
    assert_non_null(strstr(kernels[1]->text, "4.0f"));
    for (int i = 0; i < 3; i++) {
        if (i) lj_kernel_destroy(kernels[i]);
        lj_graph_destroy(graphs[i]);
    }
}

static void damage_byte(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, info.st_size / 2), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, info.st_size / 2), 1);
    close(fd);
}

static void cut_short(const char *path)
{
    assert_int_equal(truncate(path, 100), 0);
}

static void damaged_entries_are_built_again(void **state)
{
    (void)state;
    void (*const damages[])(const char *path) = {damage_byte, cut_short};
    for (int i = 0; i < 2; i++) {
        uint64_t before = compiles();
        assert_ok(build_scaled(5 + i));
        each_entry(damages[i]);
        assert_ok(build_scaled(5 + i));
        assert_int_equal(compiles(), before + 2);
        assert_ok(build_scaled(5 + i));
        assert_int_equal(compiles(), before + 2);
    }
}

static void folders_of_others_are_refused(void **state)
{
    (void)state;
    assert_ok(build_scaled(7));
    assert_int_equal(chmod(kernels_folder, 0770), 0);
    assert_fails(build_scaled(7), LJ_ERR_INVALID, "may be written by others (mode 0770)");
    assert_int_equal(chmod(kernels_folder, 0700), 0);
    if (geteuid() != 0) return; /* only root can give it away */
    assert_int_equal(chown(kernels_folder, 12345, 0), 0);
    assert_fails(build_scaled(7), LJ_ERR_INVALID, "belongs to user 12345");
}

static void oldest_entries_go_first(void **state)
{
    (void)state;
    lj_kernel_cache cache;
    assert_ok(lj_kernel_cache_open(&cache));
    static char data[1000];
    for (int i = 0; i < 5; i++) {
        char object[600], key[32], path[700];
        snprintf(object, sizeof object, "%s/object", kernels_folder);
        snprintf(key, sizeof key, "c_%d", i);
        const char *keys[] = {key};
        assert_ok(lj_file_write(object, data, sizeof data));
        assert_ok(lj_kernel_cache_add(&cache, object, keys, 1));
        snprintf(path, sizeof path, "%s/%s.so", kernels_folder, key);
        struct timespec when[2] = {{1000 + i, 0}, {1000 + i, 0}};
        assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
    }
    bool found;
    char path[700];
    assert_ok(lj_kernel_cache_find(&cache, "c_0", path, sizeof path, &found)); /* used now: the youngest */
    assert_true(found);
    assert_ok(lj_kernel_cache_trim(&cache, 3200));
    assert_int_equal(each_entry(NULL), 3);
    const bool expected[] = {true, false, false, true, true};
    for (int i = 0; i < 5; i++) {
        char key[32];
        snprintf(key, sizeof key, "c_%d", i);
        assert_ok(lj_kernel_cache_find(&cache, key, path, sizeof path, &found));
        assert_int_equal(found, expected[i]);
    }
    lj_kernel_cache_close(&cache);
    setenv("LJPERF_KERNEL_CACHE_SIZE", "1000", 1);
    assert_ok(build_scaled(8)); /* larger than the limit itself: used, not kept */
    assert_int_equal(each_entry(NULL), 0);
}

/* -- compilers -------------------------------------------------------------------------------------------------------------- */

static void without_a_compiler(void **state)
{
    (void)state;
    assert_ok(build_scaled(9));
    setenv("PATH", folder, 1);
    assert_ok(build_scaled(9)); /* the last compiler's entry is still good */
    assert_fails(build_scaled(10), LJ_ERR_COMPILER, "no C compiler (gcc, clang, cc) in PATH");
    assert_non_null(strstr(lj_error_message(), "apt-get install gcc"));
    setenv("LJPERF_CC", "no-such-compiler", 1);
    assert_fails(build_scaled(10), LJ_ERR_COMPILER, "LJPERF_CC: no program 'no-such-compiler'");
}

static void write_script(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(lj_file_write(path, text, strlen(text)));
    assert_int_equal(chmod(path, 0700), 0);
    setenv("LJPERF_CC", path, 1);
}

static void compiler_that_fails(void **state)
{
    (void)state;
    write_script("broken", "#!/bin/sh\n[ \"$1\" = --version ] && echo broken 1.0 && exit 0\necho 'kernel.c:1: no thanks'\nexit 3\n");
    assert_fails(build_scaled(11), LJ_ERR_COMPILER, "(exit 3): kernel.c:1: no thanks");
    assert_int_equal(files_besides_entries(), 0);
    write_script("killed", "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nkill -9 $$\n");
    assert_fails(build_scaled(11), LJ_ERR_COMPILER, "signal 9");
    write_script("silent", "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nexit 0\n");
    assert_int_not_equal(build_scaled(11), LJ_OK); /* says it did, and made nothing */
    write_script("lost", "#!/bin/sh\nexit 1\n");
    assert_fails(build_scaled(11), LJ_ERR_COMPILER, "--version fails");
    unsetenv("LJPERF_CC");
    assert_ok(build_scaled(11));
}

static void another_compiler_is_another_entry(void **state)
{
    (void)state;
    uint64_t before = compiles();
    assert_ok(build_scaled(12));
    write_script("other", "#!/bin/sh\nexec cc \"$@\"\n");
    assert_ok(build_scaled(12));
    assert_int_equal(compiles(), before + 2);
    assert_int_equal(each_entry(NULL), 2);
}

/* -- packs ------------------------------------------------------------------------------------------------------------------ */

static char pack_entry[900];

static void move_to_pack(const char *path)
{
    assert_int_equal(rename(path, pack_entry), 0);
}

static void kernels_from_a_pack(void **state)
{
    (void)state;
    char pack[400];
    lj_graph *g = scaled(13);
    lj_kernel *kernel;
    assert_ok(lj_kernels_build((const lj_graph *const *)&g, 1, &kernel));
    snprintf(pack, sizeof pack, "%s/pack", folder);
    assert_int_equal(mkdir(pack, 0755), 0);
    snprintf(pack_entry, sizeof pack_entry, "%s/%s.so", pack, kernel->name);
    each_entry(move_to_pack);
    lj_kernel_destroy(kernel);
    setenv("PATH", folder, 1);
    assert_fails(build_scaled(13), LJ_ERR_COMPILER, "no C compiler");
    setenv("LJPERF_KERNEL_PACK", pack, 1);
    assert_ok(build_scaled(13));
    damage_byte(pack_entry);
    assert_fails(build_scaled(13), LJ_ERR_FORMAT, "is damaged; build the pack again");
    assert_int_equal(chmod(pack, 0777), 0);
    assert_fails(build_scaled(13), LJ_ERR_INVALID, "LJPERF_KERNEL_PACK");
    lj_graph_destroy(g);
}

/* -- faults ----------------------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *kind; /* NULL: any */
    int at, seen;
} nth_fault;

static bool fail_nth(void *user, const char *kind, const char *name)
{
    nth_fault *fault = user;
    (void)name;
    if (fault->kind && strcmp(kind, fault->kind) != 0) return false;
    return fault->seen++ == fault->at;
}

static void each_call_fails_once(void **state)
{
    (void)state;
    int failures = 0, reached = 0;
    lj_graph *g = scaled(14);
    for (int at = 0; at < 400; at++) {
        nth_fault fault = {NULL, at, 0};
        lj_kernel *kernel = NULL;
        size_t live = lj_memory_live();
        lj_fault_set(fail_nth, &fault);
        lj_status status = lj_kernels_build((const lj_graph *const *)&g, 1, &kernel);
        lj_fault_set(NULL, NULL);
        if (status != LJ_OK) {
            failures++;
            assert_true(*lj_error_message());
            assert_null(kernel);
        } else {
            check_runs(kernel, 14); /* a fault on the way round which there is another */
            lj_kernel_destroy(kernel);
        }
        if (lj_memory_live() != live) fail_msg("fault %d: %zu bytes are not given back", at, lj_memory_live() - live);
        assert_int_equal(files_besides_entries(), 0);
        reached = fault.seen;
        if (fault.seen <= at) break; /* beyond the last call */
        test_folder_remove(kernels_folder);
    }
    lj_graph_destroy(g);
    print_message("%d of %d failed calls were errors\n", failures, reached);
    assert_true(failures > 20 && reached < 400);
}

static void folder_that_cannot_be_made(void **state)
{
    (void)state;
    nth_fault fault = {"mkdir", 0, 0};
    lj_fault_set(fail_nth, &fault);
    assert_ok(build_scaled(15)); /* in a temporary folder, and said so (once a process) */
    bool said = false;
    for (size_t i = 0; i < lj_fallback_count(); i++)
        said |= strncmp(lj_fallback_get(i), "kernel cache: ", 14) == 0 && strstr(lj_fallback_get(i), "set LJPERF_CACHE") != NULL;
    assert_true(said);
    fault = (nth_fault){"mkdir", 0, 0};
    lj_strict_set(true);
    assert_fails(build_scaled(15), LJ_ERR_UNSUPPORTED, "cannot be written");
    lj_strict_set(false);
}

/* -- processes --------------------------------------------------------------------------------------------------------------- */

enum { SAME = 6 };

static int build_same(void)
{
    lj_graph *graphs[SAME];
    lj_kernel *kernels[SAME];
    for (int i = 0; i < SAME; i++) graphs[i] = scaled(100 + i);
    if (lj_kernels_build((const lj_graph *const *)graphs, SAME, kernels) != LJ_OK) return 200;
    for (int i = 0; i < SAME; i++) {
        check_runs(kernels[i], (float)(100 + i));
        lj_kernel_destroy(kernels[i]);
        lj_graph_destroy(graphs[i]);
    }
    return (int)compiles();
}

/* One of the processes compiles a kernel, the others wait for it. */
static void processes_share_the_work(void **state)
{
    (void)state;
    enum { PROCESSES = 3 };
    pid_t children[PROCESSES];
    uint64_t before = compiles();
    int runs = 0;
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit(build_same() - (int)before);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int code;
        assert_int_equal(waitpid(children[i], &code, 0), children[i]);
        assert_true(WIFEXITED(code) && WEXITSTATUS(code) <= SAME);
        runs += WEXITSTATUS(code);
    }
    assert_in_range(runs, 1, SAME); /* never more than a run a kernel, over all processes */
    assert_int_equal(each_entry(NULL), SAME);
    assert_int_equal(files_besides_entries(), 0);
    assert_int_equal(build_same() - (int)before, 0);
}

/* A process that dies with a lock leaves it free. */
static void lock_of_a_dead_process(void **state)
{
    (void)state;
    lj_kernel_cache cache;
    int fd, mine;
    assert_ok(lj_kernel_cache_open(&cache));
    pid_t child = fork();
    if (child == 0) _exit(lj_kernel_cache_try_lock(&cache, "c_x", &fd) != LJ_OK || fd < 0);
    int code;
    waitpid(child, &code, 0);
    assert_int_equal(code, 0);
    assert_ok(lj_kernel_cache_try_lock(&cache, "c_x", &mine));
    assert_true(mine >= 0);
    assert_fails(lj_kernel_cache_wait(&cache, "c_x", 0.05), LJ_ERR_TIMEOUT, "c_x");
    lj_kernel_cache_unlock(&cache, "c_x", mine);
    assert_ok(lj_kernel_cache_wait(&cache, "c_x", 0.05));
    lj_kernel_cache_close(&cache);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(second_time_is_a_hit),       TEST(equal_kernels_are_one),       TEST(damaged_entries_are_built_again),
        TEST(folders_of_others_are_refused), TEST(oldest_entries_go_first),  TEST(without_a_compiler),
        TEST(compiler_that_fails),        TEST(another_compiler_is_another_entry), TEST(kernels_from_a_pack),
        TEST(each_call_fails_once),       TEST(folder_that_cannot_be_made),  TEST(processes_share_the_work),
        TEST(lock_of_a_dead_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
