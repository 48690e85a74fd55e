/* Attention forward and backward against a naive double reference: shapes, masks, strides, storage types, thread counts, instruction sets. */
#include "support/kernel_data.h"
#include "support/testing.h"

#include "kernels/attention.h"
#include "kernels/team.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    lj_attention_desc d;
    bool documents, lengths, fused; /* first_key, kv_lens, slices of one qkv matrix */
    int threads;
} example;

typedef struct {
    example x;
    guarded qkv, q, k, v, out, dout, lse, dq, dk, dv, dqkv, scratch; /* q, k, v, dq, dk, dv alias qkv and dqkv when fused */
    lj_attention_view vq, vk, vv, vout, vdout, vdq, vdk, vdv;
    int32_t *first_key, *kv_lens;
    double *r_out, *r_lse, *r_dq, *r_dk, *r_dv;
} fixture;

static double at(const lj_attention_view *v, lj_dtype type, int64_t b, int64_t t, int64_t h, int64_t d)
{
    return lj_element_get(type, v->data, (size_t)(b * v->batch_stride + t * v->row_stride + h * v->head_stride + d));
}

static lj_attention_view slice(guarded *g, int64_t offset, int64_t rows, int64_t row, int64_t dim)
{
    return (lj_attention_view){(char *)g->data + (size_t)offset * lj_dtype_bytes(g->type), rows * row, row, dim};
}

static void tensors_create(fixture *f, uint64_t *seed)
{
    const lj_attention_desc *d = &f->x.d;
    int64_t q = d->heads * d->head_dim, kv = d->kv_heads * d->head_dim, row = q + 2 * kv;
    if (f->x.fused) {
        f->qkv = guarded_create(d->type, (size_t)(d->batch * d->q_len * row)), f->dqkv = guarded_create(d->type, f->qkv.count);
        guarded_fill(&f->qkv, seed, 1);
        f->vq = slice(&f->qkv, 0, d->q_len, row, d->head_dim), f->vk = slice(&f->qkv, q, d->q_len, row, d->head_dim);
        f->vv = slice(&f->qkv, q + kv, d->q_len, row, d->head_dim), f->vdq = slice(&f->dqkv, 0, d->q_len, row, d->head_dim);
        f->vdk = slice(&f->dqkv, q, d->q_len, row, d->head_dim), f->vdv = slice(&f->dqkv, q + kv, d->q_len, row, d->head_dim);
    } else {
        f->q = guarded_create(d->type, (size_t)(d->batch * d->q_len * q)), f->dq = guarded_create(d->type, f->q.count);
        f->k = guarded_create(d->type, (size_t)(d->batch * d->kv_len * kv)), f->dk = guarded_create(d->type, f->k.count);
        f->v = guarded_create(d->type, f->k.count), f->dv = guarded_create(d->type, f->k.count);
        guarded_fill(&f->q, seed, 1), guarded_fill(&f->k, seed, 1), guarded_fill(&f->v, seed, 1);
        f->vq = lj_attention_dense(f->q.data, d->q_len, d->heads, d->head_dim), f->vdq = lj_attention_dense(f->dq.data, d->q_len, d->heads, d->head_dim);
        f->vk = lj_attention_dense(f->k.data, d->kv_len, d->kv_heads, d->head_dim), f->vdk = lj_attention_dense(f->dk.data, d->kv_len, d->kv_heads, d->head_dim);
        f->vv = lj_attention_dense(f->v.data, d->kv_len, d->kv_heads, d->head_dim), f->vdv = lj_attention_dense(f->dv.data, d->kv_len, d->kv_heads, d->head_dim);
    }
    f->out = guarded_create(d->type, (size_t)(d->batch * d->q_len * q)), f->dout = guarded_create(d->type, f->out.count);
    guarded_fill(&f->dout, seed, 1);
    f->vout = lj_attention_dense(f->out.data, d->q_len, d->heads, d->head_dim), f->vdout = lj_attention_dense(f->dout.data, d->q_len, d->heads, d->head_dim);
    f->lse = guarded_create(LJ_F32, (size_t)(d->batch * d->heads * d->q_len));
}

