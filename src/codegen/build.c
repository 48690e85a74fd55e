/* From kernel graphs to loaded functions: lower, print, look in process, pack and cache, compile what is missing. */
#define _GNU_SOURCE
#include "codegen/kernel.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "codegen/cache.h"
#include "codegen/compiler.h"
#include "codegen/emit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* Changes when the same text shall be compiled anew. */
#define GENERATOR "ljperf kernels 1"

enum { KEY_CHARS = 40, UNIT_KERNELS = 8 };

static const double compile_timeout_s = 300;

/* A loaded kernel in the process-wide list. */
typedef struct held {
    lj_kernel kernel; /* first: a pointer to it is a pointer to us */
    struct held *next;
    size_t references;
    void *library;
    char key[KEY_CHARS];
    char *text;
} held;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static held *loaded;
static lj_kernel_counters counters;

/* One distinct kernel that a call wants. */
typedef struct {
    lj_source source;
    int input_count, result_count;
    char name[KEY_CHARS];  /* of the text for this ISA: symbol, pack entry */
    char entry[KEY_CHARS]; /* of that and the compiler: cache entry */
    int lock_fd;           /* -1: not ours to build */
    held *made;
} wanted;

typedef struct {
    wanted *items;
    size_t count;
    lj_isa isa;
    lj_kernel_cache cache, pack;
    bool has_pack;
    lj_compiler compiler;
    lj_status compiler_status; /* LJ_OK: there is one */
    char compiler_message[700];
} build;

lj_kernel_counters lj_kernel_counters_get(void)
{
    pthread_mutex_lock(&lock);
    lj_kernel_counters now = counters;
    pthread_mutex_unlock(&lock);
    return now;
}

/* -- the process's kernels ------------------------------------------------------------------------------------------------- */

static held *find_loaded(const char *key)
{
    pthread_mutex_lock(&lock);
    held *at = loaded;
    while (at && strcmp(at->key, key) != 0) at = at->next;
    if (at) at->references++;
    pthread_mutex_unlock(&lock);
    return at;
}

lj_kernel *lj_kernel_retain(lj_kernel *kernel)
{
    pthread_mutex_lock(&lock);
    ((held *)kernel)->references++;
    pthread_mutex_unlock(&lock);
    return kernel;
}

static void unlink_held(held *gone)
{
    held **at = &loaded;
    while (*at && *at != gone) at = &(*at)->next;
    if (*at) *at = gone->next;
}

void lj_kernel_destroy(lj_kernel *kernel)
{
    held *at = (held *)kernel;
    if (!at) return;
    pthread_mutex_lock(&lock);
    bool last = --at->references == 0;
    if (last) unlink_held(at);
    pthread_mutex_unlock(&lock);
    if (!last) return;
    if (at->library) dlclose(at->library);
    lj_free(at->text);
    lj_free(at);
}

static lj_status keep_text(const wanted *item, char **out)
{
    lj_text text;
    lj_text_init(&text);
    lj_print_named(&text, item->source.run.data, item->name);
    if (item->source.finish.length) lj_print_named(&text, item->source.finish.data, item->name);
    lj_status status = lj_text_status(&text);
    if (status != LJ_OK)
        lj_text_release(&text);
    else
        *out = text.data; /* freed as any block */
    return status;
}

