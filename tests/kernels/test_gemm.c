/* Every provider against a naive double product: types, transposes, odd and zero sizes, strides, batches, accumulation, packed B, tails. */
#include "support/kernel_data.h"
#include "support/testing.h"

#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"
#include "kernels/gemm/choice.h"
#include "kernels/team.h"

#include <math.h>
#include <stdlib.h>

enum { GAP = 3 };

typedef struct {
    guarded a, b, c, packed, scratch;
    double *want, *size; /* reference, and the sum of |products| that bounds the rounding */
} problem;

static size_t extent(int64_t batch, int64_t stride, int64_t rows, int64_t ld)
{
    return (size_t)(batch * stride > 0 ? (batch - 1) * stride + rows * ld : rows * ld);
}

static void reference(const lj_gemm_desc *d, problem *p)
{
    for (int64_t e = 0; e < d->batch; e++)
        for (int64_t i = 0; i < d->m; i++)
            for (int64_t j = 0; j < d->n; j++) {
                double sum = 0, size = 0;
                for (int64_t k = 0; k < d->k; k++) {
                    double x = guarded_get(&p->a, (size_t)(e * d->stride_a + (d->trans_a ? k * d->lda + i : i * d->lda + k)));
                    double y = guarded_get(&p->b, (size_t)((d->share_b ? 0 : e * d->stride_b) + (d->trans_b ? j * d->ldb + k : k * d->ldb + j)));
                    sum += x * y, size += fabs(x * y);
                }
                size_t at = (size_t)((e * d->m + i) * d->n + j);
                double before = guarded_get(&p->c, (size_t)(e * d->stride_c + i * d->ldc + j));
                p->want[at] = sum + (d->accumulate ? before : 0);
                p->size[at] = size + (d->accumulate ? fabs(before) : 0);
            }
}

/* k rounding steps of f32 at most, one of c_type. */
static double tolerance_of(const lj_gemm_desc *d, double want, double size)
{
    double unit = d->c_type == LJ_F64 && d->a_type == LJ_F64 ? 1e-15 : 6e-8;
    double last = d->c_type == LJ_BF16 ? 1.0 / 256 : d->c_type == LJ_F16 ? 1.0 / 2048 : 0;
    return size * unit * (double)(d->k + 2) + fabs(want) * last + 1e-30;
}

static void verify(const lj_gemm_desc *d, const problem *p, const char *what)
{
    for (int64_t e = 0; e < d->batch; e++)
        for (int64_t i = 0; i < d->m; i++)
            for (int64_t j = 0; j < d->n; j++) {
                size_t at = (size_t)((e * d->m + i) * d->n + j);
                assert_near(what, guarded_get(&p->c, (size_t)(e * d->stride_c + i * d->ldc + j)), p->want[at],
                            tolerance_of(d, p->want[at], p->size[at]), at);
            }
    guarded_check(&p->c, what);
    guarded_check(&p->scratch, "scratch");
    guarded_check(&p->packed, "packed B");
}

/* Elements between rows of C stay as they were. */
static void verify_gaps(const lj_gemm_desc *d, const problem *p, double marker, const char *what)
{
    for (int64_t i = 0; i + 1 < d->m; i++)
        for (int64_t j = d->n; j < d->ldc; j++)
            if (guarded_get(&p->c, (size_t)(i * d->ldc + j)) != marker) fail_msg("%s: wrote between rows of C at row %d", what, (int)i);
}

static void problem_create(const lj_gemm_desc *d, problem *p, uint64_t *seed, double marker)
{
    p->a = guarded_create(d->a_type, extent(d->batch, d->stride_a, d->trans_a ? d->k : d->m, d->lda));
    p->b = guarded_create(d->b_type, extent(d->share_b ? 1 : d->batch, d->stride_b, d->trans_b ? d->n : d->k, d->ldb));
    p->c = guarded_create(d->c_type, extent(d->batch, d->stride_c, d->m, d->ldc));
    guarded_fill(&p->a, seed, 1), guarded_fill(&p->b, seed, 1);
    for (size_t i = 0; i < p->c.count; i++) lj_element_set(d->c_type, p->c.data, i, marker);
    size_t count = (size_t)(d->batch * d->m * d->n);
    p->want = malloc((count + 1) * sizeof(double)), p->size = malloc((count + 1) * sizeof(double));
}

