/* The fused head and loss against a double reference: chunks, remainders, ignored rows, both types, every instruction set. */
#include "support/kernel_data.h"
#include "support/testing.h"

#include "kernels/head_loss.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    lj_head_loss_desc d;
    guarded x, w, loss, lse, scale, dx, dw, scratch;
    int32_t *target;
    double *r_loss, *r_lse, *r_dx, *r_dw;
} fixture;

static void reference_row(fixture *f, int64_t i, double *logits)
{
    const lj_head_loss_desc *d = &f->d;
    int64_t C = d->channels;
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < d->vocab; v++) {
        logits[v] = 0;
        for (int64_t c = 0; c < C; c++) logits[v] += guarded_get(&f->x, (size_t)(i * C + c)) * guarded_get(&f->w, (size_t)(v * C + c));
        top = fmax(top, logits[v]);
    }
    for (int64_t v = 0; v < d->vocab; v++) sum += exp(logits[v] - top);
    f->r_lse[i] = top + log(sum);
    f->r_loss[i] = f->target[i] < 0 ? 0 : f->r_lse[i] - logits[f->target[i]];
    for (int64_t v = 0; v < d->vocab && f->target[i] >= 0; v++) {
        double g = (exp(logits[v] - f->r_lse[i]) - (v == f->target[i])) * guarded_get(&f->scale, (size_t)i);
        for (int64_t c = 0; c < C; c++) {
            f->r_dx[i * C + c] += g * guarded_get(&f->w, (size_t)(v * C + c));
            f->r_dw[v * C + c] += g * guarded_get(&f->x, (size_t)(i * C + c));
        }
    }
}

static void fixture_create(fixture *f, uint64_t *seed)
{
    const lj_head_loss_desc *d = &f->d;
    size_t rows = (size_t)d->rows, x = (size_t)(d->rows * d->channels), w = (size_t)(d->vocab * d->channels);
    f->x = guarded_create(d->type, x), f->w = guarded_create(d->type, w), f->dx = guarded_create(d->type, x), f->dw = guarded_create(LJ_F32, w);
    f->loss = guarded_create(LJ_F32, rows), f->lse = guarded_create(LJ_F32, rows), f->scale = guarded_create(LJ_F32, rows);
    guarded_fill(&f->x, seed, 1), guarded_fill(&f->w, seed, 0.5), guarded_fill(&f->scale, seed, 0.1), guarded_fill(&f->dw, seed, 0.1);
    f->target = malloc(rows * 4 + 4);
    f->r_loss = calloc(rows + 1, 8), f->r_lse = calloc(rows + 1, 8), f->r_dx = calloc(x + 1, 8), f->r_dw = calloc(w + 1, 8);
    for (int64_t i = 0; i < d->rows; i++) f->target[i] = i % 5 == 3 ? LJ_HEAD_LOSS_IGNORED : (int32_t)test_random_range(seed, 0, d->vocab - 1);
    for (size_t i = 0; i < w; i++) f->r_dw[i] = guarded_get(&f->dw, i);
    double *logits = malloc((size_t)d->vocab * 8);
    for (int64_t i = 0; i < d->rows; i++) reference_row(f, i, logits);
    free(logits);
}

static void fixture_destroy(fixture *f)
{
    guarded *all[] = {&f->x, &f->w, &f->loss, &f->lse, &f->scale, &f->dx, &f->dw, &f->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_destroy(all[i]);
    free(f->target), free(f->r_loss), free(f->r_lse), free(f->r_dx), free(f->r_dw);
}

static void compare(const char *what, const guarded *got, const double *want, double tolerance)
{
    double error = 0, size = 0, largest = 0;
    for (size_t i = 0; i < got->count; i++) largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < got->count; i++) {
        double miss = guarded_get(got, i) - want[i];
        error += miss * miss, size += want[i] * want[i];
        assert_near(what, guarded_get(got, i), want[i], 4 * tolerance * largest + 1e-7, i);
    }
    if (sqrt(error) > tolerance * sqrt(size) + 1e-7) fail_msg("%s: relative L2 error %g, allowed %g", what, sqrt(error / size), tolerance);
    guarded_check(got, what);
}

static void example_run(lj_head_loss_desc d, int threads, bool with_gradient)
{
    fixture f = {.d = d};
    uint64_t seed = (uint64_t)(d.rows * 31 + d.vocab);
    lj_head_loss_handle *handle;
    fixture_create(&f, &seed);
    f.d.gradient = with_gradient;
    assert_ok(lj_head_loss_create(&f.d, threads, &handle));
    f.scratch = guarded_create(LJ_U8, lj_head_loss_scratch(handle));
    lj_head_loss_args a = {f.x.data, f.w.data, f.target, f.loss.data, f.lse.data, f.scale.data, with_gradient ? f.dx.data : NULL,
                           with_gradient ? f.dw.data : NULL, f.scratch.data};
    assert_ok(lj_head_loss_run(handle, &a));
    compare("loss", &f.loss, f.r_loss, 1e-5), compare("lse", &f.lse, f.r_lse, 1e-5);
    if (with_gradient) compare("dx", &f.dx, f.r_dx, d.type == LJ_BF16 ? 6e-3 : 1e-5), compare("dw", &f.dw, f.r_dw, d.type == LJ_BF16 ? 6e-3 : 1e-5);
    guarded_check(&f.scratch, "scratch");
    lj_head_loss_destroy(handle);
    fixture_destroy(&f);
}

static void matches_reference(void **state)
{
    (void)state;
    const struct {
        int64_t rows, channels, vocab, chunk;
    } sizes[] = {{1, 1, 1, 0}, {7, 5, 33, 0}, {40, 24, 301, 16}, {33, 48, 515, 32}, {64, 17, 100, 64}, {0, 4, 9, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (int gradient = 0; gradient < 2; gradient++) {
                lj_head_loss_desc d = {bf16 ? LJ_BF16 : LJ_F32, sizes[i].rows, sizes[i].channels, sizes[i].vocab, sizes[i].chunk, true};
                example_run(d, 1 + (int)i % 3, gradient);
            }
}

static void wrong_input_is_refused(void **state)
{
    (void)state;
    lj_head_loss_handle *handle;
    lj_head_loss_desc d = {LJ_F32, 2, 3, 4, 0, false};
    float x[6] = {0}, w[12] = {0}, loss[2] = {7, 7}, dx[6];
    int32_t target[2] = {1, 4};
    assert_ok(lj_head_loss_create(&d, 1, &handle));
    void *scratch;
    assert_ok(lj_alloc("test", lj_head_loss_scratch(handle), &scratch));
    lj_head_loss_args a = {x, w, target, loss, NULL, NULL, NULL, NULL, scratch};
    assert_fails(lj_head_loss_run(handle, &a), LJ_ERR_INVALID, "target 4 of row 1");
    assert_true(loss[0] == 7);
    target[1] = 3, a.dx = dx;
    assert_fails(lj_head_loss_run(handle, &a), LJ_ERR_INVALID, "needs gradient");
    a.dx = NULL;
    assert_ok(lj_head_loss_run(handle, &a));
    assert_near("uniform", (double)loss[1], log(4), 1e-6, 1);
    lj_free(scratch);
    lj_head_loss_destroy(handle);
    d.vocab = 0;
    assert_fails(lj_head_loss_create(&d, 1, &handle), LJ_ERR_INVALID, "vocab 0");
}

int main(int argc, char **argv)
{
    (void)argc;
    int failed = run_for_every_isa(argv);
    if (failed >= 0) return failed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_reference), cmocka_unit_test(wrong_input_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
