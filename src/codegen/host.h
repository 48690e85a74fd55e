/* Inside of the host-C schedule. */
#ifndef LJ_CODEGEN_HOST_H
#define LJ_CODEGEN_HOST_H

#include "codegen/emit.h"
#include "codegen/print.h"

enum {
    LJ_ROW_BLOCK = 1024,   /* elements of a row that are reduced at once when the row's length is not known */
    LJ_ROW_LIMIT = 2048,   /* rows up to this length are one block */
    LJ_COLUMN_BLOCK = 1024,
};

/* What a dialect does with groups; the rest of a kernel's text is shared (host_c.c). */
typedef struct {
    lj_dialect dialect;
    void (*rows)(lj_printer *p);
    void (*columns)(lj_printer *p, lj_printer *finish);
    void (*single)(lj_printer *p);
} lj_dialect_schedule;
lj_status lj_emit(const lj_lowered *lowered, const lj_dialect_schedule *schedule, lj_source *source);

void lj_host_rows(lj_printer *p);
/* Prints the group's first step to p->out and its second to `finish`. */
void lj_host_columns(lj_printer *p, lj_printer *finish);
void lj_host_single(lj_printer *p);
/* Prints "TYPE *sums = ...": the group's part of scratch. */
void lj_print_scratch(lj_printer *p);
lj_dim lj_outer_rows(const lj_group *group);
/* Prints the outer loops' indices from `row`. */
void lj_print_outer_indices(lj_printer *p);
/* Where a sum or maximum starts, and how it takes one element in; static buffers of the thread. */
const char *lj_start_text(lj_op op, lj_dtype dtype);
const char *lj_combine_text(lj_op op, lj_dtype dtype, const char *a, const char *b);
/* Prints "const int64_t begin..., end..." of this thread for `count` in steps of `unit`. */
void lj_host_share(lj_printer *p, const char *count, int unit);
bool lj_dim_is_number(lj_dim dim);
extern const char lj_cuda_prologue[];

#endif