static lj_status load(const wanted *item, const char *path, held **out)
{
    char finish[KEY_CHARS + 8];
    held *made;
    bool finishes = item->source.finish.length > 0;
    LJ_TRY(lj_alloc_zero("kernel", sizeof *made, (void **)&made));
    lj_status status = keep_text(item, &made->text);
    if (status != LJ_OK) goto fail;
    made->library = lj_fault("dlopen", path) ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!made->library) {
        const char *said = dlerror();
        status = lj_fail(LJ_ERR_IO, "load kernel %s: %s", path, said ? said : "no reason given");
        goto fail;
    }
    snprintf(finish, sizeof finish, "%s_finish", item->name);
    *(void **)&made->kernel.run = dlsym(made->library, item->name);
    *(void **)&made->kernel.finish = finishes ? dlsym(made->library, finish) : NULL;
    if (!made->kernel.run || (finishes && !made->kernel.finish)) {
        status = lj_fail(LJ_ERR_FORMAT, "load kernel %s: function %s is not in it; remove the file", path, item->name);
        goto fail;
    }
    snprintf(made->key, sizeof made->key, "%s", item->name);
    made->kernel.name = made->key, made->kernel.text = made->text, made->kernel.scratch_bytes = item->source.scratch_bytes;
    made->kernel.input_count = item->input_count, made->kernel.result_count = item->result_count;
    made->references = 1;
    *out = made;
    return LJ_OK;
fail:
    if (made->library) dlclose(made->library);
    lj_free(made->text);
    lj_free(made);
    return status;
}

/* Joins the list; when another thread was faster, its kernel is taken instead. */
static held *publish(held *made)
{
    pthread_mutex_lock(&lock);
    held *there = loaded;
    while (there && strcmp(there->key, made->key) != 0) there = there->next;
    if (there)
        there->references++;
    else
        made->next = loaded, loaded = made;
    pthread_mutex_unlock(&lock);
    if (there) lj_kernel_destroy(&made->kernel);
    return there ? there : made;
}

/* -- keys ------------------------------------------------------------------------------------------------------------------ */

