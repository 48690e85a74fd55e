/* Finding, identifying and running the C compiler: no shell, arguments as an array. */
#define _GNU_SOURCE
#include "codegen/compiler.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define NO_COMPILER "install gcc (Debian: apt-get install gcc libc6-dev), or set LJPERF_CC to a C compiler, or LJPERF_KERNEL_PACK to a folder of ready kernels"

static const char *const common_flags[] = {"-std=gnu17", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno",
                                           "-fno-trapping-math", "-fno-strict-aliasing", "-w", NULL};
#if defined(__x86_64__)
#define AVX2 "-mavx2", "-mfma", "-mf16c"
#define AVX512 AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mprefer-vector-width=512"
#else
#define AVX2 NULL
#define AVX512 NULL
#endif
static const char *const isa_flags[LJ_ISA_COUNT][12] = {[LJ_ISA_GENERIC] = {NULL},   [LJ_ISA_AVX2] = {AVX2},
                                                        [LJ_ISA_AVX512] = {AVX512}, [LJ_ISA_AVX512_BF16] = {AVX512},
                                                        [LJ_ISA_AMX] = {AVX512}};

const char *lj_compiler_flags(lj_isa isa)
{
    static _Thread_local char line[512];
    size_t length = 0;
    for (int i = 0; common_flags[i]; i++) length += (size_t)snprintf(line + length, sizeof line - length, "%s ", common_flags[i]);
    for (int i = 0; isa_flags[isa][i]; i++) length += (size_t)snprintf(line + length, sizeof line - length, "%s ", isa_flags[isa][i]);
    return line;
}

/* -- finding --------------------------------------------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

static bool search_path(const char *name, char *out, size_t capacity)
{
    if (strchr(name, '/')) return (size_t)snprintf(out, capacity, "%s", name) < capacity && is_program(out);
    const char *list = getenv("PATH");
    for (const char *part = list ? list : "/usr/bin:/bin"; *part;) {
        size_t length = strcspn(part, ":");
        if (length && (size_t)snprintf(out, capacity, "%.*s/%s", (int)length, part, name) < capacity && is_program(out)) return true;
        part += length + (part[length] == ':');
    }
    return false;
}

static lj_status find_program(char *out, size_t capacity)
{
    static const char *const names[] = {"gcc", "clang", "cc"};
    const char *own = getenv("LJPERF_CC");
    if (lj_fault("find", "compiler")) return lj_fail(LJ_ERR_COMPILER, "no C compiler found for generated kernels: %s", NO_COMPILER);
    if (own && *own) {
        if (search_path(own, out, capacity)) return LJ_OK;
        return lj_fail(LJ_ERR_COMPILER, "LJPERF_CC: no program '%s': %s", own, NO_COMPILER);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (search_path(names[i], out, capacity)) return LJ_OK;
    return lj_fail(LJ_ERR_COMPILER, "no C compiler (gcc, clang, cc) in PATH for generated kernels: %s", NO_COMPILER);
}

/* -- processes ------------------------------------------------------------------------------------------------------------- */

/* Standard input from nowhere, both outputs to descriptor `log`. The child gets no other descriptor of ours (all are close-on-exec). */
static lj_status spawn(const char *program, const char *const *arguments, int log, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    if (lj_fault("spawn", program)) return lj_fail(LJ_ERR_COMPILER, "start %s: %s", program, strerror(EAGAIN));
    if (posix_spawn_file_actions_init(&actions) != 0) return lj_fail(LJ_ERR_NOMEM, "start %s: no memory", program);
    int error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, log, 1);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, log, 2);
    if (!error) error = posix_spawn(pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error ? lj_fail(LJ_ERR_COMPILER, "start %s: %s", program, strerror(error)) : LJ_OK;
}

static lj_status open_log(int *fd)
{
    *fd = lj_fault("open", "compiler log") ? (errno = EMFILE, -1) : memfd_create("ljperf compiler", MFD_CLOEXEC);
    return *fd >= 0 ? LJ_OK : lj_fail_errno("create", "the C compiler's log");
}

static void read_log(int fd, char *out, size_t capacity)
{
    ssize_t length = pread(fd, out, capacity - 1, 0);
    out[length > 0 ? length : 0] = 0;
}

