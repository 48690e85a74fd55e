/* The tile engines: packing against its definition, panels against a double product; the AMX code on a C model of the tile instructions. */
#include "support/kernel_data.h"
#include "support/testing.h"

#include "base/machine.h"
#include "kernels/attention.h"
#include "kernels/gemm/choice.h"
#include "kernels/team.h"
#include "kernels/tile/tile.h"

#include <math.h>
#include <stdlib.h>

/* The model: eight tiles of 16 lines, shaped by the last configuration. It fails the test when an instruction is used outside it. */
typedef struct {
    uint16_t line_bytes[8];
    uint8_t rows[8];
    _Alignas(64) char data[8][16 * 64];
    bool ready;
} tile_model;
static _Thread_local tile_model model; /* every thread has its own tiles, as on the CPU */

static void model_config(const void *p)
{
    const unsigned char *bytes = p;
    if (bytes[0] != 1 || bytes[1] != 0) fail_msg("palette %d, start row %d", bytes[0], bytes[1]);
    memset(&model, 0, sizeof model);
    memcpy(model.line_bytes, bytes + 16, sizeof model.line_bytes);
    memcpy(model.rows, bytes + 48, sizeof model.rows);
    model.ready = true;
}

static void model_check(int t)
{
    if (!model.ready || !model.rows[t] || model.rows[t] > 16 || !model.line_bytes[t] || model.line_bytes[t] > 64) fail_msg("tile %d is not configured", t);
}

static void model_zero(int t)
{
    model_check(t);
    memset(model.data[t], 0, sizeof model.data[t]);
}

static void model_load(int t, const void *p, int64_t stride)
{
    model_zero(t);
    for (int i = 0; i < model.rows[t]; i++) memcpy(model.data[t] + i * 64, (const char *)p + i * stride, model.line_bytes[t]);
}

static void model_store(int t, void *p, int64_t stride)
{
    model_check(t);
    for (int i = 0; i < model.rows[t]; i++) memcpy((char *)p + i * stride, model.data[t] + i * 64, model.line_bytes[t]);
}

/* TDPBF16PS: for each row and column of C, over pairs of k: first the even products' sum step, then the odd one's. */
static void model_dp(int c, int a, int b)
{
    model_check(a), model_check(b), model_check(c);
    if (model.line_bytes[a] / 4 > model.rows[b] || model.line_bytes[b] != model.line_bytes[c] || model.rows[a] != model.rows[c])
        fail_msg("shapes of tiles %d, %d, %d do not agree", c, a, b);
    for (int m = 0; m < model.rows[c]; m++)
        for (int k = 0; k < model.line_bytes[a] / 4; k++)
            for (int n = 0; n < model.line_bytes[c] / 4; n++) {
                float *sum = (float *)(void *)(model.data[c] + m * 64 + n * 4);
                const uint16_t *x = (const uint16_t *)(const void *)(model.data[a] + m * 64 + k * 4);
                const uint16_t *y = (const uint16_t *)(const void *)(model.data[b] + k * 64 + n * 4);
                for (int i = 0; i < 2; i++) *sum += lj_bf16_to_float(x[i]) * lj_bf16_to_float(y[i]);
            }
}

#define AMX_CONFIG(p) model_config(p)
#define AMX_ZERO(t) model_zero(t)
#define AMX_LOAD(t, p, stride) model_load(t, p, stride)
#define AMX_STORE(t, p, stride) model_store(t, p, stride)
#define AMX_DP(c, a, b) model_dp(c, a, b)
#define AMX_RELEASE() (model.ready = false)
#include "kernels/tile/tile_amx_body.h"


static double element(const guarded *source, lj_dtype type, int64_t index)
{
    double value = guarded_get(source, (size_t)index);
    return type == LJ_F32 ? value : lj_dtype_round(LJ_BF16, value);
}

/* Packed B by its definition. */
static void define_b(const lj_tile *tile, const guarded *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, guarded *out)
{
    int64_t panel_size = lj_round_up(k, tile->group) * width;
    for (size_t i = 0; i < out->count; i++) lj_element_set(tile->type, out->data, i, 0);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++) {
            int64_t at = j / width * panel_size + (i / tile->group * width + j % width) * tile->group + i % tile->group;
            lj_element_set(tile->type, out->data, (size_t)at, element(source, tile->type, transposed ? j * ld + i : i * ld + j));
        }
}

static int64_t a_index(const lj_tile *tile, int64_t packed_k, int64_t rows, int64_t r, int64_t i)
{
    int64_t block = r / rows * rows * packed_k, in = r % rows;
    if (tile->a_rows) return block + i / tile->a_k_multiple * rows * tile->a_k_multiple + in * tile->a_k_multiple + i % tile->a_k_multiple;
    return block + (i / tile->group * rows + in) * tile->group + i % tile->group;
}