static void masks_create(fixture *f, uint64_t *seed)
{
    const lj_attention_desc *d = &f->x.d;
    if (f->x.documents) f->first_key = calloc((size_t)(d->batch * d->q_len) + 1, 4);
    if (f->x.lengths) f->kv_lens = calloc((size_t)d->batch + 1, 4);
    for (int64_t b = 0; b < d->batch; b++) {
        int32_t start = 0;
        if (f->x.lengths) f->kv_lens[b] = (int32_t)test_random_range(seed, d->q_len < d->kv_len ? d->q_len : d->kv_len, d->kv_len);
        for (int64_t t = 0; f->x.documents && t < d->q_len; t++) {
            if (test_random_range(seed, 0, 12) == 0) start = (int32_t)(t + d->kv_len - d->q_len);
            f->first_key[b * d->q_len + t] = start;
        }
    }
}

static bool sees(const fixture *f, int64_t b, int64_t t, int64_t s)
{
    const lj_attention_desc *d = &f->x.d;
    int64_t keys = f->kv_lens ? f->kv_lens[b] : d->kv_len, position = (d->q_start < 0 ? keys - d->q_len : d->q_start) + t;
    if (s >= keys || (d->causal && s > position) || (d->window && s <= position - d->window)) return false;
    return !f->first_key || s >= f->first_key[b * d->q_len + t];
}

/* Probabilities of one row in double; returns lse. */
static double row_probabilities(const fixture *f, int64_t b, int64_t h, int64_t t, double *p)
{
    const lj_attention_desc *d = &f->x.d;
    double top = -INFINITY, sum = 0;
    for (int64_t s = 0; s < d->kv_len; s++) {
        p[s] = -INFINITY;
        if (!sees(f, b, t, s)) continue;
        p[s] = 0;
        for (int64_t i = 0; i < d->head_dim; i++) p[s] += at(&f->vq, d->type, b, t, h, i) * at(&f->vk, d->type, b, s, h * d->kv_heads / d->heads, i);
        p[s] *= (double)d->scale;
        if (p[s] > top) top = p[s];
    }
    for (int64_t s = 0; s < d->kv_len; s++) p[s] = isinf(p[s]) ? 0 : exp(p[s] - top), sum += p[s];
    for (int64_t s = 0; s < d->kv_len; s++) p[s] = sum > 0 ? p[s] / sum : 0;
    return sum > 0 ? top + log(sum) : -INFINITY;
}

static void reference_row(fixture *f, int64_t b, int64_t h, int64_t t, double *p)
{
    const lj_attention_desc *d = &f->x.d;
    int64_t D = d->head_dim, kv = h * d->kv_heads / d->heads, row = ((b * d->q_len + t) * d->heads + h) * D;
    double *out = f->r_out + row, *dq = f->r_dq + row, delta = 0;
    f->r_lse[(b * d->heads + h) * d->q_len + t] = row_probabilities(f, b, h, t, p);
    for (int64_t i = 0; i < D; i++) {
        out[i] = dq[i] = 0;
        for (int64_t s = 0; s < d->kv_len; s++) out[i] += p[s] * at(&f->vv, d->type, b, s, kv, i);
        delta += out[i] * at(&f->vdout, d->type, b, t, h, i);
    }
    for (int64_t s = 0; s < d->kv_len; s++) {
        double dp = 0, *dk = f->r_dk + ((b * d->kv_len + s) * d->kv_heads + kv) * D, *dv = f->r_dv + (dk - f->r_dk);
        if (p[s] == 0) continue;
        for (int64_t i = 0; i < D; i++) dp += at(&f->vdout, d->type, b, t, h, i) * at(&f->vv, d->type, b, s, kv, i);
        double ds = p[s] * (dp - delta) * (double)d->scale;
        for (int64_t i = 0; i < D; i++) {
            dq[i] += ds * at(&f->vk, d->type, b, s, kv, i);
            dk[i] += ds * at(&f->vq, d->type, b, t, h, i);
            dv[i] += p[s] * at(&f->vdout, d->type, b, t, h, i);
        }
    }
}