static void problem_destroy(problem *p)
{
    guarded_destroy(&p->a), guarded_destroy(&p->b), guarded_destroy(&p->c), guarded_destroy(&p->packed), guarded_destroy(&p->scratch);
    free(p->want), free(p->size);
}

typedef struct {
    int64_t columns;
    int counts[64 * 64]; /* visits of each element of C */
} tail_record;

static void tail_count(void *arg, int64_t batch, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    tail_record *r = arg;
    (void)batch;
    for (int64_t i = row; i < row + rows; i++)
        for (int64_t j = col; j < col + cols; j++) r->counts[i * r->columns + j]++;
}

/* Runs one description on one provider and compares. Returns false when that provider refuses it. */
static bool try_one(lj_gemm_desc d, const lj_gemm_provider_row *provider, int threads, uint64_t *seed)
{
    char what[200];
    lj_gemm *gemm;
    problem p = {0};
    double marker = 2;
    if (!provider->supports(&d)) return false;
    lj_status status = lj_gemm_create_with(&d, threads, provider, &gemm);
    if (status == LJ_ERR_UNSUPPORTED) return false;
    assert_ok(status);
    d = *lj_gemm_get_desc(gemm);
    snprintf(what, sizeof what, "%s t%d %s->%s m%d n%d k%d %c%c batch%d%s%s", provider->name, threads, lj_dtype_name(d.a_type),
             lj_dtype_name(d.c_type), (int)d.m, (int)d.n, (int)d.k, d.trans_a ? 'T' : 'N', d.trans_b ? 'T' : 'N', (int)d.batch,
             d.accumulate ? " add" : "", d.packed_b ? " packed" : "");
    problem_create(&d, &p, seed, marker);
    reference(&d, &p);
    p.scratch = guarded_create(LJ_U8, lj_gemm_scratch_bytes(gemm));
    p.packed = guarded_create(LJ_U8, lj_gemm_packed_bytes(gemm));
    if (d.packed_b) assert_ok(lj_gemm_pack_b(gemm, p.b.data, p.packed.data));
    assert_ok(lj_gemm_run(gemm, p.a.data, d.packed_b ? p.packed.data : p.b.data, p.c.data, p.scratch.data));
    verify(&d, &p, what);
    verify_gaps(&d, &p, marker, what);
    lj_gemm_destroy(gemm);
    problem_destroy(&p);
    return true;
}

static lj_gemm_desc desc_random(uint64_t *seed, lj_dtype in, lj_dtype out)
{
    lj_gemm_desc d = LJ_GEMM_DESC_INIT;
    int64_t sizes[] = {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 47, 48, 49, 64, 65, 97, 130};
    int64_t last = (int64_t)(sizeof sizes / sizeof *sizes) - 1;
    d.a_type = d.b_type = in, d.c_type = out;
    d.m = sizes[test_random_range(seed, 0, last)], d.n = sizes[test_random_range(seed, 0, last)], d.k = sizes[test_random_range(seed, 0, last)];
    d.trans_a = test_random_range(seed, 0, 1), d.trans_b = test_random_range(seed, 0, 1);
    d.accumulate = (out == LJ_F32 || out == LJ_F64) && test_random_range(seed, 0, 1);
    d.batch = test_random_range(seed, 0, 4) ? 1 : 3;
    d.share_b = d.batch > 1 && test_random_range(seed, 0, 1);
    d.packed_b = test_random_range(seed, 0, 2) == 0;
    if (test_random_range(seed, 0, 1)) {
        d.lda = (d.trans_a ? d.m : d.k) + GAP, d.ldb = (d.trans_b ? d.k : d.n) + GAP, d.ldc = d.n + GAP;
    }
    return d;
}