static void hash_key(char *out, const char *prefix, const void *data, size_t bytes, const char *more)
{
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, data, bytes);
    XXH3_128bits_update(state, more, strlen(more));
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(out, KEY_CHARS, "%s%016llx%016llx", prefix, (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* The name covers everything that the kernel's code depends on but the compiler. */
static lj_status name_item(const build *b, wanted *item)
{
    lj_text unit;
    const lj_source *source = &item->source;
    const char *name = "kernel";
    lj_text_init(&unit);
    lj_status status = lj_print_unit(&unit, LJ_DIALECT_HOST_C, &source, &name, 1, lj_isa_vector_bytes(b->isa));
    char more[640];
    snprintf(more, sizeof more, "%s\n%s", GENERATOR, lj_compiler_flags(b->isa));
    if (status == LJ_OK) hash_key(item->name, "k_", unit.data, unit.length, more);
    lj_text_release(&unit);
    return status;
}

static void name_entries(build *b)
{
    for (size_t i = 0; i < b->count; i++)
        hash_key(b->items[i].entry, "c_", b->items[i].name, strlen(b->items[i].name), b->compiler.identity);
}

/* -- finding --------------------------------------------------------------------------------------------------------------- */

static void count_hit(void)
{
    pthread_mutex_lock(&lock);
    counters.cache_hits++;
    pthread_mutex_unlock(&lock);
}

static lj_status load_from(const lj_kernel_cache *cache, const char *key, wanted *item)
{
    char path[1200];
    bool found;
    held *made = NULL;
    LJ_TRY(lj_kernel_cache_find(cache, key, path, sizeof path, &found));
    if (!found) return LJ_OK;
    LJ_TRY(load(item, path, &made));
    item->made = publish(made);
    return LJ_OK;
}

static lj_status find_ready(build *b, wanted *item)
{
    item->made = find_loaded(item->name);
    if (!item->made && b->has_pack) LJ_TRY(load_from(&b->pack, item->name, item));
    if (!item->made && *b->compiler.identity) LJ_TRY(load_from(&b->cache, item->entry, item));
    if (item->made) count_hit();
    return LJ_OK;
}

static size_t missing(const build *b)
{
    size_t count = 0;
    for (size_t i = 0; i < b->count; i++) count += b->items[i].made == NULL;
    return count;
}

/* -- compiling ------------------------------------------------------------------------------------------------------------- */

/* Kernels that are compiled in one process. */
typedef struct {
    wanted *members[UNIT_KERNELS];
    size_t count;
    char source[1200], object[1200];
    lj_compile_job job;
    bool running;
} unit;

static lj_status write_unit(const build *b, unit *u)
{
    const lj_source *sources[UNIT_KERNELS];
    const char *names[UNIT_KERNELS];
    lj_text text;
    lj_text_init(&text);
    for (size_t i = 0; i < u->count; i++) sources[i] = &u->members[i]->source, names[i] = u->members[i]->name;
    lj_status status = lj_print_unit(&text, LJ_DIALECT_HOST_C, sources, names, u->count, lj_isa_vector_bytes(b->isa));
    if (status == LJ_OK && lj_fault("write", u->source)) status = lj_fail(LJ_ERR_IO, "write %s: no space left on device", u->source);
    if (status == LJ_OK) status = lj_file_write(u->source, text.data, text.length);
    lj_text_release(&text);
    return status;
}

static lj_status start_unit(const build *b, unit *u)
{
    /* Named after a kernel whose lock we hold: nobody else writes there. */
    snprintf(u->source, sizeof u->source, "%s/%s.unit.c", b->cache.folder, u->members[0]->entry);
    snprintf(u->object, sizeof u->object, "%s/%s.unit.o", b->cache.folder, u->members[0]->entry);
    LJ_TRY(write_unit(b, u));
    LJ_TRY(lj_compiler_start(&b->compiler, b->isa, u->source, u->object, &u->job));
    u->running = true;
    pthread_mutex_lock(&lock);
    counters.compiles++;
    pthread_mutex_unlock(&lock);
    return LJ_OK;
}

static lj_status finish_unit(const build *b, unit *u)
{
    const char *keys[UNIT_KERNELS];
    u->running = false;
    LJ_TRY(lj_compiler_wait(&u->job, compile_timeout_s));
    for (size_t i = 0; i < u->count; i++) keys[i] = u->members[i]->entry;
    return lj_kernel_cache_add(&b->cache, u->object, keys, u->count);
}

static lj_status run_units(const build *b, unit *units, size_t count)
{
    size_t most = (size_t)lj_machine_get()->cores, started = 0;
    lj_status status = LJ_OK;
    char message[1200] = "";
    for (size_t done = 0; done < count; done++) {
        while (status == LJ_OK && started < count && started < done + most) status = start_unit(b, &units[started++]);
        if (status != LJ_OK && !*message) snprintf(message, sizeof message, "%s", lj_error_message());
        if (units[done].running) {
            lj_status ended = finish_unit(b, &units[done]);
            if (status == LJ_OK && ended != LJ_OK) {
                status = ended;
                snprintf(message, sizeof message, "%s", lj_error_message());
            }
        }
        if (*units[done].source) unlink(units[done].source);
        if (*units[done].object) unlink(units[done].object);
    }
    if (status != LJ_OK) lj_error_set(message);
    return status;
}

/* Spreads our missing kernels over units: at least one a core, at most UNIT_KERNELS in each. */
static lj_status compile_ours(build *b)
{
    size_t ours = 0, at = 0, cores = (size_t)lj_machine_get()->cores;
    for (size_t i = 0; i < b->count; i++) ours += b->items[i].lock_fd >= 0;
    if (!ours) return LJ_OK;
    size_t count = (ours + UNIT_KERNELS - 1) / UNIT_KERNELS;
    if (count < cores) count = ours < cores ? ours : cores;
    unit *units;
    LJ_TRY(lj_alloc_zero("kernel units", count * sizeof *units, (void **)&units));
    for (size_t i = 0; i < b->count; i++) {
        if (b->items[i].lock_fd < 0) continue;
        unit *u = &units[at++ % count];
        u->members[u->count++] = &b->items[i];
    }
    lj_status status = run_units(b, units, count);
    lj_free(units);
    return status;
}

static lj_status no_compiler(const build *b)
{
    return lj_fail(b->compiler_status, "%s", b->compiler_message);
}

/* Takes the locks that are free, and looks again: the entry may have come while we looked. */
static lj_status take_locks(build *b)
{
    for (size_t i = 0; i < b->count; i++) {
        wanted *item = &b->items[i];
        if (item->made) continue;
        LJ_TRY(lj_kernel_cache_try_lock(&b->cache, item->entry, &item->lock_fd));
        if (item->lock_fd < 0) continue;
        LJ_TRY(load_from(&b->cache, item->entry, item));
        if (!item->made) continue;
        lj_kernel_cache_unlock(&b->cache, item->entry, item->lock_fd);
        item->lock_fd = -1;
    }
    return LJ_OK;
}

static void release_locks(build *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->items[i].lock_fd >= 0) lj_kernel_cache_unlock(&b->cache, b->items[i].entry, b->items[i].lock_fd);
        b->items[i].lock_fd = -1;
    }
}

