/* Statements as expressions of C-like dialects: one table of ops, one of casts. */
#ifndef LJ_CODEGEN_EXPRESS_H
#define LJ_CODEGEN_EXPRESS_H

#include "codegen/nest.h"

/* How a dtype is held in registers: 16-bit floats as float, bool as bool. */
const char *lj_register_type(lj_dtype dtype);
/* How it lies in memory. */
const char *lj_memory_type(lj_dtype dtype);
/* "f32" for f16, bf16 and f32; "f64"; "i32" ...: endings of helper names. */
const char *lj_register_suffix(lj_dtype dtype);

/* The expression of a stored number: "in0[j]" -> "bf16_load(in0[j])". */
void lj_express_load(lj_text *out, lj_dtype dtype, const char *place);
/* The expression that is stored. The value is already rounded to dtype. */
void lj_express_store(lj_text *out, lj_dtype dtype, const char *value);
/* `expression` rounded to dtype, which is a float type. `clean`: a NaN in it has no bits below a bf16's (see lj_stmt). */
void lj_express_round(lj_text *out, lj_dtype dtype, const char *expression, bool clean);
void lj_express_const(lj_text *out, lj_dtype dtype, double value);
/* An elementwise op on operands of the given dtypes. */
void lj_express_op(lj_text *out, lj_op op, lj_dtype result, const lj_dtype *operand_types, const char *const *operands, bool clean);
void lj_express_cast(lj_text *out, lj_dtype from, lj_dtype to, const char *operand, bool clean);
/* The least value, where maxima start. */
void lj_express_least(lj_text *out, lj_dtype dtype);

#endif
