/* Statements as expressions. $a $b $c: operands; $t: type of the result in registers; $u: unsigned type of the operand's width;
 * $s: ending of the helpers for the operand's type. */
#include "codegen/express.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *memory, *registers, *suffix, *unsigned_type, *low, *high;
} type_row;

static const type_row type_rows[LJ_DTYPE_COUNT] = {
    [LJ_I8] = {"int8_t", "int8_t", "i8", "uint8_t", "-128", "127"},
    [LJ_U8] = {"uint8_t", "uint8_t", "u8", "uint8_t", "0", "255"},
    [LJ_I32] = {"int32_t", "int32_t", "i32", "uint32_t", "INT32_MIN", "INT32_MAX"},
    [LJ_U32] = {"uint32_t", "uint32_t", "u32", "uint32_t", "0", "UINT32_MAX"},
    [LJ_I64] = {"int64_t", "int64_t", "i64", "uint64_t", "INT64_MIN", "INT64_MAX"},
    [LJ_U64] = {"uint64_t", "uint64_t", "u64", "uint64_t", "0", "UINT64_MAX"},
    [LJ_F16] = {"uint16_t", "float", "f32", NULL, NULL, NULL},
    [LJ_F32] = {"float", "float", "f32", NULL, NULL, NULL},
    [LJ_F64] = {"double", "double", "f64", NULL, NULL, NULL},
    [LJ_BF16] = {"uint16_t", "float", "f32", NULL, NULL, NULL},
    [LJ_BOOL] = {"uint8_t", "bool", "bool", NULL, NULL, NULL},
};

typedef struct {
    const char *on_float, *on_signed, *on_unsigned, *on_bool;
    bool exact; /* float results need no rounding */
} op_row;

#define WRAP(expression) "($t)(" expression ")"
#define INTEGERS(expression) expression, expression

static const op_row op_rows[LJ_OP_COUNT] = {
    [LJ_OP_neg] = {"-$a", INTEGERS(WRAP("0 - ($u)$a")), NULL, true},
    [LJ_OP_abs] = {"abs_$s($a)", "$a < 0 ? " WRAP("0 - ($u)$a") " : $a", "$a", NULL, true},
    [LJ_OP_exp] = {"exp_$s($a)"},
    [LJ_OP_log] = {"log_$s($a)"},
    [LJ_OP_sqrt] = {"sqrt_$s($a)"},
    [LJ_OP_rsqrt] = {"1 / sqrt_$s($a)"},
    [LJ_OP_recip] = {"1 / $a"},
    [LJ_OP_sin] = {"sin_$s($a)"},
    [LJ_OP_cos] = {"cos_$s($a)"},
    [LJ_OP_tanh] = {"tanh_$s($a)"},
    [LJ_OP_sigmoid] = {"sigmoid_$s($a)"},
    [LJ_OP_floor] = {"floor_$s($a)", .exact = true},
    [LJ_OP_not] = {.on_bool = "!$a"},
    [LJ_OP_add] = {"$a + $b", INTEGERS(WRAP("($u)$a + ($u)$b"))},
    [LJ_OP_sub] = {"$a - $b", INTEGERS(WRAP("($u)$a - ($u)$b"))},
    [LJ_OP_mul] = {"$a * $b", INTEGERS(WRAP("($u)$a * ($u)$b"))},
    [LJ_OP_div] = {"$a / $b"},
    [LJ_OP_max] = {"(($a >= $b) | ($a != $a)) ? $a : $b", INTEGERS("$a > $b ? $a : $b"), NULL, true},
    [LJ_OP_min] = {"(($a <= $b) | ($a != $a)) ? $a : $b", INTEGERS("$a < $b ? $a : $b"), NULL, true},
    [LJ_OP_lt] = {"$a < $b", INTEGERS("$a < $b")},
    [LJ_OP_le] = {"$a <= $b", INTEGERS("$a <= $b")},
    [LJ_OP_eq] = {"$a == $b", INTEGERS("$a == $b"), "$a == $b"},
    [LJ_OP_and] = {.on_bool = "$a & $b"},
    [LJ_OP_or] = {.on_bool = "$a | $b"},
};

