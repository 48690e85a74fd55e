/* Load of a GGUF's weights to bf16 in fresh memory against a copy of the same bytes by the same number of threads into fresh pages.
 * Two copies are timed: of the bytes that the load writes (bf16), and of the file's own bytes. Pairs are interleaved.
 *
 *     load_gguf FILE THREADS ROUNDS    -> one line a round: seconds of load, of the bf16 copy, of the file copy; then the bytes of both */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Thread `index` of `threads` copies its contiguous share. */
typedef struct {
    char *to;
    const char *from;
    size_t bytes;
    int threads;
} copy_state;

static lj_status copy_share(void *user, size_t index)
{
    const copy_state *s = user;
    size_t start = s->bytes * index / (size_t)s->threads, end = s->bytes * (index + 1) / (size_t)s->threads;
    memcpy(s->to + start, s->from + start, end - start);
    return LJ_OK;
}

static lj_status copy_timed(const char *from, size_t bytes, int threads, double *seconds)
{
    void *to;
    double start = lj_now_s();
    LJ_TRY(lj_alloc("copy", bytes, &to));
    copy_state state = {to, from, bytes, threads};
    LJ_TRY(lj_parallel_for(threads, (size_t)threads, copy_share, &state));
    *seconds = lj_now_s() - start;
    lj_free(to);
    return LJ_OK;
}

/* Everything a load is: open, check, one allocation, all tensors. */
static lj_status load_timed(const char *path, int threads, double *seconds, char **kept, size_t *bytes)
{
    lj_weights *w;
    lj_weights_report report;
    void *memory;
    double start = lj_now_s();
    LJ_TRY(lj_weights_open(path, &w));
    LJ_TRY(lj_weights_check_model(w, lj_weights_config(w), false, &report));
    lj_weights_report_release(&report);
    size_t count = lj_weights_count(w), used = 0;
    lj_weight_job *jobs = calloc(count, sizeof *jobs);
    *bytes = 0;
    for (size_t i = 0; i < count; i++) *bytes += (size_t)(lj_weights_get(w, i)->rows * lj_weights_get(w, i)->columns) * 2;
    LJ_TRY(lj_alloc("load", *bytes, &memory));
    for (size_t i = 0; i < count; i++) {
        lj_weight *item = lj_weights_get(w, i);
        jobs[i] = (lj_weight_job){item, 0, item->rows, LJ_BF16, (char *)memory + used};
        used += (size_t)(item->rows * item->columns) * 2;
    }
    LJ_TRY(lj_weights_load(w, jobs, count, threads, NULL, NULL));
    *seconds = lj_now_s() - start;
    lj_weights_close(w);
    free(jobs);
    *kept = memory;
    return LJ_OK;
}

static lj_status run(const char *path, int threads, int rounds)
{
    lj_mapped_file file;
    size_t bytes = 0, touched = 0;
    LJ_TRY(lj_mapped_file_init(&file, path));
    for (size_t i = 0; i < file.bytes; i += 4096) touched += file.data[i]; /* the page cache and our mapping are warm */
    for (int i = -1; i < rounds; i++) {
        char *loaded;
        double load, wide, narrow;
        LJ_TRY(load_timed(path, threads, &load, &loaded, &bytes));
        LJ_TRY(copy_timed(loaded, bytes, threads, &wide));
        LJ_TRY(copy_timed((const char *)file.data, file.bytes, threads, &narrow));
        lj_free(loaded);
        if (i >= 0) printf("%.6f %.6f %.6f\n", load, wide, narrow); /* the first round warms up */
    }
    printf("bytes %zu %zu %zu\n", bytes, file.bytes, touched & 1);
    lj_mapped_file_release(&file);
    return LJ_OK;
}

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "usage: load_gguf FILE THREADS ROUNDS\n"), 2;
    if (run(argv[1], atoi(argv[2]), atoi(argv[3])) == LJ_OK) return 0;
    return fprintf(stderr, "load_gguf: %s\n", lj_error_message()), 1;
}