static void providers_match_reference(void **state)
{
    (void)state;
    const struct {
        lj_dtype in, out;
        int rounds;
    } types[] = {{LJ_BF16, LJ_BF16, 80}, {LJ_BF16, LJ_F32, 80}, {LJ_F32, LJ_F32, 80}, {LJ_F64, LJ_F64, 10}, {LJ_F16, LJ_F32, 6}, {LJ_I8, LJ_I32, 6}};
    uint64_t seed = 11;
    int ran[3] = {0};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int round = 0; round < types[t].rounds; round++) {
            lj_gemm_desc d = desc_random(&seed, types[t].in, types[t].out);
            for (int i = 0; lj_gemm_providers[i]; i++) {
                if (lj_gemm_providers[i] == &lj_gemm_plain && types[t].rounds > 10 && round % 8) continue; /* slow, and simple */
                ran[i] += try_one(d, lj_gemm_providers[i], 1 + round % 3, &seed);
            }
        }
    assert_true(ran[1] > 200 && ran[2] > 40);
    if (lj_machine_get()->isa >= LJ_ISA_AVX512) assert_true(ran[0] > 200);
}

/* Sizes beyond one block of rows, columns and k. */
static void large_blocks(void **state)
{
    (void)state;
    uint64_t seed = 5;
    lj_gemm_desc d = LJ_GEMM_DESC_INIT;
    d.m = 37, d.n = 70, d.k = 3333;
    assert_true(try_one(d, &lj_gemm_own, 2, &seed));
    d.c_type = LJ_F32, d.accumulate = true, d.trans_a = true;
    assert_true(try_one(d, &lj_gemm_own, 2, &seed));
    d = LJ_GEMM_DESC_INIT;
    d.m = 9, d.n = 3000, d.k = 1400;
    assert_true(try_one(d, &lj_gemm_own, 2, &seed));
    d.m = 700, d.n = 20, d.k = 300;
    assert_true(try_one(d, &lj_gemm_own, 3, &seed));
    d.a_type = d.b_type = d.c_type = LJ_F32;
    assert_true(try_one(d, &lj_gemm_own, 2, &seed));
}

static void zero_sizes(void **state)
{
    (void)state;
    for (int zero = 0; zero < 4; zero++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            lj_gemm_desc d = LJ_GEMM_DESC_INIT;
            lj_gemm *gemm;
            float c[6] = {1, 2, 3, 4, 5, 6}, ab[16] = {0};
            d.c_type = LJ_F32, d.accumulate = accumulate;
            d.m = zero == 0 ? 0 : 2, d.n = zero == 1 ? 0 : 3, d.k = zero == 2 ? 0 : 2, d.batch = zero == 3 ? 0 : 1;
            assert_ok(lj_gemm_create(&d, 2, &gemm));
            assert_int_equal(lj_gemm_scratch_bytes(gemm), 0);
            assert_ok(lj_gemm_run(gemm, ab, ab, c, NULL));
            for (int i = 0; i < 6; i++) assert_true(c[i] == (float)(zero == 2 && !accumulate ? 0 : i + 1));
            lj_gemm_destroy(gemm);
        }
}

static void wrong_descriptions_are_refused(void **state)
{
    (void)state;
    lj_gemm *gemm;
    lj_gemm_desc d = LJ_GEMM_DESC_INIT;
    d.m = 2, d.n = -3, d.k = 2;
    assert_fails(lj_gemm_create(&d, 1, &gemm), LJ_ERR_INVALID, "n -3");
    d.n = 3, d.ldb = 2;
    assert_fails(lj_gemm_create(&d, 1, &gemm), LJ_ERR_INVALID, "ldb is 2, its rows have 3");
    d.ldb = 0;
    assert_fails(lj_gemm_create(&d, 0, &gemm), LJ_ERR_INVALID, "0 threads");
    d.accumulate = true;
    assert_fails(lj_gemm_create(&d, 1, &gemm), LJ_ERR_INVALID, "accumulate into bf16");
    d.accumulate = false, d.a_type = LJ_I8;
    assert_fails(lj_gemm_create_with(&d, 1, &lj_gemm_onednn, &gemm), LJ_ERR_UNSUPPORTED, "plain has");
}

