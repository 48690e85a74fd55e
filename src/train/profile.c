#include "train/profile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "layers.7.grad/matmul %812 (forward.c:40)" -> "layers.*.grad/matmul (forward.c:40)" */
static void name_reduce(const char *name, char *out, size_t capacity)
{
    size_t n = 0;
    for (const char *c = name; *c && n + 2 < capacity; c++) {
        if (*c == '%') {
            while (isdigit((unsigned char)c[1])) c++;
            if (c[1] == ' ') c++;
        } else if (*c == '.' && isdigit((unsigned char)c[1])) {
            out[n++] = '.', out[n++] = '*';
            while (isdigit((unsigned char)c[1])) c++;
        } else {
            out[n++] = *c;
        }
    }
    out[n] = 0;
}

void lj_profile_add(void *user, const char *kind, const char *name, double seconds, double flops, double bytes)
{
    lj_profile *p = user;
    char reduced[112];
    size_t i = 0;
    name_reduce(name, reduced, sizeof reduced);
    while (i < p->count && (strcmp(p->rows[i].name, reduced) != 0 || strcmp(p->rows[i].kind, kind) != 0)) i++;
    if (i == LJ_PROFILE_ROWS) return;
    lj_profile_row *row = &p->rows[i];
    if (i == p->count) {
        *row = (lj_profile_row){0};
        snprintf(row->kind, sizeof row->kind, "%s", kind);
        snprintf(row->name, sizeof row->name, "%s", reduced);
        p->count++;
    }
    row->calls++;
    row->seconds += seconds, row->flops += flops, row->bytes += bytes;
}

static int costliest_first(const void *a, const void *b)
{
    double x = ((const lj_profile_row *)a)->seconds, y = ((const lj_profile_row *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

static double limit_s(const lj_profile *p, const lj_profile_row *row)
{
    double compute = p->gemm_peak_flops > 0 ? row->flops / p->gemm_peak_flops : 0, memory = p->bandwidth > 0 ? row->bytes / p->bandwidth : 0;
    return compute > memory ? compute : memory;
}

static void row_print(const lj_profile *p, const lj_profile_row *row, double total, lj_text *out)
{
    double limit = limit_s(p, row), share = row->seconds > 0 ? 100 * limit / row->seconds : 0;
    lj_text_add(out, "%9.4f %5.1f %6llu %9.1f %8.1f %6.0f  %s %s\n", row->seconds, 100 * row->seconds / total, (unsigned long long)row->calls,
                row->flops / row->seconds * 1e-9, row->bytes / row->seconds * 1e-9, share, row->kind, row->name);
}

void lj_profile_print(lj_profile *p, lj_text *out)
{
    double total = 0, limits = 0;
    lj_profile_row rest = {.kind = "", .name = "all others"};
    qsort(p->rows, p->count, sizeof *p->rows, costliest_first);
    for (size_t i = 0; i < p->count; i++) total += p->rows[i].seconds, limits += limit_s(p, &p->rows[i]);
    if (total <= 0) return;
    lj_text_add(out, "  seconds     %%  calls    GFLOPS     GB/s  %%lim  step\n");
    for (size_t i = 0; i < p->count; i++) {
        if (i < LJ_PROFILE_SHOWN) {
            row_print(p, &p->rows[i], total, out);
            continue;
        }
        rest.calls += p->rows[i].calls, rest.seconds += p->rows[i].seconds, rest.flops += p->rows[i].flops, rest.bytes += p->rows[i].bytes;
    }
    if (rest.calls) row_print(p, &rest, total, out);
    lj_text_add(out, "%9.4f s in all; %.4f s (%.0f %%) if each ran at its limit (%.1f GFLOPS, %.1f GB/s, as measured here)\n", total, limits,
                100 * limits / total, p->gemm_peak_flops * 1e-9, p->bandwidth * 1e-9);
}
