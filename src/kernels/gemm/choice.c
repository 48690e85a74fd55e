/* Measured choices. One text file a machine class under the cache folder; a line a shape:
 *   KEY<tab>PROVIDER<tab>onednn=GFLOPS<tab>own=GFLOPS
 * Shapes are clipped before they are keyed and measured: beyond a few thousand the winner no longer changes, and measuring stays
 * cheap and small. Writers hold a lock file, read what others added, and replace the file at once. */
#include "kernels/gemm/choice.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"

#include <oneapi/dnnl/dnnl_version.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { CLIP_M = 2048, CLIP_N = 3072, CLIP_K = 2048, CLIP_BATCH = 4, ROUNDS = 7, MOST_CANDIDATES = 4, OWN_VERSION = 2 };
#define MEASURE_SECONDS 0.03 /* a provider is not run again once its runs took this long */
#define OWN_CREDIT 1.02

const lj_gemm_provider_row *const lj_gemm_providers[] = {&lj_gemm_onednn, &lj_gemm_own, &lj_gemm_plain, NULL};

typedef struct {
    char key[128], provider[16], figures[96];
} choice;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static choice *choices;
static size_t choice_count, choice_capacity;
static bool loaded;

static lj_status path_get(char *buffer, size_t capacity)
{
    char folder[2048];
    LJ_TRY(lj_cache_folder(folder, sizeof folder));
    if (snprintf(buffer, capacity, "%s/gemm-%s.txt", folder, lj_machine_class()) >= (int)capacity)
        return lj_fail(LJ_ERR_LIMIT, "cache folder name is too long");
    return lj_folder_create(folder, 0700);
}

/* A file of other versions is measured anew. */
static void header_print(char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "# ljperf gemm choices 1, oneDNN %d.%d.%d, own %d\n", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH,
             OWN_VERSION);
}

static choice *choice_find(const char *key)
{
    for (size_t i = 0; i < choice_count; i++)
        if (strcmp(choices[i].key, key) == 0) return &choices[i];
    return NULL;
}

static lj_status choice_add(const choice *row)
{
    if (choice_find(row->key)) return LJ_OK;
    if (choice_count == choice_capacity) {
        size_t capacity = choice_capacity ? 2 * choice_capacity : 64;
        choice *grown = realloc(choices, capacity * sizeof *grown);
        if (!grown) return lj_fail(LJ_ERR_NOMEM, "gemm choices: could not get %zu bytes", capacity * sizeof *grown);
        choices = grown, choice_capacity = capacity;
    }
    choices[choice_count++] = *row;
    return LJ_OK;
}

/* "key\tprovider\tfigures": false for a line that is not one of ours. */
static bool line_parse(const char *line, size_t length, choice *row)
{
    char text[320];
    if (length >= sizeof text) return false;
    memcpy(text, line, length);
    text[length] = 0;
    char *provider = strchr(text, '\t'), *figures = provider ? strchr(provider + 1, '\t') : NULL;
    if (!figures) return false;
    *provider++ = 0, *figures++ = 0;
    snprintf(row->key, sizeof row->key, "%s", text);
    snprintf(row->provider, sizeof row->provider, "%s", provider);
    snprintf(row->figures, sizeof row->figures, "%s", figures);
    return true;
}

/* Adds what the file has. An absent file is an empty one. */
static lj_status file_read(const char *path)
{
    lj_mapped_file file;
    char header[128];
    if (access(path, F_OK) != 0) return LJ_OK;
    LJ_TRY(lj_mapped_file_init(&file, path));
    header_print(header, sizeof header);
    const char *at = (const char *)file.data, *end = at + file.bytes;
    lj_status status = LJ_OK;
    bool ours = file.bytes >= strlen(header) && memcmp(at, header, strlen(header)) == 0;
    while (ours && status == LJ_OK && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = newline ? (size_t)(newline - at) : (size_t)(end - at);
        choice row;
        if (line_parse(at, length, &row)) status = choice_add(&row);
        at += length + 1;
    }
    lj_mapped_file_release(&file);
    return status;
}

static lj_status file_write(const char *path)
{
    lj_text text;
    char header[128];
    lj_text_init(&text);
    header_print(header, sizeof header);
    lj_text_add(&text, "%s", header);
    for (size_t i = 0; i < choice_count; i++) lj_text_add(&text, "%s\t%s\t%s\n", choices[i].key, choices[i].provider, choices[i].figures);
    lj_status status = lj_text_status(&text);
    if (status == LJ_OK) status = lj_file_write(path, text.data, text.length);
    lj_text_release(&text);
    return status;
}

/* Under the lock file: read what others added, add ours, replace. */
static lj_status file_merge(const char *path)
{
    char lock_path[2304];
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return lj_fail_errno("open", lock_path);
    lj_status status = flock(fd, LOCK_EX) == 0 ? LJ_OK : lj_fail_errno("lock", lock_path);
    if (status == LJ_OK) status = file_read(path);
    if (status == LJ_OK) status = file_write(path);
    close(fd);
    return status;
}