static void tails_cover_once(void **state)
{
    (void)state;
    static tail_record record;
    for (int whole = 0; whole < 2; whole++)
        for (int i = 0; lj_gemm_providers[i]; i++) {
            lj_gemm_desc d = LJ_GEMM_DESC_INIT;
            lj_gemm *gemm;
            static uint16_t a[64 * 64], b[64 * 64], c[64 * 64];
            d.m = 61, d.n = 59, d.k = 33;
            if (lj_gemm_create_with(&d, 2, lj_gemm_providers[i], &gemm) != LJ_OK) continue;
            memset(&record, 0, sizeof record);
            record.columns = d.n;
            lj_gemm_tail tail = {tail_count, &record, whole};
            void *scratch;
            assert_ok(lj_alloc("test", lj_gemm_scratch_bytes(gemm), &scratch));
            assert_ok(lj_gemm_run_tail(gemm, a, b, c, scratch, &tail));
            for (int64_t e = 0; e < d.m * d.n; e++) assert_int_equal(record.counts[e], 1);
            lj_free(scratch);
            lj_gemm_destroy(gemm);
        }
}

/* One packed B serves products of several lengths. */
static void packed_weights_are_shared(void **state)
{
    (void)state;
    for (int i = 0; lj_gemm_providers[i]; i++) {
        lj_gemm_desc d = LJ_GEMM_DESC_INIT;
        lj_gemm *first, *second;
        uint64_t seed = 3;
        d.m = 40, d.n = 50, d.k = 30, d.packed_b = true, d.c_type = LJ_F32;
        if (lj_gemm_create_with(&d, 2, lj_gemm_providers[i], &first) != LJ_OK) continue;
        guarded a = guarded_create(LJ_BF16, 7 * 30), b = guarded_create(LJ_BF16, 30 * 50), c = guarded_create(LJ_F32, 7 * 50);
        guarded packed = guarded_create(LJ_U8, lj_gemm_packed_bytes(first));
        guarded_fill(&a, &seed, 1), guarded_fill(&b, &seed, 1);
        assert_ok(lj_gemm_pack_b(first, b.data, packed.data));
        d.m = 7;
        assert_ok(lj_gemm_create_like(&d, 2, first, &second));
        assert_int_equal(lj_gemm_packed_bytes(second), packed.count);
        guarded scratch = guarded_create(LJ_U8, lj_gemm_scratch_bytes(second));
        assert_ok(lj_gemm_run(second, a.data, packed.data, c.data, scratch.data));
        for (size_t r = 0; r < 7; r++)
            for (size_t j = 0; j < 50; j++) {
                double sum = 0;
                for (size_t k = 0; k < 30; k++) sum += guarded_get(&a, r * 30 + k) * guarded_get(&b, k * 50 + j);
                assert_near("shared packed B", guarded_get(&c, r * 50 + j), sum, 1e-4, r * 50 + j);
            }
        guarded_destroy(&a), guarded_destroy(&b), guarded_destroy(&c), guarded_destroy(&packed), guarded_destroy(&scratch);
        lj_gemm_destroy(first), lj_gemm_destroy(second);
    }
}

static void same_bits_every_run(void **state)
{
    (void)state;
    for (int i = 0; lj_gemm_providers[i]; i++) {
        lj_gemm_desc d = LJ_GEMM_DESC_INIT;
        lj_gemm *gemm;
        uint64_t seed = 9;
        static float first[70 * 90], again[70 * 90];
        d.m = 70, d.n = 90, d.k = 500, d.c_type = LJ_F32;
        if (lj_gemm_create_with(&d, 2, lj_gemm_providers[i], &gemm) != LJ_OK) continue;
        guarded a = guarded_create(LJ_BF16, 70 * 500), b = guarded_create(LJ_BF16, 500 * 90);
        guarded_fill(&a, &seed, 1), guarded_fill(&b, &seed, 1);
        void *scratch;
        assert_ok(lj_alloc("test", lj_gemm_scratch_bytes(gemm), &scratch));
        assert_ok(lj_gemm_run(gemm, a.data, b.data, first, scratch));
        for (int run = 0; run < 20; run++) {
            assert_ok(lj_gemm_run(gemm, a.data, b.data, again, scratch));
            assert_memory_equal(first, again, sizeof first);
        }
        lj_free(scratch);
        guarded_destroy(&a), guarded_destroy(&b);
        lj_gemm_destroy(gemm);
    }
}