const char *lj_register_type(lj_dtype dtype)
{
    return type_rows[dtype].registers;
}

const char *lj_memory_type(lj_dtype dtype)
{
    return type_rows[dtype].memory;
}

const char *lj_register_suffix(lj_dtype dtype)
{
    return type_rows[dtype].suffix;
}

void lj_express_load(lj_text *out, lj_dtype dtype, const char *place)
{
    bool small = dtype == LJ_BF16 || dtype == LJ_F16;
    if (small)
        lj_text_add(out, "f32_from_%s(%s)", lj_dtype_name(dtype), place);
    else
        lj_text_add(out, dtype == LJ_BOOL ? "%s != 0" : "%s", place);
}

void lj_express_store(lj_text *out, lj_dtype dtype, const char *value)
{
    if (dtype == LJ_BF16 || dtype == LJ_F16)
        lj_text_add(out, "%s_from_f32(%s)", lj_dtype_name(dtype), value);
    else
        lj_text_add(out, "%s", value);
}

void lj_express_round(lj_text *out, lj_dtype dtype, const char *expression, bool clean)
{
    bool small = dtype == LJ_BF16 || dtype == LJ_F16;
    if (small)
        lj_text_add(out, "round_%s%s(%s)", lj_dtype_name(dtype), clean && dtype == LJ_BF16 ? "_clean" : "", expression);
    else
        lj_text_add(out, "%s", expression);
}

static void express_float(lj_text *out, lj_dtype dtype, double value)
{
    const char *suffix = lj_register_suffix(dtype);
    if (isnan(value)) {
        lj_text_add(out, "nan_%s()", suffix);
    } else if (isinf(value)) {
        lj_text_add(out, value < 0 ? "-inf_%s()" : "inf_%s()", suffix);
    } else {
        char digits[64];
        snprintf(digits, sizeof digits, dtype == LJ_F64 ? "%.17g" : "%.9g", value);
        bool whole = !strpbrk(digits, ".e");
        lj_text_add(out, "%s%s%s", digits, whole ? ".0" : "", dtype == LJ_F64 ? "" : "f");
    }
}

void lj_express_const(lj_text *out, lj_dtype dtype, double value)
{
    uint64_t store = 0;
    lj_element_set(dtype, &store, 0, value);
    if (lj_dtype_rows[dtype].is_float)
        express_float(out, dtype, lj_element_get(dtype, &store, 0));
    else if (dtype == LJ_U64)
        lj_text_add(out, "%lluu", (unsigned long long)store);
    else if (dtype == LJ_I64 && (int64_t)store == INT64_MIN)
        lj_text_add(out, "INT64_MIN");
    else if (dtype == LJ_I64)
        lj_text_add(out, "%lld", (long long)store);
    else
        lj_text_add(out, dtype == LJ_U32 ? "%.0fu" : "%.0f", lj_element_get(dtype, &store, 0));
}

void lj_express_least(lj_text *out, lj_dtype dtype)
{
    if (lj_dtype_rows[dtype].is_float)
        lj_text_add(out, "-inf_%s()", lj_register_suffix(dtype));
    else
        lj_text_add(out, "%s", type_rows[dtype].low);
}

static void expand(lj_text *out, const char *pattern, lj_dtype result, lj_dtype operand, const char *const *operands)
{
    for (const char *c = pattern; *c; c++) {
        if (*c != '$') {
            lj_text_add_bytes(out, c, 1);
            continue;
        }
        switch (*++c) {
        case 't': lj_text_add(out, "%s", lj_register_type(result)); break;
        case 'u': lj_text_add(out, "%s", type_rows[operand].unsigned_type); break;
        case 's': lj_text_add(out, "%s", lj_register_suffix(operand)); break;
        default: lj_text_add(out, "%s", operands[*c - 'a']);
        }
    }
}

static const char *pattern_of(const op_row *row, lj_dtype operand)
{
    if (operand == LJ_BOOL) return row->on_bool;
    if (lj_dtype_rows[operand].is_float) return row->on_float;
    return lj_dtype_rows[operand].is_signed ? row->on_signed : row->on_unsigned;
}