static void reference(fixture *f)
{
    const lj_attention_desc *d = &f->x.d;
    size_t q = (size_t)(d->batch * d->q_len * d->heads * d->head_dim) + 1, kv = (size_t)(d->batch * d->kv_len * d->kv_heads * d->head_dim) + 1;
    f->r_out = calloc(q, 8), f->r_dq = calloc(q, 8), f->r_dk = calloc(kv, 8), f->r_dv = calloc(kv, 8);
    f->r_lse = calloc((size_t)(d->batch * d->heads * d->q_len) + 1, 8);
    double *p = calloc((size_t)d->kv_len + 1, 8);
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->heads; h++)
            for (int64_t t = 0; t < d->q_len; t++) reference_row(f, b, h, t, p);
    free(p);
}

/* Relative L2 of the whole, and each element against the largest. */
static void compare(const char *what, const fixture *f, const lj_attention_view *got, const double *want, int64_t rows, int64_t heads, double tolerance)
{
    const lj_attention_desc *d = &f->x.d;
    double error = 0, size = 0, largest = 0;
    size_t index = 0;
    for (int64_t i = 0; i < d->batch * rows * heads * d->head_dim; i++) largest = fmax(largest, fabs(want[i]));
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t t = 0; t < rows; t++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t i = 0; i < d->head_dim; i++, index++) {
                    double value = at(got, d->type, b, t, h, i), miss = value - want[index];
                    error += miss * miss, size += want[index] * want[index];
                    assert_near(what, value, want[index], 4 * tolerance * largest + 1e-6, index);
                }
    if (sqrt(error) > tolerance * sqrt(size) + 1e-7) fail_msg("%s: relative L2 error %g, allowed %g", what, sqrt(error / size), tolerance);
}

static void compare_lse(const fixture *f)
{
    for (size_t i = 0; i < f->lse.count; i++) assert_near("lse", guarded_get(&f->lse, i), f->r_lse[i], 1e-4 * (1 + fabs(f->r_lse[i])), i);
}

static void fixture_check(fixture *f, const char *what)
{
    const lj_attention_desc *d = &f->x.d;
    double tolerance = d->type == LJ_BF16 ? 8e-3 : 3e-6;
    char name[160];
    snprintf(name, sizeof name, "%s out", what);
    compare(name, f, &f->vout, f->r_out, d->q_len, d->heads, tolerance);
    compare_lse(f);
    snprintf(name, sizeof name, "%s dq", what);
    compare(name, f, &f->vdq, f->r_dq, d->q_len, d->heads, 1.5 * tolerance);
    snprintf(name, sizeof name, "%s dk", what);
    compare(name, f, &f->vdk, f->r_dk, d->kv_len, d->kv_heads, 1.5 * tolerance);
    snprintf(name, sizeof name, "%s dv", what);
    compare(name, f, &f->vdv, f->r_dv, d->kv_len, d->kv_heads, 1.5 * tolerance);
    guarded all[] = {f->out, f->lse};
    for (size_t i = 0; i < 2; i++) guarded_check(&all[i], what);
    if (f->x.fused)
        guarded_check(&f->dqkv, what);
    else
        guarded_check(&f->dq, what), guarded_check(&f->dk, what), guarded_check(&f->dv, what);
}

static void run_forward(fixture *f, int threads)
{
    f->scratch = guarded_create(LJ_U8, lj_attention_forward_scratch(&f->x.d, threads));
    lj_attention_forward_args args = {f->x.d, f->vq, f->vk, f->vv, f->vout, f->lse.data, f->first_key, f->kv_lens, f->scratch.data};
    lj_team_run(threads, lj_attention_forward, &args);
    guarded_check(&f->scratch, "forward scratch");
    guarded_destroy(&f->scratch);
}