/* One round: build what is ours, wait for what others build, load all that is there. */
static lj_status build_round(build *b)
{
    lj_status status = take_locks(b);
    if (status == LJ_OK) status = compile_ours(b);
    for (size_t i = 0; i < b->count && status == LJ_OK; i++)
        if (!b->items[i].made && b->items[i].lock_fd >= 0) status = load_from(&b->cache, b->items[i].entry, &b->items[i]);
    release_locks(b);
    for (size_t i = 0; i < b->count && status == LJ_OK; i++) {
        wanted *item = &b->items[i];
        if (item->made) continue;
        status = lj_kernel_cache_wait(&b->cache, item->entry, compile_timeout_s);
        if (status == LJ_OK) status = load_from(&b->cache, item->entry, item);
    }
    return status;
}

static uint64_t cache_limit(void)
{
    const char *text = getenv("LJPERF_KERNEL_CACHE_SIZE");
    uint64_t bytes;
    return text && *text && lj_size_parse(text, &bytes) == LJ_OK ? bytes : (uint64_t)512 << 20;
}

static lj_status build_missing(build *b)
{
    if (b->compiler_status != LJ_OK) return no_compiler(b);
    lj_status noted = lj_kernel_cache_note(&b->cache, "last-compiler", b->compiler.identity);
    if (noted != LJ_OK) lj_log(LJ_LOG_INFO, "kernel cache: %s", lj_error_message());
    for (int round = 0; round < 4 && missing(b); round++) LJ_TRY(build_round(b)); /* another process may fail what we wait for */
    if (missing(b)) return lj_fail(LJ_ERR_COMPILER, "%zu kernels do not appear in %s although they were compiled", missing(b), b->cache.folder);
    return lj_kernel_cache_trim(&b->cache, cache_limit());
}

/* -- the call -------------------------------------------------------------------------------------------------------------- */

static lj_status lower_item(build *b, const lj_graph *graph, wanted *item)
{
    lj_lowered *lowered;
    lj_source_init(&item->source);
    item->lock_fd = -1;
    LJ_TRY(lj_lower(graph, &lowered));
    lj_status status = lj_emit_host_c(lowered, &item->source);
    lj_lowered_destroy(lowered);
    for (size_t i = 0; i < graph->node_count; i++) item->input_count += graph->nodes[i].op == LJ_OP_input && !graph->nodes[i].dead;
    item->result_count = (int)graph->result_count;
    return status == LJ_OK ? name_item(b, item) : status;
}

static size_t same_item(const build *b, const wanted *item)
{
    size_t i = 0;
    while (i < b->count && strcmp(b->items[i].name, item->name) != 0) i++;
    return i;
}

/* Distinct kernels of the list; which[i] is graph i's. */
static lj_status collect(build *b, const lj_graph *const *graphs, size_t count, size_t *which)
{
    for (size_t i = 0; i < count; i++) {
        wanted *item = &b->items[b->count];
        lj_status status = lower_item(b, graphs[i], item);
        if (status != LJ_OK) {
            lj_source_release(&item->source);
            return lj_fail_in(status, "kernel %zu of %zu", i + 1, count);
        }
        which[i] = same_item(b, item);
        if (which[i] < b->count) {
            lj_source_release(&item->source);
            memset(item, 0, sizeof *item);
        } else
            b->count++;
    }
    return LJ_OK;
}