void lj_express_op(lj_text *out, lj_op op, lj_dtype result, const lj_dtype *operand_types, const char *const *operands, bool clean)
{
    if (op == LJ_OP_cast) {
        lj_express_cast(out, operand_types[0], result, operands[0], clean);
        return;
    }
    if (op == LJ_OP_where) {
        lj_text_add(out, "%s ? %s : %s", operands[0], operands[1], operands[2]);
        return;
    }
    lj_text plain;
    lj_text_init(&plain);
    expand(&plain, pattern_of(&op_rows[op], operand_types[0]), result, operand_types[0], operands);
    out->failed |= plain.failed;
    if (lj_dtype_rows[result].is_float && !op_rows[op].exact)
        lj_express_round(out, result, plain.data ? plain.data : "", clean);
    else
        lj_text_add(out, "%s", plain.data ? plain.data : "");
    lj_text_release(&plain);
}

/* -- casts ----------------------------------------------------------------------------------------------------------------- */

/* 16-bit floats from wider numbers: through a float whose last bit is sticky, so that nothing is rounded twice. */
static void cast_to_small_float(lj_text *out, lj_dtype from, lj_dtype to, const char *a, bool clean)
{
    const char *pattern = from == LJ_F64                       ? "f32_sticky_f64(%s)"
                          : from == LJ_I32 || from == LJ_U32   ? "f32_sticky_f64((double)%s)"
                          : from == LJ_I64                     ? "f32_sticky_f64(f64_sticky_i64(%s))"
                          : from == LJ_U64                     ? "f32_sticky_f64(f64_sticky_u64(%s))"
                          : lj_dtype_rows[from].is_float       ? "%s"
                                                               : "(float)%s";
    char wide[128];
    snprintf(wide, sizeof wide, pattern, a);
    if (from == to)
        lj_text_add(out, "%s", a);
    else
        lj_express_round(out, to, wide, clean);
}

static void cast_to_float(lj_text *out, lj_dtype from, lj_dtype to, const char *a)
{
    if (strcmp(lj_register_type(from), lj_register_type(to)) == 0)
        lj_text_add(out, "%s", a);
    else if (from == LJ_BOOL)
        lj_text_add(out, to == LJ_F64 ? "%s ? 1.0 : 0.0" : "%s ? 1.0f : 0.0f", a);
    else
        lj_text_add(out, "(%s)%s", lj_register_type(to), a);
}

/* Integers clamp: a bound is tested where the source can pass it. */
static void cast_integers(lj_text *out, lj_dtype from, lj_dtype to, const char *a)
{
    const lj_dtype_row *f = &lj_dtype_rows[from], *t = &lj_dtype_rows[to];
    double low_from = f->is_signed ? -f->max - 1 : 0, low_to = t->is_signed ? -t->max - 1 : 0;
    const char *type = lj_register_type(to);
    if (f->max > t->max) lj_text_add(out, "%s > %s ? %s : ", a, type_rows[to].high, type_rows[to].high);
    if (low_from < low_to) lj_text_add(out, "%s < %s ? %s : ", a, type_rows[to].low, type_rows[to].low);
    lj_text_add(out, "(%s)%s", type, a);
}

void lj_express_cast(lj_text *out, lj_dtype from, lj_dtype to, const char *a, bool clean)
{
    bool from_float = lj_dtype_rows[from].is_float;
    if (from == to)
        lj_text_add(out, "%s", a);
    else if (to == LJ_BOOL)
        lj_text_add(out, "%s != 0", a);
    else if (to == LJ_BF16 || to == LJ_F16)
        cast_to_small_float(out, from, to, a, clean);
    else if (lj_dtype_rows[to].is_float)
        cast_to_float(out, from, to, a);
    else if (from_float)
        lj_text_add(out, "%s_from_f64(%s)", lj_register_suffix(to), a);
    else if (from == LJ_BOOL)
        lj_text_add(out, "(%s)%s", lj_register_type(to), a);
    else
        cast_integers(out, from, to, a);
}
