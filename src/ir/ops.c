/* The op table, filled from ops.def. */
#include "ir/ops.h"

#include <string.h>

enum { TYPES_FLOAT = 1 << LJ_F16 | 1 << LJ_BF16 | 1 << LJ_F32 | 1 << LJ_F64, TYPES_BOOL = 1 << LJ_BOOL };
enum { TYPES_INT = 1 << LJ_I8 | 1 << LJ_U8 | 1 << LJ_I32 | 1 << LJ_U32 | 1 << LJ_I64 | 1 << LJ_U64 };
enum { TYPES_NUMBER = TYPES_FLOAT | TYPES_INT, TYPES_ANY = TYPES_NUMBER | TYPES_BOOL };

#define lj_gradient_none NULL

const lj_op_row lj_op_rows[LJ_OP_COUNT] = {
#define OP(name, class, low, high, outputs, attributes, types, infer, gradient, flops, tolerance, doc)                            \
    [LJ_OP_##name] = {#name, LJ_CLASS_##class, low, high, outputs, attributes, TYPES_##types, lj_infer_##infer,                   \
                      lj_gradient_##gradient, flops, tolerance, doc},
#include "ir/ops.def"
#undef OP
};

lj_status lj_op_find(const char *name, lj_op *op)
{
    const char *names[LJ_OP_COUNT];
    for (int i = 0; i < LJ_OP_COUNT; i++) {
        names[i] = lj_op_rows[i].name;
        if (strcmp(name, names[i]) != 0) continue;
        *op = (lj_op)i;
        return LJ_OK;
    }
    const char *near = lj_nearest_name(name, names, LJ_OP_COUNT);
    return lj_fail(LJ_ERR_NOT_FOUND, "no op '%s'%s%s%s", name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}