/* Without a compiler, the cache of the last one is still good. */
static void find_compiler(build *b)
{
    b->compiler_status = lj_compiler_find(&b->compiler);
    if (b->compiler_status == LJ_OK) return;
    snprintf(b->compiler_message, sizeof b->compiler_message, "%s", lj_error_message());
    if (!lj_kernel_cache_noted(&b->cache, "last-compiler", b->compiler.identity, sizeof b->compiler.identity)) *b->compiler.identity = 0;
}

static lj_status find_and_build(build *b)
{
    for (size_t i = 0; i < b->count; i++) b->items[i].made = find_loaded(b->items[i].name);
    size_t at_once = b->count - missing(b);
    for (size_t i = 0; i < at_once; i++) count_hit();
    if (!missing(b)) return LJ_OK;
    LJ_TRY(lj_kernel_pack_open(&b->pack, &b->has_pack));
    LJ_TRY(lj_kernel_cache_open(&b->cache));
    find_compiler(b);
    name_entries(b);
    lj_status status = LJ_OK;
    for (size_t i = 0; i < b->count && status == LJ_OK; i++)
        if (!b->items[i].made) status = find_ready(b, &b->items[i]);
    if (status == LJ_OK && missing(b)) status = build_missing(b);
    lj_kernel_cache_close(&b->cache);
    return status;
}

static void drop(build *b, bool made)
{
    for (size_t i = 0; i < b->count; i++) {
        lj_source_release(&b->items[i].source);
        if (made && b->items[i].made) lj_kernel_destroy(&b->items[i].made->kernel);
    }
    lj_free(b->items);
}

/* Each use of a distinct kernel is one reference; the build itself holds one. */
static void hand_out(build *b, const size_t *which, size_t count, lj_kernel **kernels)
{
    for (size_t i = 0; i < count; i++) kernels[i] = lj_kernel_retain(&b->items[which[i]].made->kernel);
}

lj_status lj_kernels_build(const lj_graph *const *graphs, size_t count, lj_kernel **kernels)
{
    build b = {.isa = lj_machine_get()->isa};
    size_t *which;
    double start = lj_now_s();
    LJ_TRY(lj_alloc_zero("kernel build", (count + 1) * sizeof *b.items, (void **)&b.items));
    lj_status status = lj_alloc("kernel build", (count + 1) * sizeof *which, (void **)&which);
    if (status != LJ_OK) {
        lj_free(b.items);
        return status;
    }
    status = collect(&b, graphs, count, which);
    if (status == LJ_OK) status = find_and_build(&b);
    if (status == LJ_OK) hand_out(&b, which, count, kernels);
    drop(&b, true);
    lj_free(which);
    pthread_mutex_lock(&lock);
    counters.compile_s += lj_now_s() - start;
    pthread_mutex_unlock(&lock);
    return status;
}

/* -- cost ------------------------------------------------------------------------------------------------------------------ */

double lj_kernel_graph_flops(const lj_graph *graph, const int64_t *sizes)
{
    double flops = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        if (!graph->nodes[i].dead) flops += lj_node_flops(graph, &graph->nodes[i], sizes);
    return flops;
}

double lj_kernel_graph_bytes(const lj_graph *graph, const int64_t *sizes)
{
    double bytes = 0;
    size_t of;
    for (size_t i = 0; i < graph->node_count; i++) {
        const lj_node *node = &graph->nodes[i];
        if (node->op == LJ_OP_input && !node->dead && lj_type_bytes(lj_type_get(graph, node->output), sizes, &of) == LJ_OK) bytes += (double)of;
    }
    for (size_t r = 0; r < graph->result_count; r++)
        if (lj_type_bytes(lj_type_get(graph, graph->results[r].value), sizes, &of) == LJ_OK) bytes += (double)of;
    return bytes;
}
