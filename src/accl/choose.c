/* Which algorithm an operation takes: what the user named (NCCL_ALGO, NCCL_PROTO, a tuner file), else the cheapest by the cost model. Everything that decides is
 * the same on all ranks, so they decide alike without asking. */
#define _GNU_SOURCE
#include "accl/algorithms.h"
#include "accl/tuner.h"

#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct {
    pthread_mutex_t lock;
    bool loaded;
    bool named[ACCL_KIND_COUNT];                        /* NCCL_ALGO speaks of this collective */
    bool banned[64];                                    /* by row of accl_algorithms */
    accl_tuner tuner;
    accl_cost_model model;
} choice = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- measured costs --- */

accl_cost_model accl_costs_default(void)
{
    /* fitted on two cores of a Zen 4 virtual machine; `ljperf comm tune` replaces them */
    return (accl_cost_model){{{0.12e-6, 1 / 22e9, 1 / 14e9, 1 / 24e9, 1 / 5.0e9, 1.5e-6}, {0.9e-6, 1 / 20e9, 1 / 18e9, 1 / 24e9, 1 / 5.0e9, 1.5e-6}}};
}

lj_status accl_costs_path(char *buffer, size_t capacity)
{
    char folder[1024];
    LJ_TRY(lj_cache_folder(folder, sizeof folder));
    snprintf(buffer, capacity, "%s/accl-costs-%s-%d.txt", folder, lj_machine_class(), lj_machine_get()->cores);
    return LJ_OK;
}

lj_status accl_costs_write(const accl_cost_model *model)
{
    char path[1200], folder[1024];
    lj_text text;
    LJ_TRY(lj_cache_folder(folder, sizeof folder));
    LJ_TRY(lj_folder_create(folder, 0700));
    LJ_TRY(accl_costs_path(path, sizeof path));
    lj_text_init(&text);
    lj_text_add(&text, "accl-costs 1\n# seconds per sync, byte copied, crossed, reduced, moved by the system, and system call\n");
    for (int crowd = 0; crowd < 2; crowd++) {
        lj_text_add(&text, "%s", crowd ? "crowded" : "alone");
        for (int i = 0; i < ACCL_COSTS; i++) lj_text_add(&text, " %.6g", model->cost[crowd][i]);
        lj_text_add(&text, "\n");
    }
    lj_status status = lj_text_status(&text);
    if (status == LJ_OK) status = lj_file_write(path, text.data, text.length);
    lj_text_release(&text);
    return status;
}

static lj_status costs_parse(const char *path, const char *data, accl_cost_model *model)
{
    static const char *const words[2] = {"alone", "crowded"};
    if (strncmp(data, "accl-costs 1\n", 13) != 0) return lj_fail(LJ_ERR_FORMAT, "%s: not a file of `ljperf comm tune`; run it again", path);
    for (int crowd = 0; crowd < 2; crowd++) {
        const char *line = strstr(data, words[crowd]);
        double *c = model->cost[crowd];
        if (!line || sscanf(line + strlen(words[crowd]), "%lf %lf %lf %lf %lf %lf", c, c + 1, c + 2, c + 3, c + 4, c + 5) != ACCL_COSTS)
            return lj_fail(LJ_ERR_FORMAT, "%s: no six numbers after '%s'; run ljperf comm tune again", path, words[crowd]);
        for (int i = 0; i < ACCL_COSTS; i++)
            if (!(c[i] >= 0 && c[i] < 1)) return lj_fail(LJ_ERR_FORMAT, "%s: cost %g of '%s' is out of range; run ljperf comm tune again", path, c[i], words[crowd]);
    }
    return LJ_OK;
}

static lj_status costs_read(accl_cost_model *model)
{
    char path[1200], text[2048] = "";
    *model = accl_costs_default();
    LJ_TRY(accl_costs_path(path, sizeof path));
    FILE *file = fopen(path, "re");
    if (!file) return LJ_OK; /* not tuned: the built-in ones */
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    return costs_parse(path, text, model);
}

const accl_cost_model *accl_costs(void)
{
    return &choice.model;
}

/* --- NCCL_ALGO and NCCL_PROTO --- */

typedef struct {
    const char *at;
    size_t length;
} word;

/* Next word of a list, without the separator. */
static bool word_next(const char **list, char separator, word *out)
{
    if (!**list) return false;
    const char *end = strchrnul(*list, separator);
    *out = (word){*list, (size_t)(end - *list)};
    *list = *end ? end + 1 : end;
    return true;
}

