/* The table of block types, and decoding through a small buffer that stays in the first-level cache. */
#include "formats/dequant.h"

#include "base/machine.h"
#include "formats/dequant_blocks.h"
#include "tensor/convert.h"

enum { NO_DECODER = LJ_BLOCK_DECODERS, BUFFER_ELEMENTS = 2048 };

typedef struct {
    lj_block_type type;
    int decoder;
} block_row;

#define PLAIN(name, id, dtype, bytes) {{name, id, 1, bytes, dtype, true}, NO_DECODER}
#define BLOCKS(name, id, elements, bytes) {{#name, id, elements, bytes, LJ_DTYPE_COUNT, true}, LJ_##name}
#define SIZE_ONLY(name, id, elements, bytes) {{#name, id, elements, bytes, LJ_DTYPE_COUNT, false}, NO_DECODER}

static const block_row rows[] = {
    PLAIN("F32", 0, LJ_F32, 4),       PLAIN("F16", 1, LJ_F16, 2),       PLAIN("BF16", 30, LJ_BF16, 2),
    PLAIN("F64", 28, LJ_F64, 8),      PLAIN("I8", 24, LJ_I8, 1),        PLAIN("I32", 26, LJ_I32, 4),
    PLAIN("I64", 27, LJ_I64, 8),      BLOCKS(Q4_0, 2, 32, 18),          BLOCKS(Q4_1, 3, 32, 20),
    BLOCKS(Q5_0, 6, 32, 22),          BLOCKS(Q5_1, 7, 32, 24),          BLOCKS(Q8_0, 8, 32, 34),
    BLOCKS(Q4_K, 12, 256, 144),       BLOCKS(Q5_K, 13, 256, 176),       BLOCKS(Q6_K, 14, 256, 210),
    SIZE_ONLY(I16, 25, 1, 2),         SIZE_ONLY(Q8_1, 9, 32, 40),       SIZE_ONLY(Q2_K, 10, 256, 84),
    SIZE_ONLY(Q3_K, 11, 256, 110),    SIZE_ONLY(Q8_K, 15, 256, 292),    SIZE_ONLY(IQ2_XXS, 16, 256, 66),
    SIZE_ONLY(IQ2_XS, 17, 256, 74),   SIZE_ONLY(IQ3_XXS, 18, 256, 98),  SIZE_ONLY(IQ1_S, 19, 256, 50),
    SIZE_ONLY(IQ4_NL, 20, 32, 18),    SIZE_ONLY(IQ3_S, 21, 256, 110),   SIZE_ONLY(IQ2_S, 22, 256, 82),
    SIZE_ONLY(IQ4_XS, 23, 256, 136),  SIZE_ONLY(IQ1_M, 29, 256, 56),    SIZE_ONLY(TQ1_0, 34, 256, 54),
    SIZE_ONLY(TQ2_0, 35, 256, 66),    SIZE_ONLY(MXFP4, 39, 32, 17),     SIZE_ONLY(NVFP4, 40, 64, 36),
};
enum { ROWS = sizeof rows / sizeof *rows };

const lj_block_type *lj_block_type_find(uint32_t id)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].type.id == id) return &rows[i].type;
    return NULL;
}

const lj_block_type *lj_block_type_by_name(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].type.name, name) == 0) return &rows[i].type;
    return NULL;
}

bool lj_block_type_bytes(const lj_block_type *type, uint64_t elements, uint64_t *bytes)
{
    if (elements % type->block_elements) return false;
    return !__builtin_mul_overflow(elements / type->block_elements, (uint64_t)type->block_bytes, bytes);
}

/* The decoder that writes `to` itself, or NULL. */
static lj_decode_fn direct_decoder(lj_isa isa, lj_dtype to, int decoder)
{
    if (to == LJ_F32) return isa >= LJ_ISA_AVX2 ? lj_decode_avx2[decoder] : lj_decode_plain[decoder];
    if (to != LJ_BF16 || isa < LJ_ISA_AVX2) return NULL;
    return isa >= LJ_ISA_AVX512 ? lj_decode_bf16_avx512[decoder] : lj_decode_bf16_avx2[decoder];
}

void lj_dequantise(const lj_block_type *type, lj_dtype to, void *out, const uint8_t *blocks, size_t block_count)
{
    if (type->plain != LJ_DTYPE_COUNT) {
        lj_convert(to, out, type->plain, blocks, block_count);
        return;
    }
    int decoder = ((const block_row *)(const void *)type)->decoder; /* `type` is the first member of its row */
    lj_isa isa = lj_machine_get()->isa;
    lj_decode_fn direct = direct_decoder(isa, to, decoder), decode = direct_decoder(isa, LJ_F32, decoder);
    if (direct) {
        direct(out, blocks, block_count);
        return;
    }
    float buffer[BUFFER_ELEMENTS];
    size_t step = BUFFER_ELEMENTS / type->block_elements, element_bytes = lj_dtype_bytes(to);
    for (size_t done = 0; done < block_count; done += step) {
        size_t now = block_count - done < step ? block_count - done : step, elements = now * type->block_elements;
        decode(buffer, blocks + done * type->block_bytes, now);
        lj_convert(to, (char *)out + done * type->block_elements * element_bytes, LJ_F32, buffer, elements);
    }
}