static void run_backward(fixture *f, int threads)
{
    f->scratch = guarded_create(LJ_U8, lj_attention_backward_scratch(&f->x.d, threads));
    lj_attention_backward_args args = {f->x.d, f->vq, f->vk, f->vv, f->vout, f->vdout, f->lse.data, f->first_key, f->kv_lens,
                                       f->vdq, f->vdk, f->vdv, f->scratch.data};
    lj_team_run(threads, lj_attention_backward, &args);
    guarded_check(&f->scratch, "backward scratch");
    guarded_destroy(&f->scratch);
}

static void fixture_destroy(fixture *f)
{
    guarded *all[] = {&f->qkv, &f->q, &f->k, &f->v, &f->out, &f->dout, &f->lse, &f->dq, &f->dk, &f->dv, &f->dqkv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_destroy(all[i]);
    free(f->first_key), free(f->kv_lens), free(f->r_out), free(f->r_lse), free(f->r_dq), free(f->r_dk), free(f->r_dv);
}

static void example_run(example x, uint64_t seed)
{
    char what[120];
    fixture f = {.x = x};
    snprintf(what, sizeof what, "%s b%d q%d kv%d h%d/%d d%d%s w%d start%d%s%s t%d", lj_dtype_name(x.d.type), (int)x.d.batch, (int)x.d.q_len,
             (int)x.d.kv_len, (int)x.d.heads, (int)x.d.kv_heads, (int)x.d.head_dim, x.d.causal ? " causal" : "", (int)x.d.window,
             (int)x.d.q_start, x.documents ? " documents" : "", x.lengths ? " lengths" : "", x.threads);
    assert_ok(lj_attention_check(&x.d));
    tensors_create(&f, &seed);
    masks_create(&f, &seed);
    reference(&f);
    run_forward(&f, x.threads);
    run_backward(&f, x.threads);
    fixture_check(&f, what);
    fixture_destroy(&f);
}

/*          type  B  T    S    H Hkv D    start window scale causal       documents lengths fused threads */
#define D(batch, q, kv, heads, kv_heads, dim, start, window, causal) {LJ_F32, batch, q, kv, heads, kv_heads, dim, start, window, 0.125f, causal}
static const example examples[] = {
    {D(1, 1, 1, 1, 1, 1, -1, 0, true), false, false, false, 1},
    {D(2, 5, 5, 2, 1, 3, -1, 0, true), false, false, false, 2},
    {D(1, 64, 64, 2, 2, 64, -1, 0, true), false, false, true, 1},
    {D(2, 130, 130, 6, 2, 64, -1, 0, true), false, false, true, 2},
    {D(1, 97, 97, 3, 1, 96, -1, 0, true), false, false, true, 3},
    {D(1, 200, 200, 4, 4, 128, -1, 0, true), false, false, true, 2},
    {D(1, 70, 70, 2, 1, 33, -1, 0, false), false, false, false, 2},
    {D(2, 33, 150, 4, 2, 16, -1, 0, true), false, false, false, 2},
    {D(1, 33, 150, 4, 2, 16, 50, 0, true), false, false, false, 2},
    {D(3, 1, 77, 6, 2, 64, -1, 0, true), false, true, false, 2},
    {D(1, 180, 180, 2, 1, 24, -1, 17, true), false, false, true, 2},
    {D(2, 150, 150, 4, 2, 32, -1, 0, true), true, false, true, 2},
    {D(2, 140, 190, 2, 2, 40, -1, 100, true), true, true, false, 4},
    {D(1, 40, 20, 2, 1, 8, -1, 0, true), false, false, false, 2}, /* the first queries see nothing */
    {D(1, 300, 300, 1, 1, 17, -1, 0, true), false, false, false, 5},
    {D(2, 65, 129, 2, 1, 80, -1, 0, false), false, true, false, 7},
    {D(2, 2, 300, 8, 2, 64, -1, 0, true), false, true, false, 3},
    {D(1, 3, 400, 5, 1, 40, -1, 150, true), true, false, false, 2},
    {D(1, 1, 260, 9, 3, 64, 128, 0, true), false, false, false, 2}, /* the cache is larger than what is filled */
    {D(1, 3, 2, 2, 1, 128, -1, 0, true), false, false, false, 2},
    {D(0, 5, 5, 1, 1, 4, -1, 0, true), false, false, false, 2},
    {D(1, 0, 5, 1, 1, 4, -1, 0, true), false, false, false, 2},
    {D(1, 5, 0, 2, 1, 4, -1, 0, false), false, false, false, 2},
};

static void matches_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            example x = examples[i];
            if (bf16) x.d.type = LJ_BF16;
            example_run(x, 100 + i);
        }
}