static bool word_is(word w, const char *name)
{
    return strlen(name) == w.length && strncasecmp(w.at, name, w.length) == 0;
}

/* "allreduce" or "all_reduce"; -1 unknown. */
static int kind_named(word w)
{
    for (int kind = 0; kind < ACCL_SEND; kind++) {
        char joined[32];
        size_t n = 0;
        for (const char *c = accl_kinds[kind].name; *c; c++)
            if (*c != '_') joined[n++] = *c;
        joined[n] = '\0';
        if (word_is(w, joined) || word_is(w, accl_kinds[kind].name)) return kind;
    }
    return -1;
}

/* Names of NCCL that need hardware a host has not. */
static bool is_foreign(word w)
{
    static const char *const names[] = {"collnetdirect", "collnetchain", "collnet", "nvls", "nvlstree", "pat"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (word_is(w, names[i])) return true;
    return false;
}

static bool is_protocol_row(word w, const accl_algorithm *row)
{
    return word_is(w, "simple") ? row->reach != ACCL_BY_STAGE : row->reach == ACCL_BY_STAGE;
}

typedef struct {
    const char *variable, *allowed;
    bool protocol;
} filter;

static lj_status known_word(const filter *f, word w)
{
    if (f->protocol ? word_is(w, "ll") || word_is(w, "ll128") || word_is(w, "simple") : is_foreign(w)) return LJ_OK;
    for (size_t i = 0; i < accl_algorithm_count && !f->protocol; i++)
        if (word_is(w, accl_algorithms[i].name)) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s: no %s '%.*s'; known: %s", f->variable, f->protocol ? "protocol" : "algorithm", (int)w.length, w.at, f->allowed);
}

/* One "[collective:][^]a,b" of the value. */
static lj_status filter_apply(const filter *f, word part)
{
    char text[256];
    int only = -1;
    if (part.length >= sizeof text) return lj_fail(LJ_ERR_INVALID, "%s: a list of %zu characters; at most %zu", f->variable, part.length, sizeof text - 1);
    snprintf(text, sizeof text, "%.*s", (int)part.length, part.at);
    char *colon = strchr(text, ':'), *list = colon ? colon + 1 : text;
    if (colon && (only = kind_named((word){text, (size_t)(colon - text)})) < 0)
        return lj_fail(LJ_ERR_INVALID, "%s: no collective '%.*s'; known: allreduce, allgather, reducescatter, broadcast, reduce", f->variable, (int)(colon - text), text);
    bool except = *list == '^';
    list += except;
    bool listed[64] = {false};
    const char *rest = list;
    for (word w; word_next(&rest, ',', &w);) {
        LJ_TRY(known_word(f, w));
        for (size_t i = 0; i < accl_algorithm_count; i++) listed[i] |= f->protocol ? is_protocol_row(w, &accl_algorithms[i]) : word_is(w, accl_algorithms[i].name);
    }
    for (size_t i = 0; i < accl_algorithm_count; i++) {
        int kind = (int)accl_algorithms[i].kind;
        if (only >= 0 && kind != only) continue;
        if (listed[i] == except) choice.banned[i] = true;
        choice.named[kind] |= !f->protocol;
    }
    return LJ_OK;
}

static lj_status filter_read(const filter *f)
{
    const char *value = getenv(f->variable);
    if (!value) return LJ_OK;
    for (word part; word_next(&value, ';', &part);)
        if (part.length) LJ_TRY(filter_apply(f, part));
    return LJ_OK;
}

static lj_status choice_read(void)
{
    static const filter algorithms = {"NCCL_ALGO", "flat, scatter_gather, recursive_doubling, ring, tree, pairwise (and NCCL's names)", false};
    static const filter protocols = {"NCCL_PROTO", "LL, LL128, Simple", true};
    memset(choice.banned, 0, sizeof choice.banned);
    memset(choice.named, 0, sizeof choice.named);
    accl_tuner_release(&choice.tuner);
    LJ_TRY(filter_read(&algorithms));
    LJ_TRY(filter_read(&protocols));
    LJ_TRY(accl_tuner_read(&choice.tuner));
    return costs_read(&choice.model);
}

lj_status accl_choice_load(void)
{
    lj_status status = LJ_OK;
    pthread_mutex_lock(&choice.lock);
    if (!choice.loaded) status = choice_read();
    choice.loaded = status == LJ_OK;
    pthread_mutex_unlock(&choice.lock);
    return status;
}

void accl_choice_reload(void)
{
    pthread_mutex_lock(&choice.lock);
    choice.loaded = false;
    pthread_mutex_unlock(&choice.lock);
}

bool accl_inline_allowed(accl_kind kind)
{
    return !choice.named[kind];
}

/* --- the choice --- */

double accl_estimate(ncclComm_t comm, const accl_algorithm *algorithm, size_t bytes)
{
    accl_work w;
    const double *cost = choice.model.cost[comm->crowded];
    double ranks = comm->ranks, cores = lj_machine_get()->cores, share = comm->crowded && cores > 0 ? ranks / cores : 1;
    algorithm->work((double)bytes, ranks, &w);
    /* in a crowd every rank of a processor has its turn before the operation ends */
    return share * (w.syncs * cost[0] + w.copied * cost[1] + w.crossed * cost[2] + w.reduced * cost[3] + w.system * cost[4] + w.calls * cost[5]);
}

static bool row_possible(ncclComm_t comm, const accl_call *call, const accl_algorithm *row, bool mapped)
{
    if (row->kind != call->kind) return false;
    if (row->reach == ACCL_BY_MAPPING && !mapped) return false;
    if (row->reach == ACCL_BY_SYSTEM && (mapped || !comm->reads_memory || accl_call_bytes(call) < 4096)) return false;
    return row->ordered || !comm->settings.rank_order || !accl_kinds[call->kind].reduces;
}

static const accl_algorithm *cheapest(ncclComm_t comm, const accl_call *call, bool mapped, bool respect_bans, const char *tuned)
{
    const accl_algorithm *best = NULL;
    double least = 0;
    for (size_t i = 0; i < accl_algorithm_count; i++) {
        const accl_algorithm *row = &accl_algorithms[i];
        if (!row_possible(comm, call, row, mapped) || (respect_bans && choice.banned[i])) continue;
        if (tuned && strcmp(tuned, row->name) != 0) continue;
        double seconds = accl_estimate(comm, row, accl_call_bytes(call));
        if (!best || seconds < least) best = row, least = seconds;
    }
    return best;
}

static const accl_algorithm *choose(ncclComm_t comm, const accl_call *call, bool mapped)
{
    const char *tuned = accl_tuner_find(&choice.tuner, call->kind, accl_call_bytes(call), comm->ranks);
    const accl_algorithm *row = tuned ? cheapest(comm, call, mapped, true, tuned) : NULL;
    if (!row) row = cheapest(comm, call, mapped, true, NULL);
    if (row) return row;
    lj_fallback("accl-algorithm", "NCCL_ALGO and NCCL_PROTO leave no algorithm for a collective on this host; the cost model chooses", "unset them, or name one of docs/accl.md");
    return cheapest(comm, call, mapped, false, NULL);
}

/* Choices are made for powers of two (a size takes the next one's) and remembered; a tuner file has limits of its own. */
const accl_algorithm *accl_choose(ncclComm_t comm, const accl_call *call, bool mapped)
{
    size_t element = lj_dtype_bytes(call->arith.type), bytes = call->count * element;
    unsigned step = bytes < 2 ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1);
    if (choice.tuner.count || step >= ACCL_CHOICE_SIZES) return choose(comm, call, mapped);
    const accl_algorithm **remembered = &comm->choices[call->kind][mapped][step];
    const accl_algorithm *row = __atomic_load_n(remembered, __ATOMIC_RELAXED);
    if (row) return row;
    accl_call rounded = *call;
    rounded.count = ((size_t)1 << step) / element ? ((size_t)1 << step) / element : 1;
    row = choose(comm, &rounded, mapped);
    __atomic_store_n(remembered, row, __ATOMIC_RELAXED);
    return row;
}

bool accl_streams_pay(ncclComm_t comm, const accl_call *call)
{
    /* results of all ranks together that the last-level cache cannot keep until they are read */
    double cache = comm->cache_bytes, bytes = (double)(accl_kinds[call->kind].is_message ? accl_call_bytes(call) : accl_call_recv_bytes(call, comm->ranks)) * comm->ranks;
    return bytes >= cache / 2;
}

size_t accl_mapped_from(ncclComm_t comm, const accl_call *call)
{
    return comm->crowded ? 32768 : call->kind == ACCL_ALL_REDUCE ? 16384 : 8192;
}

size_t accl_piece_bytes(const accl_task *task, size_t share, size_t *slots)
{
    *slots = task->comm->crowded ? 2 : 4;
    size_t bytes = ACCL_STAGE_HALF / share / *slots / ACCL_LINE * ACCL_LINE;
    return bytes ? bytes : ACCL_LINE;
}
