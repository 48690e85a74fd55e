#define _GNU_SOURCE
#include "support/ranks.h"

#include "support/testing.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void test_rank_fail(test_rank *r, const char *format, ...)
{
    va_list list;
    if (r->failures++) return;
    va_start(list, format);
    vsnprintf(r->message, sizeof r->message, format, list);
    va_end(list);
}

typedef struct {
    test_rank *rank;
    test_rank_fn fn;
    bool no_comm;
} job;

static void *rank_run(void *argument)
{
    job *j = argument;
    test_rank *r = j->rank;
    if (!j->no_comm) rank_ok(r, ncclCommInitRank(&r->comm, r->ranks, r->id, r->rank));
    if (r->comm || j->no_comm) j->fn(r);
    if (r->comm) rank_ok(r, ncclCommDestroy(r->comm));
    r->comm = NULL;
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void threads_run(int ranks, test_ranks_how how, test_rank *all, test_rank_fn fn)
{
    pthread_t threads[64];
    job jobs[64];
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (time_t)(how.timeout_s > 0 ? how.timeout_s : 120);
    for (int i = 0; i < ranks; i++) {
        jobs[i] = (job){&all[i], fn, how.no_comm};
        assert_int_equal(pthread_create(&threads[i], NULL, rank_run, &jobs[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        if (pthread_timedjoin_np(threads[i], NULL, &limit) != 0) {
            fprintf(stderr, "rank %d of %d did not come back\n", i, ranks);
            abort(); /* its stack is in use: nothing sane can follow */
        }
}

static void processes_run(int ranks, test_ranks_how how, test_rank *all, test_rank_fn fn)
{
    pid_t children[64];
    double limit = now() + (how.timeout_s > 0 ? how.timeout_s : 120);
    fflush(NULL);
    for (int i = 0; i < ranks; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            job j = {&all[i], fn, how.no_comm};
            rank_run(&j);
            _exit(all[i].failures != 0);
        }
    }
    for (int i = 0; i < ranks; i++) {
        int status;
        pid_t found;
        while ((found = waitpid(children[i], &status, WNOHANG)) == 0 && now() < limit) usleep(1000);
        if (found == 0) {
            kill(children[i], SIGKILL);
            waitpid(children[i], &status, 0);
            test_rank_fail(&all[i], "did not come back in time");
        } else if (WIFSIGNALED(status)) test_rank_fail(&all[i], "killed by signal %d", WTERMSIG(status));
        else if (WEXITSTATUS(status) > 1) test_rank_fail(&all[i], "exit code %d", WEXITSTATUS(status));
    }
}

void test_ranks_run(int ranks, test_ranks_how how, test_rank_fn fn, void *argument)
{
    ncclUniqueId id;
    test_rank *all = mmap(NULL, (size_t)ranks * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    for (int i = 0; i < ranks; i++) all[i] = (test_rank){.rank = i, .ranks = ranks, .id = id, .argument = argument};
    (how.processes ? processes_run : threads_run)(ranks, how, all, fn);
    char text[480] = "";
    for (int i = 0; i < ranks && !*text; i++)
        if (all[i].failures) snprintf(text, sizeof text, "rank %d of %d: %d failures, first: %s", i, ranks, all[i].failures, all[i].message);
    munmap(all, (size_t)ranks * sizeof *all);
    if (*text) fail_msg("%s", text);
}

static int entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder));) count += e->d_name[0] != '.';
    closedir(folder);
    return count;
}

int test_open_files(void)
{
    return entries("/proc/self/fd") - 1; /* the folder itself was open */
}

int test_threads(void)
{
    return entries("/proc/self/task");
}