static void define_a(const lj_tile *tile, const guarded *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, guarded *out)
{
    for (size_t i = 0; i < out->count; i++) lj_element_set(tile->type, out->data, i, 0);
    for (int64_t r = 0; r < m; r++)
        for (int64_t i = 0; i < k; i++)
            lj_element_set(tile->type, out->data, (size_t)a_index(tile, lj_round_up(k, tile->a_k_multiple), rows, r, i),
                           element(source, tile->type, transposed ? i * ld + r : r * ld + i));
}

/* An engine for the tests: AMX's layouts, packed by definition, multiplied on the model. */
static void model_pack_b(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, void *panels);
static void model_pack_a(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks);
static const lj_tile modelled = {.name = "amx-model", .type = LJ_BF16, .group = 2, .rows = 32, .width = 32, .wide_rows = 32, .wide_width = 64,
                                 .k_block = 64, .a_k_multiple = AMX_K, .a_rows = true, .panel = panel, .pack_b = model_pack_b, .pack_a = model_pack_a};

static void model_pack_b(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, void *panels)
{
    guarded in = {from, 0, (void *)(uintptr_t)source, NULL}, out = {LJ_BF16, (size_t)lj_tile_b_bytes(&modelled, k, n, width) / 2, panels, NULL};
    define_b(&modelled, &in, ld, transposed, k, n, width, &out);
}

static void model_pack_a(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks)
{
    guarded in = {from, 0, (void *)(uintptr_t)source, NULL}, out = {LJ_BF16, (size_t)lj_tile_a_bytes(&modelled, m, k, rows) / 2, blocks, NULL};
    define_a(&modelled, &in, ld, transposed, m, k, rows, &out);
}

/* Runs one panel product on operands packed by definition (or A plain) and compares. */
static void panel_try(const lj_tile *tile, int64_t m, int64_t n, int64_t k, int64_t width, int rows, bool plain_a, lj_tile_store store, uint64_t *seed)
{
    char what[120];
    int64_t ldc = n + 5;
    snprintf(what, sizeof what, "%s m%d n%d k%d width%d store%d %s", tile->name, (int)m, (int)n, (int)k, (int)width, (int)store, plain_a ? "plain" : "packed");
    guarded a = guarded_create(tile->type, (size_t)(m * k)), b = guarded_create(tile->type, (size_t)(k * n));
    guarded c = guarded_create(store == LJ_TILE_SET_BF16 ? LJ_BF16 : LJ_F32, (size_t)((m - 1) * ldc + n)), before;
    guarded_fill(&a, seed, 1), guarded_fill(&b, seed, 1), guarded_fill(&c, seed, 1);
    before = guarded_create(c.type, c.count);
    memcpy(before.data, c.data, c.count * lj_dtype_bytes(c.type));
    guarded pa = guarded_create(tile->type, (size_t)lj_tile_a_bytes(tile, m, k, rows) / lj_dtype_bytes(tile->type));
    guarded pb = guarded_create(tile->type, (size_t)lj_tile_panel_bytes(tile, k, width) / lj_dtype_bytes(tile->type));
    define_a(tile, &a, k, false, m, k, rows, &pa), define_b(tile, &b, n, false, k, n, width, &pb);
    lj_tile_a operand = plain_a ? lj_tile_plain_a(tile, a.data, k, rows) : lj_tile_packed_a(tile, pa.data, k, rows);
    tile->panel(&operand, m, n, k, pb.data, width, c.data, ldc, store);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < (i + 1 < m ? ldc : n); j++) {
            size_t at = (size_t)(i * ldc + j);
            double sum = 0, old = guarded_get(&before, at);
            for (int64_t x = 0; x < k && j < n; x++) sum += guarded_get(&a, (size_t)(i * k + x)) * guarded_get(&b, (size_t)(x * n + j));
            double want = j >= n ? old : store == LJ_TILE_ADD ? old + sum : sum;
            assert_near(what, guarded_get(&c, at), want, j >= n ? 0 : 1e-5 * (double)(k + 4) + (c.type == LJ_BF16 ? fabs(want) / 256 : 0), at);
        }
    guarded *all[] = {&a, &b, &c, &pa, &pb, &before};
    for (size_t i = 0; i < 6; i++) guarded_check(all[i], what), guarded_destroy(all[i]);
}

static void panels_of(const lj_tile *tile, uint64_t *seed)
{
    static const int64_t ks[] = {1, 2, 7, 31, 32, 33, 64, 97};
    for (int64_t m = 1; m <= 70; m += m < 10 ? 1 : 7)
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
            for (int wide = 0; wide < 2; wide++) {
                int64_t width = wide ? tile->wide_width : tile->width, n = test_random_range(seed, 1, width);
                panel_try(tile, m, n, ks[i], width, wide ? tile->wide_rows : tile->rows, test_random_range(seed, 0, 1),
                          (lj_tile_store)test_random_range(seed, 0, 2), seed);
                if (i == 0) panel_try(tile, m, width, 64, width, wide ? tile->wide_rows : tile->rows, true, (lj_tile_store)(m % 3), seed);
            }
}

