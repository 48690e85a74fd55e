/* Reshapes as index arithmetic. */
#ifndef LJ_CODEGEN_RESHAPE_H
#define LJ_CODEGEN_RESHAPE_H

#include "codegen/nest.h"

/* Dims from_begin..from_end-1 of one side hold the same elements as to_begin..to_end-1 of the other. */
typedef struct {
    int from_begin, from_end, to_begin, to_end;
} lj_reshape_run;

/* Minimal runs, outermost first (dims of 1 between runs are in none); -1 when the symbols do not allow a split. */
int lj_reshape_runs(const lj_type *from, const lj_type *to, lj_reshape_run *runs);
/* Index of `from` (the operand) for an index of `to` (the result); false: too long for an affine or out of atoms. */
bool lj_reshape_index(lj_builder *builder, const lj_type *from, const lj_type *to, const lj_affine *to_index, lj_affine *from_index);
/* Strides of `from`'s dims that reach the same places as `to_stride` of `to`'s; false when the run is not contiguous. */
bool lj_reshape_strides(const lj_type *from, const lj_type *to, const lj_dim *to_stride, lj_dim *from_stride);

#endif
