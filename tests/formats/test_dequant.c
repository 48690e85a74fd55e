/* Block types: bit-equal to numpy's decoding of the committed file, and every instruction set to the plain decoders. */
#include "support/testing.h"

#include "base/file.h"
#include "base/machine.h"
#include "formats/dequant_blocks.h"
#include "formats/gguf.h"
#include "tensor/convert.h"
#include "tensor/convert_loops.h"

#include <stdlib.h>

static void fixture_is_bit_equal(void **state)
{
    (void)state;
    lj_gguf *gguf;
    lj_mapped_file expected;
    assert_ok(lj_gguf_open(LJ_TEST_DATA "/formats/types.gguf", &gguf));
    assert_ok(lj_mapped_file_init(&expected, LJ_TEST_DATA "/formats/types.f32"));
    size_t at = 0, quantised = 0;
    for (size_t i = 0; i < lj_gguf_tensor_count(gguf); i++) {
        const lj_gguf_tensor *t = lj_gguf_tensor_get(gguf, i);
        size_t elements = (size_t)(t->shape[0] * t->shape[1]);
        float *decoded = malloc(4 * elements);
        lj_dequantise(t->type, LJ_F32, decoded, t->data, elements / t->type->block_elements);
        if (memcmp(decoded, expected.data + at, 4 * elements) != 0) fail_msg("%s differs", t->name);
        quantised += t->type->plain == LJ_DTYPE_COUNT;
        at += 4 * elements;
        free(decoded);
    }
    assert_int_equal(at, expected.bytes);
    assert_int_equal(quantised, LJ_BLOCK_DECODERS);
    lj_mapped_file_release(&expected);
    lj_gguf_close(gguf);
}

static const struct {
    const char *name;
    lj_block_decoder decoder;
    int halves[2]; /* offsets of the half-precision scales, -1: none */
} kinds[] = {
    {"Q4_0", LJ_Q4_0, {0, -1}}, {"Q4_1", LJ_Q4_1, {0, 2}}, {"Q5_0", LJ_Q5_0, {0, -1}}, {"Q5_1", LJ_Q5_1, {0, 2}},
    {"Q8_0", LJ_Q8_0, {0, -1}}, {"Q4_K", LJ_Q4_K, {0, 2}}, {"Q5_K", LJ_Q5_K, {0, 2}}, {"Q6_K", LJ_Q6_K, {208, -1}},
};

/* Random blocks, scales of every kind; with `finite` none is infinite or NaN. */
static uint8_t *random_blocks(uint64_t *seed, size_t kind, const lj_block_type *type, size_t count, bool finite)
{
    uint8_t *blocks = malloc(count * type->block_bytes);
    for (size_t i = 0; i < count * type->block_bytes; i++) blocks[i] = (uint8_t)test_random(seed);
    for (size_t b = 0; b < count && finite; b++)
        for (int h = 0; h < 2; h++)
            if (kinds[kind].halves[h] >= 0) {
                uint8_t *high = &blocks[b * type->block_bytes + (size_t)kinds[kind].halves[h] + 1];
                if ((*high & 0x7c) == 0x7c) *high &= 0x83;
            }
    return blocks;
}

static void same_f32(const float *a, const float *b, size_t count, bool finite, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        bool same = finite ? memcmp(&a[i], &b[i], 4) == 0 : (a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]));
        if (!same) fail_msg("%s element %zu: %g and %g", name, i, (double)a[i], (double)b[i]);
    }
}

static void same_bf16(const uint16_t *a, const uint16_t *b, size_t count, bool finite, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        float x = lj_bf16_to_float(a[i]), y = lj_bf16_to_float(b[i]);
        if (a[i] != b[i] && (finite || x == x || y == y)) fail_msg("%s element %zu: %04x and %04x", name, i, a[i], b[i]);
    }
}

static void compare_kind(size_t k, bool finite)
{
    enum { BLOCKS = 1000 };
    uint64_t seed = 100 + k;
    const lj_block_type *type = lj_block_type_by_name(kinds[k].name);
    size_t elements = BLOCKS * type->block_elements;
    uint8_t *blocks = random_blocks(&seed, k, type, BLOCKS, finite);
    float *plain = malloc(4 * elements), *fast = malloc(4 * elements);
    uint16_t *rounded = malloc(2 * elements), *direct = malloc(2 * elements);
    lj_decode_plain[kinds[k].decoder](plain, blocks, BLOCKS);
    lj_convert_plain[LJ_F32_BF16](rounded, (const uint8_t *)plain, elements);
    lj_isa isa = lj_machine_get()->isa;
    if (isa >= LJ_ISA_AVX2) {
        lj_decode_avx2[kinds[k].decoder](fast, blocks, BLOCKS);
        same_f32(plain, fast, elements, finite, kinds[k].name);
        lj_decode_bf16_avx2[kinds[k].decoder](direct, blocks, BLOCKS);
        same_bf16(rounded, direct, elements, finite, kinds[k].name);
    }
    if (isa >= LJ_ISA_AVX512) {
        lj_decode_bf16_avx512[kinds[k].decoder](direct, blocks, BLOCKS);
        same_bf16(rounded, direct, elements, finite, kinds[k].name);
    }
    lj_dequantise(type, LJ_BF16, direct, blocks, BLOCKS);
    same_bf16(rounded, direct, elements, finite, kinds[k].name);
    lj_dequantise(type, LJ_F16, direct, blocks, BLOCKS);
    for (size_t i = 0; i < elements && finite; i++) assert_int_equal(direct[i], lj_half_from_float(plain[i]));
    free(blocks), free(plain), free(fast), free(rounded), free(direct);
}

static void instruction_sets_agree(void **state)
{
    (void)state;
    if (lj_machine_get()->isa < LJ_ISA_AVX2) print_message("only the plain decoders can run on this CPU\n");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        compare_kind(k, true);
        compare_kind(k, false);
    }
}

static void conversions_agree(void **state)
{
    (void)state;
    enum { N = 70003 };
    uint64_t seed = 9;
    static uint8_t source[4 * N], a[4 * N], b[4 * N];
    if (lj_machine_get()->isa < LJ_ISA_AVX2) skip();
    for (int pair = 0; pair < LJ_CONVERT_PAIRS; pair++) {
        for (size_t i = 0; i < sizeof source; i++) source[i] = (uint8_t)test_random(&seed);
        memset(a, 0, sizeof a), memset(b, 0, sizeof b);
        lj_convert_plain[pair](a, source, N);
        lj_convert_avx2[pair](b, source, N);
        assert_memory_equal(a, b, sizeof a); /* NaN included: the bits are stated */
    }
}

static void sizes_are_checked(void **state)
{
    (void)state;
    uint64_t bytes;
    const lj_block_type *type = lj_block_type_by_name("Q4_K");
    assert_true(lj_block_type_bytes(type, 512, &bytes) && bytes == 288);
    assert_false(lj_block_type_bytes(type, 255, &bytes));
    assert_false(lj_block_type_bytes(lj_block_type_by_name("F64"), 1ull << 62, &bytes));
    assert_null(lj_block_type_find(4)); /* removed from ggml long ago */
    assert_null(lj_block_type_find(1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fixture_is_bit_equal), cmocka_unit_test(instruction_sets_agree), cmocka_unit_test(conversions_agree),
                                       cmocka_unit_test(sizes_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