static void amx_code_on_the_model(void **state)
{
    (void)state;
    uint64_t seed = 21;
    panels_of(&modelled, &seed);
}

static const lj_tile *engine_of(int isa, int bf16)
{
    return lj_tile_for((lj_isa)isa, bf16 ? LJ_BF16 : LJ_F32);
}

static void panels_match_reference(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int isa = 0; isa < LJ_ISA_COUNT; isa++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            if (engine_of(isa, bf16)) panels_of(engine_of(isa, bf16), &seed);
}

static void pack_try(const lj_tile *tile, lj_dtype from, uint64_t *seed)
{
    char what[120];
    int64_t count = test_random_range(seed, 1, 140), k = test_random_range(seed, 1, 100), width = test_random_range(seed, 0, 1) ? tile->width : tile->wide_width;
    bool transposed = test_random_range(seed, 0, 1), is_a = test_random_range(seed, 0, 1);
    int64_t rows = width == tile->width ? tile->rows : tile->wide_rows;
    bool along = is_a ? transposed : !transposed; /* stored rows are k */
    int64_t ld = (along ? count : k) + test_random_range(seed, 0, 3);
    snprintf(what, sizeof what, "%s packs %s from %s%s: %d x k%d", tile->name, is_a ? "A" : "B", lj_dtype_name(from), transposed ? " transposed" : "",
             (int)count, (int)k);
    guarded source = guarded_create(from, (size_t)(((along ? k : count) - 1) * ld + (along ? count : k)));
    guarded_fill(&source, seed, 1);
    size_t bytes = (size_t)(is_a ? lj_tile_a_bytes(tile, count, k, rows) : lj_tile_b_bytes(tile, k, count, width));
    guarded got = guarded_create(tile->type, bytes / lj_dtype_bytes(tile->type)), want = guarded_create(tile->type, got.count);
    if (is_a) {
        tile->pack_a(from, source.data, ld, transposed, count, k, rows, got.data);
        define_a(tile, &source, ld, transposed, count, k, rows, &want);
    } else {
        tile->pack_b(from, source.data, ld, transposed, k, count, width, got.data);
        define_b(tile, &source, ld, transposed, k, count, width, &want);
    }
    for (int64_t r = 0; r < count && is_a; r++) /* rows past the last are unspecified */
        for (int64_t i = 0; i < k; i++) {
            size_t at = (size_t)a_index(tile, lj_round_up(k, tile->a_k_multiple), rows, r, i);
            assert_near(what, guarded_get(&got, at), guarded_get(&want, at), 0, at);
        }
    if (!is_a) assert_memory_equal(got.data, want.data, bytes);
    guarded_check(&got, what), guarded_check(&source, what);
    guarded_destroy(&got), guarded_destroy(&want), guarded_destroy(&source);
}

static void packing_matches_definition(void **state)
{
    (void)state;
    uint64_t seed = 17;
    for (int isa = 0; isa < LJ_ISA_COUNT; isa++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (int round = 0; engine_of(isa, bf16) && round < 150; round++) pack_try(engine_of(isa, bf16), bf16 ? LJ_BF16 : LJ_F32, &seed);
#if defined(__x86_64__)
    for (int round = 0; lj_machine_get()->isa >= LJ_ISA_AVX512_BF16 && round < 300; round++) /* AMX packs with AVX-512: testable without tiles */
        pack_try(&lj_tile_amx, LJ_BF16, &seed);
#endif
}

static void gemm_try(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, lj_dtype c_type, uint64_t *seed)
{
    lj_gemm_desc d = LJ_GEMM_DESC_INIT;
    lj_gemm *gemm;
    d.m = m, d.n = n, d.k = k, d.trans_a = trans_a, d.trans_b = trans_b, d.c_type = c_type;
    assert_ok(lj_gemm_create_with(&d, 2, &lj_gemm_own, &gemm));
    assert_string_equal(lj_gemm_provider(gemm), "amx-model");
    guarded a = guarded_create(LJ_BF16, (size_t)(m * k)), b = guarded_create(LJ_BF16, (size_t)(k * n)), c = guarded_create(c_type, (size_t)(m * n));
    guarded scratch = guarded_create(LJ_U8, lj_gemm_scratch_bytes(gemm));
    guarded_fill(&a, seed, 1), guarded_fill(&b, seed, 1);
    assert_ok(lj_gemm_run(gemm, a.data, b.data, c.data, scratch.data));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t x = 0; x < k; x++)
                sum += guarded_get(&a, (size_t)(trans_a ? x * m + i : i * k + x)) * guarded_get(&b, (size_t)(trans_b ? j * k + x : x * n + j));
            assert_near("gemm on the model", guarded_get(&c, (size_t)(i * n + j)), sum, 1e-5 * (double)(k + 4) + (c_type == LJ_BF16 ? fabs(sum) / 256 : 0),
                        (size_t)(i * n + j));
        }
    guarded_check(&c, "C"), guarded_check(&scratch, "scratch");
    guarded_destroy(&a), guarded_destroy(&b), guarded_destroy(&c), guarded_destroy(&scratch);
    lj_gemm_destroy(gemm);
}

