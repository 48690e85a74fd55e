/* Other libraries: which are installed, how their programs are built and started, and what they print. */
#define _GNU_SOURCE
#include "cli/comm.h"

#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_WORDS = 48 };

/* One way to run an MPI library. crowded: -1 whether or not ranks outnumber processors, 0 only when not, 1 only when they do. */
typedef struct {
    const char *name, *compiler, *launcher, *words, *environment;
    int crowded;
} mpi_row;

static const mpi_row mpi_rows[] = {
    {"openmpi", "mpicc.openmpi", "mpirun.openmpi", "--allow-run-as-root --bind-to core", "", 0},
    {"openmpi", "mpicc.openmpi", "mpirun.openmpi", "--allow-run-as-root --oversubscribe --bind-to none", "", 1},
    {"openmpi-tuned", "mpicc.openmpi", "mpirun.openmpi", "--allow-run-as-root --bind-to core --mca coll_sm_priority 90", "", 0},
    {"openmpi-tuned", "mpicc.openmpi", "mpirun.openmpi", "--allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1", "", 1},
    {"openmpi-xhc", "mpicc.openmpi", "mpirun.openmpi", "--allow-run-as-root --bind-to core --mca coll_xhc_priority 95", "", 0},
    {"mpich", "mpicc.mpich", "mpiexec.mpich", "-bind-to core", "", 0},
    {"mpich", "mpicc.mpich", "mpiexec.mpich", "-bind-to none", "", 1},
    {"mpich-tuned", "mpicc.mpich", "mpiexec.mpich", "-bind-to none", "MPIR_CVAR_POLLS_BEFORE_YIELD=1 MPIR_CVAR_NEMESIS_POLLS_BEFORE_YIELD=1", 1},
};

static bool program_exists(const char *name)
{
    char path[600];
    const char *at = getenv("PATH");
    if (strchr(name, '/')) return access(name, X_OK) == 0;
    while (at && *at) {
        size_t n = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)n, at, name);
        if (access(path, X_OK) == 0) return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* Starts argv with added environment; output: read end of its standard output when asked for, else thrown away. */