static int64_t clip(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

/* What stands for this shape: dense, clipped. */
static lj_gemm_desc clipped(const lj_gemm_desc *d)
{
    lj_gemm_desc c = *d;
    c.m = clip(d->m, CLIP_M), c.n = clip(d->n, CLIP_N), c.k = clip(d->k, CLIP_K), c.batch = clip(d->batch, CLIP_BATCH);
    c.lda = d->trans_a ? c.m : c.k, c.ldb = d->trans_b ? c.k : c.n, c.ldc = c.n;
    c.stride_a = c.m * c.k, c.stride_b = d->share_b ? 0 : c.k * c.n, c.stride_c = c.m * c.n;
    return c;
}

static void key_print(const lj_gemm_desc *c, int threads, char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "t%d %sx%s->%s %c%c%s%s m%lld n%lld k%lld batch%lld%s", threads, lj_dtype_name(c->a_type), lj_dtype_name(c->b_type),
             lj_dtype_name(c->c_type), c->trans_a ? 'T' : 'N', c->trans_b ? 'T' : 'N', c->accumulate ? " add" : "", c->packed_b ? " packed" : "",
             (long long)c->m, (long long)c->n, (long long)c->k, (long long)c->batch, c->share_b ? " shared" : "");
}

/* One provider under measurement. */
typedef struct {
    const lj_gemm_provider_row *provider;
    lj_gemm *gemm;
    void *packed, *scratch;
    double best, spent; /* seconds */
} candidate;

typedef struct {
    void *a, *b, *c;
    candidate candidates[MOST_CANDIDATES];
    int count;
} contest;

static lj_status buffer_get(size_t bytes, void **out)
{
    LJ_TRY(lj_alloc("gemm.measure", bytes, out));
    memset(*out, 0x3c, bytes); /* 0.01 as bf16 and as f32 */
    return LJ_OK;
}

static void contest_release(contest *s)
{
    for (int i = 0; i < s->count; i++) {
        lj_gemm_destroy(s->candidates[i].gemm);
        lj_free(s->candidates[i].packed), lj_free(s->candidates[i].scratch);
    }
    lj_free(s->a), lj_free(s->b), lj_free(s->c);
}

static lj_status operands_get(const lj_gemm_desc *c, contest *s)
{
    LJ_TRY(buffer_get((size_t)(c->batch * c->m * c->k) * lj_dtype_bytes(c->a_type), &s->a));
    LJ_TRY(buffer_get((size_t)((c->share_b ? 1 : c->batch) * c->k * c->n) * lj_dtype_bytes(c->b_type), &s->b));
    return buffer_get((size_t)(c->batch * c->m * c->n) * lj_dtype_bytes(c->c_type), &s->c);
}

/* One run, timed unless it is the first (which warms up). */
static lj_status candidate_run(contest *s, candidate *x, bool timed)
{
    double start = lj_now_s();
    LJ_TRY(lj_gemm_run(x->gemm, s->a, x->packed ? x->packed : s->b, s->c, x->scratch));
    double took = lj_now_s() - start;
    if (timed) x->spent += took;
    if (timed && (x->best == 0 || took < x->best)) x->best = took;
    return LJ_OK;
}

static lj_status candidate_prepare(const lj_gemm_desc *c, int threads, contest *s, candidate *x)
{
    LJ_TRY(lj_gemm_create_with(c, threads, x->provider, &x->gemm));
    LJ_TRY(buffer_get(lj_gemm_scratch_bytes(x->gemm), &x->scratch));
    if (c->packed_b) {
        LJ_TRY(buffer_get(lj_gemm_packed_bytes(x->gemm), &x->packed));
        LJ_TRY(lj_gemm_pack_b(x->gemm, s->b, x->packed));
    }
    return candidate_run(s, x, false);
}

/* Every provider that can, but plain (taken only when nothing else can). */
static lj_status candidates_get(const lj_gemm_desc *c, int threads, contest *s)
{
    for (int i = 0; lj_gemm_providers[i] && lj_gemm_providers[i] != &lj_gemm_plain; i++) {
        candidate *x = &s->candidates[s->count];
        if (!lj_gemm_providers[i]->supports(c)) continue;
        *x = (candidate){.provider = lj_gemm_providers[i]};
        lj_status status = candidate_prepare(c, threads, s, x);
        if (status == LJ_OK || x->gemm) s->count++; /* what was made is released with the contest */
        if (status != LJ_OK && status != LJ_ERR_UNSUPPORTED) return status;
    }
    return LJ_OK;
}