/* GEMM's blocks and AMX's layouts together: k beyond a block, transposes, both types of C. */
static void gemm_on_the_model(void **state)
{
    (void)state;
    uint64_t seed = 77;
    lj_tile_force(&modelled);
    for (int form = 0; form < 8; form++) gemm_try(45, 70, 131, form & 1, form >> 1 & 1, form >> 2 ? LJ_BF16 : LJ_F32, &seed);
    gemm_try(3, 5, 300, true, false, LJ_BF16, &seed);
    lj_tile_force(NULL);
}

typedef struct {
    uint16_t q[130 * 4 * 48], k[130 * 2 * 48], v[130 * 2 * 48], out[130 * 4 * 48], dout[130 * 4 * 48], dq[130 * 4 * 48], dk[130 * 2 * 48], dv[130 * 2 * 48];
    float lse[4 * 130];
    int32_t first_key[130];
} attention_data;

static void attention_run(attention_data *t, bool documents)
{
    lj_attention_desc d = {LJ_BF16, 1, 130, 130, 4, 2, 48, -1, 0, 0.14f, true};
    void *scratch;
    size_t forward = lj_attention_forward_scratch(&d, 2), backward = lj_attention_backward_scratch(&d, 2);
    lj_attention_view q = lj_attention_dense(t->q, 130, 4, 48), k = lj_attention_dense(t->k, 130, 2, 48), v = lj_attention_dense(t->v, 130, 2, 48);
    lj_attention_view out = lj_attention_dense(t->out, 130, 4, 48);
    assert_ok(lj_alloc("test", forward > backward ? forward : backward, &scratch));
    lj_attention_forward_args f = {d, q, k, v, out, t->lse, documents ? t->first_key : NULL, NULL, scratch};
    lj_attention_backward_args b = {d, q, k, v, out, lj_attention_dense(t->dout, 130, 4, 48), t->lse, documents ? t->first_key : NULL, NULL,
                                    lj_attention_dense(t->dq, 130, 4, 48), lj_attention_dense(t->dk, 130, 2, 48), lj_attention_dense(t->dv, 130, 2, 48), scratch};
    lj_team_run(2, lj_attention_forward, &f);
    lj_team_run(2, lj_attention_backward, &b);
    lj_free(scratch);
}

static void near_bits(const char *what, const uint16_t *got, const uint16_t *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_near(what, (double)lj_bf16_to_float(got[i]), (double)lj_bf16_to_float(want[i]), 0.02, i);
}

/* Attention through AMX's layouts equals attention through the machine's own engine (which the double reference judges). */
static void attention_on_the_model(void **state)
{
    (void)state;
    if (lj_machine_get()->isa < LJ_ISA_AVX512_BF16) skip();
    for (int documents = 0; documents < 2; documents++) {
        static attention_data want, got;
        uint64_t seed = 5;
        uint16_t *inputs[] = {want.q, want.k, want.v, want.dout};
        const size_t counts[] = {130 * 4 * 48, 130 * 2 * 48, 130 * 2 * 48, 130 * 4 * 48};
        for (int x = 0; x < 4; x++)
            for (size_t i = 0; i < counts[x]; i++) inputs[x][i] = lj_bf16_from_float((float)test_random_normal(&seed));
        for (int i = 0; i < 130; i++) want.first_key[i] = i < 50 ? 0 : i < 90 ? 50 : 90;
        got = want;
        attention_run(&want, documents);
        lj_tile_force(&modelled);
        attention_run(&got, documents);
        lj_tile_force(NULL);
        near_bits("out", got.out, want.out, counts[0]), near_bits("dq", got.dq, want.dq, counts[0]);
        near_bits("dk", got.dk, want.dk, counts[1]), near_bits("dv", got.dv, want.dv, counts[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(amx_code_on_the_model), cmocka_unit_test(gemm_on_the_model), cmocka_unit_test(attention_on_the_model),
                                       cmocka_unit_test(panels_match_reference),
                                       cmocka_unit_test(packing_matches_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