static void keep_lines(char *text, int lines)
{
    for (char *at = text; (at = strchr(at, '\n')); at++)
        if (--lines == 0) {
            *at = 0;
            return;
        }
}

static lj_status wait_for(pid_t pid, double seconds, int *state)
{
    double deadline = lj_now_s() + seconds, pause = 0.0005;
    for (;;) {
        pid_t got = waitpid(pid, state, WNOHANG);
        if (got == pid) return LJ_OK;
        if (got < 0 && errno != EINTR) return lj_fail_errno("wait for", "the C compiler");
        if (lj_now_s() > deadline) break;
        lj_sleep_s(pause);
        if (pause < 0.005) pause *= 1.5;
    }
    kill(pid, SIGKILL);
    waitpid(pid, state, 0);
    return lj_fail(LJ_ERR_TIMEOUT, "the C compiler has not ended after %.0f s", seconds);
}

lj_status lj_compiler_start(const lj_compiler *compiler, lj_isa isa, const char *source, const char *object, lj_compile_job *job)
{
    const char *arguments[40];
    int count = 0;
    arguments[count++] = compiler->path;
    for (int i = 0; common_flags[i]; i++) arguments[count++] = common_flags[i];
    for (int i = 0; isa_flags[isa][i]; i++) arguments[count++] = isa_flags[isa][i];
    arguments[count++] = "-o", arguments[count++] = object, arguments[count++] = source, arguments[count++] = NULL;
    LJ_TRY(open_log(&job->log));
    lj_status status = spawn(compiler->path, arguments, job->log, &job->pid);
    if (status != LJ_OK) close(job->log);
    return status;
}

lj_status lj_compiler_wait(lj_compile_job *job, double seconds)
{
    int state;
    char said[600];
    lj_status status = wait_for(job->pid, seconds, &state);
    read_log(job->log, said, sizeof said);
    keep_lines(said, 4);
    close(job->log);
    if (status != LJ_OK || (WIFEXITED(state) && WEXITSTATUS(state) == 0)) return status;
    if (WIFSIGNALED(state)) return lj_fail(LJ_ERR_COMPILER, "the C compiler was ended by signal %d: %s", WTERMSIG(state), said);
    return lj_fail(LJ_ERR_COMPILER, "the C compiler failed (exit %d): %s", WEXITSTATUS(state), *said ? said : "it said nothing");
}

/* -- identity -------------------------------------------------------------------------------------------------------------- */

static lj_status version_line(const char *path, char *out, size_t capacity)
{
    const char *arguments[] = {path, "--version", NULL};
    int log, state = 0;
    pid_t pid;
    LJ_TRY(open_log(&log));
    lj_status status = spawn(path, arguments, log, &pid);
    if (status == LJ_OK) status = wait_for(pid, 60, &state);
    if (status == LJ_OK && !(WIFEXITED(state) && WEXITSTATUS(state) == 0))
        status = lj_fail(LJ_ERR_COMPILER, "%s --version fails: set LJPERF_CC to a working C compiler", path);
    if (status == LJ_OK) read_log(log, out, capacity), keep_lines(out, 1);
    close(log);
    return status;
}

static lj_status identify(lj_compiler *compiler)
{
    char resolved[PATH_MAX], line[160] = "";
    struct stat info;
    if (!realpath(compiler->path, resolved) || stat(resolved, &info) != 0) return lj_fail_errno("look at", compiler->path);
    LJ_TRY(version_line(compiler->path, line, sizeof line));
    snprintf(compiler->identity, sizeof compiler->identity, "%.256s %lld %lld %s", resolved, (long long)info.st_size, (long long)info.st_mtime, line);
    return LJ_OK;
}

/* Asked once a process for each path. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lj_compiler known;

lj_status lj_compiler_find(lj_compiler *compiler)
{
    LJ_TRY(find_program(compiler->path, sizeof compiler->path));
    pthread_mutex_lock(&lock);
    bool same = strcmp(known.path, compiler->path) == 0;
    if (same) *compiler = known;
    pthread_mutex_unlock(&lock);
    if (same) return LJ_OK;
    LJ_TRY(identify(compiler));
    pthread_mutex_lock(&lock);
    known = *compiler;
    pthread_mutex_unlock(&lock);
    return LJ_OK;
}