/* In turns, so that a disturbance meets all of them. */
static lj_status rounds_run(contest *s)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < s->count; i++)
            if (round == 0 || s->candidates[i].spent < MEASURE_SECONDS) LJ_TRY(candidate_run(s, &s->candidates[i], true));
    return LJ_OK;
}

/* The fastest; ours when it is nearly so, since it works on tails while they are hot. */
static void winner_print(const lj_gemm_desc *c, const contest *s, choice *row)
{
    double best = 0, flops = 2e-9 * (double)c->batch * (double)c->m * (double)c->n * (double)c->k;
    size_t used = 0;
    for (int i = 0; i < s->count; i++) {
        const candidate *x = &s->candidates[i];
        double gflops = flops / (x->best > 1e-9 ? x->best : 1e-9), credit = gflops * (x->provider == &lj_gemm_own ? OWN_CREDIT : 1);
        used += (size_t)snprintf(row->figures + used, sizeof row->figures - used, "%s%s=%.1f", used ? "\t" : "", x->provider->name, gflops);
        if (credit <= best) continue;
        best = credit;
        snprintf(row->provider, sizeof row->provider, "%s", x->provider->name);
    }
}

static lj_status measure(const lj_gemm_desc *c, int threads, choice *row)
{
    contest s = {0};
    snprintf(row->provider, sizeof row->provider, "plain");
    row->figures[0] = 0;
    lj_status status = operands_get(c, &s);
    if (status == LJ_OK) status = candidates_get(c, threads, &s);
    if (status == LJ_OK) status = rounds_run(&s);
    if (status == LJ_OK) winner_print(c, &s, row);
    contest_release(&s);
    return status;
}

static const lj_gemm_provider_row *provider_find(const char *name)
{
    for (int i = 0; lj_gemm_providers[i]; i++)
        if (strcmp(lj_gemm_providers[i]->name, name) == 0) return lj_gemm_providers[i];
    return NULL;
}

static lj_status forced(const char *name, const lj_gemm_desc *desc, const lj_gemm_provider_row **provider)
{
    const lj_gemm_provider_row *row = provider_find(name);
    if (!row) return lj_fail(LJ_ERR_NOT_FOUND, "LJPERF_GEMM is '%s'; take onednn, own or plain", name);
    if (!row->supports(desc))
        return lj_fail(LJ_ERR_UNSUPPORTED, "LJPERF_GEMM=%s has no %s x %s -> %s product; unset it or take plain", name,
                       lj_dtype_name(desc->a_type), lj_dtype_name(desc->b_type), lj_dtype_name(desc->c_type));
    *provider = row;
    return LJ_OK;
}

/* Without a cache folder choices live as long as the process. */
static lj_status keep(void)
{
    char path[2200];
    lj_status status = path_get(path, sizeof path);
    if (status == LJ_OK) status = file_merge(path);
    if (status == LJ_OK) return LJ_OK;
    char reason[256]; /* the message's own buffer is written next */
    snprintf(reason, sizeof reason, "%s", lj_error_message());
    return lj_fallback("gemm.choices", reason, "set LJPERF_CACHE to a writable folder; until then every process measures again");
}

static void load_once(void)
{
    char path[2200];
    if (loaded) return;
    loaded = true;
    if (path_get(path, sizeof path) == LJ_OK) (void)file_read(path); /* what cannot be read is measured; keep() reports */
}

lj_status lj_gemm_choose(const lj_gemm_desc *desc, int threads, const lj_gemm_provider_row **provider)
{
    const char *force = getenv("LJPERF_GEMM");
    if (force && *force) return forced(force, desc, provider);
    if (!lj_gemm_onednn.supports(desc) && !lj_gemm_own.supports(desc)) {
        *provider = &lj_gemm_plain;
        return LJ_OK;
    }
    lj_gemm_desc small = clipped(desc);
    choice row = {.key = ""};
    lj_status status = LJ_OK;
    key_print(&small, threads, row.key, sizeof row.key);
    pthread_mutex_lock(&lock);
    load_once();
    const choice *known = choice_find(row.key);
    if (!known) {
        status = measure(&small, threads, &row);
        if (status == LJ_OK) status = choice_add(&row);
        if (status == LJ_OK) status = keep();
        known = choice_find(row.key);
    }
    if (status == LJ_OK) *provider = provider_find(known->provider);
    if (status == LJ_OK && !*provider) status = lj_fail(LJ_ERR_FORMAT, "gemm choices name a provider '%s'; delete that file", known->provider);
    pthread_mutex_unlock(&lock);
    return status;
}

lj_status lj_gemm_choices_print(lj_text *out)
{
    pthread_mutex_lock(&lock);
    load_once();
    for (size_t i = 0; i < choice_count; i++) lj_text_add(out, "%-64s %-8s %s\n", choices[i].key, choices[i].provider, choices[i].figures);
    pthread_mutex_unlock(&lock);
    return lj_text_status(out);
}