static void bits_of(fixture *f, guarded *out, guarded *dq, int threads)
{
    run_forward(f, threads);
    run_backward(f, threads);
    *out = f->out, *dq = f->dq;
}

/* Forward: the same bits for any number of threads. Backward: the same bits for the same number. */
static void same_bits(void **state)
{
    (void)state;
    fixture f = {.x = {D(1, 150, 150, 4, 2, 64, -1, 0, true), false, false, false, 1}};
    uint64_t seed = 1;
    guarded out, dq;
    static uint16_t first[150 * 4 * 64], first_dq[4][150 * 4 * 64];
    f.x.d.type = LJ_BF16;
    tensors_create(&f, &seed);
    for (int round = 0; round < 8; round++) {
        int threads = 1 + round % 4;
        bits_of(&f, &out, &dq, threads);
        if (round == 0) memcpy(first, out.data, sizeof first);
        if (round < 4) memcpy(first_dq[round], dq.data, sizeof *first_dq);
        assert_memory_equal(first, out.data, sizeof first);
        assert_memory_equal(first_dq[round % 4], dq.data, sizeof *first_dq);
    }
    fixture_destroy(&f);
}

/* Scores of +-60 and of one sign only: no overflow, no zero sums. */
static void large_scores(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        example x = {D(1, 100, 100, 1, 1, 64, -1, 0, true), false, false, false, 2};
        if (bf16) x.d.type = LJ_BF16;
        x.d.scale = 8;
        uint64_t seed = 4;
        fixture f = {.x = x};
        tensors_create(&f, &seed);
        reference(&f);
        run_forward(&f, 2);
        compare("large scores", &f, &f.vout, f.r_out, 100, 1, bf16 ? 8e-3 : 1e-4);
        fixture_destroy(&f);
    }
}

/* A NaN in V reaches every query that sees it, and no other. */
static void nan_is_not_hidden(void **state)
{
    (void)state;
    fixture f = {.x = {D(1, 70, 70, 1, 1, 8, -1, 0, true), false, false, false, 1}};
    uint64_t seed = 2;
    tensors_create(&f, &seed);
    lj_element_set(LJ_F32, f.k.data, 66 * 8, NAN);
    run_forward(&f, 1);
    for (int64_t t = 0; t < 70; t++) assert_true(isnan(at(&f.vout, LJ_F32, 0, t, 0, 3)) == (t >= 66));
    fixture_destroy(&f);
}

static void wrong_descriptions_are_refused(void **state)
{
    (void)state;
    lj_attention_desc d = D(1, 4, 4, 6, 4, 8, -1, 0, true);
    assert_fails(lj_attention_check(&d), LJ_ERR_INVALID, "6 heads is no multiple of 4");
    d.kv_heads = 3, d.window = 5, d.causal = false;
    assert_fails(lj_attention_check(&d), LJ_ERR_INVALID, "needs causal");
    d.causal = true, d.type = LJ_F16;
    assert_fails(lj_attention_check(&d), LJ_ERR_INVALID, "f16");
    d.type = LJ_F32, d.scale = 0;
    assert_fails(lj_attention_check(&d), LJ_ERR_INVALID, "scale 0");
}

int main(int argc, char **argv)
{
    (void)argc;
    int failed = run_for_every_isa(argv);
    if (failed >= 0) return failed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_reference), cmocka_unit_test(same_bits), cmocka_unit_test(large_scores),
                                       cmocka_unit_test(nan_is_not_hidden), cmocka_unit_test(wrong_descriptions_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