static lj_status program_start(char **argv, char **added, int *output, pid_t *child)
{
    char *whole[512];
    int count = 0, ends[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    for (char **e = added; e && *e && count < 500; e++) whole[count++] = *e;
    for (char **e = environ; *e && count < 511; e++) whole[count++] = *e;
    whole[count] = NULL;
    if (output && pipe2(ends, O_CLOEXEC) != 0) return lj_fail_errno("open pipe to", argv[0]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (output) posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    else posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(child, argv[0], &actions, NULL, argv, whole);
    posix_spawn_file_actions_destroy(&actions);
    if (ends[1] >= 0) close(ends[1]);
    if (failed && ends[0] >= 0) close(ends[0]);
    if (failed) return lj_fail(LJ_ERR_IO, "start %s: %s", argv[0], strerror(failed));
    if (output) *output = ends[0];
    return LJ_OK;
}

static int program_end(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

static lj_status source_find(const char *name, char *path, size_t capacity)
{
    static const char *const folders[] = {LJ_SOURCE_DATA_DIR, LJ_DATA_DIR};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, capacity, "%s/accl/%s", folders[i], name);
        if (access(path, R_OK) == 0) return LJ_OK;
    }
    return lj_fail(LJ_ERR_NOT_FOUND, "%s is neither in %s/accl nor in %s/accl; install ljperf again", name, folders[0], folders[1]);
}

/* Builds the program unless one newer than its source is there. */
static lj_status mpi_build(const char *compiler, char *program, size_t capacity)
{
    char source[700], folder[700], temporary[800];
    struct stat built, text;
    pid_t child;
    LJ_TRY(source_find("peer_mpi.c", source, sizeof source));
    LJ_TRY(lj_cache_folder(folder, sizeof folder));
    LJ_TRY(lj_folder_create(folder, 0700));
    snprintf(program, capacity, "%s/peer-%s", folder, compiler);
    if (stat(program, &built) == 0 && stat(source, &text) == 0 && built.st_mtime > text.st_mtime) return LJ_OK;
    snprintf(temporary, sizeof temporary, "%s.%d", program, (int)getpid());
    char *argv[] = {(char *)(uintptr_t)compiler, "-O2", "-o", temporary, source, NULL};
    LJ_TRY(program_start(argv, NULL, NULL, &child));
    if (program_end(child) != 0) return lj_fail(LJ_ERR_COMPILER, "%s cannot build %s; run it by hand to see why", compiler, source);
    if (rename(temporary, program) != 0) return lj_fail_errno("rename", temporary);
    return LJ_OK;
}

static void words_add(char **list, int *count, const char *text)
{
    while (*text && *count < MAX_WORDS - 1) {
        size_t n = strcspn(text, " ");
        if (n) list[(*count)++] = strndup(text, n);
        text += n + (text[n] == ' ');
    }
    list[*count] = NULL;
}

static lj_status peer_make(comm_peer *peer, const char *name, const char *launcher, const char *words, const char *ranks_flag, int ranks, const char *program, const char *environment)
{
    char text[1000];
    int count = 0, variables = 0;
    *peer = (comm_peer){.command = calloc(MAX_WORDS, sizeof *peer->command), .environment = calloc(MAX_WORDS, sizeof *peer->environment)};
    if (!peer->command || !peer->environment) return lj_fail(LJ_ERR_NOMEM, "peer %s", name);
    snprintf(peer->name, sizeof peer->name, "%s", name);
    words_add(peer->command, &count, launcher);
    words_add(peer->command, &count, words);
    if (ranks_flag) {
        snprintf(text, sizeof text, "%s %d", ranks_flag, ranks);
        words_add(peer->command, &count, text);
    }
    words_add(peer->command, &count, program);
    words_add(peer->environment, &variables, environment);
    return LJ_OK;
}

static bool has_xhc(void)
{
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3", "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi", "/usr/lib/openmpi"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/mca_coll_xhc.so", folders[i]);
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

static lj_status mpi_find(const comm_plan *plan, comm_peer *peers, int *count)
{
    bool crowded = plan->ranks > lj_machine_get()->cores;
    int before = *count;
    for (size_t i = 0; i < sizeof mpi_rows / sizeof *mpi_rows && *count < COMM_MAX_PEERS; i++) {
        const mpi_row *row = &mpi_rows[i];
        char program[800];
        if (row->crowded != crowded || !program_exists(row->compiler) || !program_exists(row->launcher)) continue;
        if (strcmp(row->name, "openmpi-xhc") == 0 && !has_xhc()) continue;
        LJ_TRY(mpi_build(row->compiler, program, sizeof program));
        LJ_TRY(peer_make(&peers[(*count)++], row->name, row->launcher, row->words, "-np", plan->ranks, program, row->environment));
    }
    if (*count == before) return lj_fallback("comm-compare-mpi", "neither Open MPI nor MPICH is installed with its compiler", "install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev");
    return LJ_OK;
}

static lj_status gloo_find(const char *python, comm_peer *peers, int *count)
{
    char program[700], import[200] = "import torch.distributed";
    char *argv[] = {(char *)(uintptr_t)python, "-c", import, NULL};
    pid_t child;
    LJ_TRY(source_find("peer_gloo.py", program, sizeof program));
    if (program_start(argv, NULL, NULL, &child) != LJ_OK || program_end(child) != 0)
        return lj_fallback("comm-compare-gloo", "the Python of --python has no torch", "pip install torch, or name another with --python");
    if (*count == COMM_MAX_PEERS) return LJ_OK;
    return peer_make(&peers[(*count)++], "gloo", python, "", NULL, 0, program, "");
}

lj_status comm_peers_find(const char *families, const comm_plan *plan, const char *python, comm_peer *peers, int *count)
{
    *count = 0;
    while (*families) {
        size_t n = strcspn(families, ",");
        lj_status status = LJ_OK;
        if (n == 3 && strncmp(families, "mpi", 3) == 0) status = mpi_find(plan, peers, count);
        else if (n == 4 && strncmp(families, "gloo", 4) == 0) status = gloo_find(python, peers, count);
        else if (n) status = lj_fail(LJ_ERR_NOT_FOUND, "--compare: no peer '%.*s'; known: mpi, gloo", (int)n, families);
        if (status != LJ_OK) {
            comm_peers_release(peers, *count);
            return status;
        }
        families += n + (families[n] == ',');
    }
    return LJ_OK;
}

static void list_free(char **list)
{
    for (char **at = list; at && *at; at++) free(*at);
    free(list);
}

void comm_peers_release(comm_peer *peers, int count)
{
    for (int i = 0; i < count; i++) {
        list_free(peers[i].command);
        list_free(peers[i].environment);
    }
}

static void lines_read(FILE *lines, const comm_plan *plan, double *best_mean_us)
{
    char line[256];
    while (fgets(line, sizeof line, lines)) {
        size_t bytes;
        double us;
        if (sscanf(line, "%zu %lf", &bytes, &us) != 2) continue;
        for (int s = 0; s < plan->size_count; s++)
            if (plan->sizes[s] == bytes) best_mean_us[s] = us;
    }
}

lj_status comm_peer_run(const comm_peer *peer, const comm_plan *plan, double *best_mean_us)
{
    char low[32], high[32], effort[32], ranks[16], *argv[MAX_WORDS + 8];
    int count = 0, output;
    pid_t child;
    for (int s = 0; s < plan->size_count; s++) best_mean_us[s] = NAN;
    for (char **word = peer->command; *word; word++) argv[count++] = *word;
    snprintf(low, sizeof low, "%zu", plan->sizes[0]);
    snprintf(high, sizeof high, "%zu", plan->sizes[plan->size_count - 1]);
    snprintf(effort, sizeof effort, "%g", plan->effort);
    snprintf(ranks, sizeof ranks, "%d", plan->ranks);
    char *tail[] = {(char *)(uintptr_t)comm_names[plan->collective], low, high, effort, plan->in_place ? "1" : "0", ranks, NULL};
    int with_ranks = strcmp(peer->name, "gloo") == 0;
    for (int i = 0; i < 5 + with_ranks; i++) argv[count++] = tail[i];
    argv[count] = NULL;
    LJ_TRY(program_start(argv, peer->environment, &output, &child));
    FILE *lines = fdopen(output, "r");
    if (lines) {
        lines_read(lines, plan, best_mean_us);
        fclose(lines);
    } else close(output);
    int status = program_end(child);
    if (status != 0) return lj_fail(LJ_ERR_PEER, "its program ended with %s %d", WIFSIGNALED(status) ? "signal" : "code", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return LJ_OK;
}