/* A measured choice is on disk, is printed, and is the same for a process that reads it. */
static void choices_are_kept(void **state)
{
    (void)state;
    char folder[256], path[400];
    lj_gemm *gemm;
    lj_text text;
    lj_mapped_file file;
    test_folder_create(folder, sizeof folder);
    setenv("LJPERF_CACHE", folder, 1);
    lj_gemm_desc d = LJ_GEMM_DESC_INIT;
    d.m = 123, d.n = 77, d.k = 45;
    assert_ok(lj_gemm_create(&d, 2, &gemm));
    lj_text_init(&text);
    assert_ok(lj_gemm_choices_print(&text));
    assert_non_null(strstr(text.data, "m123 n77 k45"));
    lj_text_release(&text);
    snprintf(path, sizeof path, "%s/gemm-%s.txt", folder, lj_machine_class());
    assert_ok(lj_mapped_file_init(&file, path));
    assert_true(file.bytes > 40);
    lj_mapped_file_release(&file);
    lj_gemm_destroy(gemm);
    setenv("LJPERF_GEMM", "plain", 1);
    assert_ok(lj_gemm_create(&d, 2, &gemm));
    assert_string_equal(lj_gemm_provider(gemm), "plain");
    lj_gemm_destroy(gemm);
    setenv("LJPERF_GEMM", "mkl", 1);
    assert_fails(lj_gemm_create(&d, 2, &gemm), LJ_ERR_NOT_FOUND, "onednn, own or plain");
    unsetenv("LJPERF_GEMM");
    test_folder_remove(folder);
}

/* Fails the n-th fallible call of kind "alloc", or the first of another kind. */
typedef struct {
    const char *kind;
    int left;
} fault_plan;

static bool fault_when(void *user, const char *kind, const char *name)
{
    fault_plan *plan = user;
    (void)name;
    return strcmp(kind, plan->kind) == 0 && plan->left-- == 0;
}

/* Choosing fails cleanly when memory is short; a cache folder that refuses is a fallback that is admitted, and an error under --strict. */
static void faults_are_handled(void **state)
{
    (void)state;
    char folder[256];
    lj_gemm *gemm;
    lj_gemm_desc d = LJ_GEMM_DESC_INIT;
    d.m = 20, d.n = 33, d.k = 41;
    test_folder_create(folder, sizeof folder);
    setenv("LJPERF_CACHE", folder, 1);
    size_t live = lj_memory_live();
    for (int n = 0; n < 3; n++) {
        fault_plan plan = {"alloc", n};
        lj_fault_set(fault_when, &plan);
        assert_fails(lj_gemm_create(&d, 2, &gemm), LJ_ERR_NOMEM, "gemm.measure");
        assert_int_equal(lj_memory_live(), live);
    }
    fault_plan plan = {"write", 0};
    lj_strict_set(true);
    lj_fault_set(fault_when, &plan);
    assert_fails(lj_gemm_create(&d, 2, &gemm), LJ_ERR_UNSUPPORTED, "writable folder");
    lj_strict_set(false);
    d.n = 34, plan.left = 0;
    size_t before = lj_fallback_count();
    assert_ok(lj_gemm_create(&d, 2, &gemm));
    assert_true(lj_fallback_count() >= before && lj_fallback_count() > 0);
    lj_fault_set(NULL, NULL);
    lj_gemm_destroy(gemm);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices_are_kept),
                                       cmocka_unit_test(providers_match_reference),
                                       cmocka_unit_test(large_blocks),
                                       cmocka_unit_test(zero_sizes),
                                       cmocka_unit_test(wrong_descriptions_are_refused),
                                       cmocka_unit_test(tails_cover_once),
                                       cmocka_unit_test(packed_weights_are_shared),
                                       cmocka_unit_test(same_bits_every_run),
                                       cmocka_unit_test(faults_are_handled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
