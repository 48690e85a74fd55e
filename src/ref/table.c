/* A row for each op: a new row of ops.def without a function here does not compile. */
#include "ref/tensor.h"

#define ALONE(name) [LJ_OP_##name] = {.run = lj_ref_##name},
#define ROW_LEAF ALONE
#define ROW_UNARY ALONE
#define ROW_BINARY ALONE
#define ROW_TERNARY ALONE
#define ROW_VIEW ALONE
#define ROW_MOVE ALONE
#define ROW_REDUCE ALONE
#define ROW_MATMUL ALONE
#define ROW_CALL ALONE
#define ROW_COMPOSITE(name) [LJ_OP_##name] = {.run = lj_ref_composite},
#define ROW_COLLECTIVE(name) [LJ_OP_##name] = {.exchange = EXCHANGE_##name},
/* send and recv are mailboxes of the interpreter */
#define EXCHANGE_send NULL
#define EXCHANGE_recv NULL
#define EXCHANGE_all_gather lj_ref_all_gather
#define EXCHANGE_reduce_scatter lj_ref_reduce_scatter
#define EXCHANGE_all_reduce lj_ref_all_reduce
#define EXCHANGE_all_to_all lj_ref_all_to_all

const lj_ref_row lj_ref_rows[LJ_OP_COUNT] = {
#define OP(name, class, ...) ROW_##class(name)
#include "ir/ops.def"
#undef OP
};
