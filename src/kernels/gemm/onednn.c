/* oneDNN's matmul, versions 2.6 and 3.x: the differences of the two interfaces are in the first block, everything below is common.
 * Capped to the same instruction set as the rest of ljperf. Scratch is the caller's, so that a plan can place it. */
#include "base/machine.h"
#include "kernels/gemm/provider.h"
#include "kernels/team.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout; /* an owned pointer */
typedef const_dnnl_memory_desc_t layout_view;
static dnnl_status_t layout_strided(layout *l, int dims, const dnnl_dims_t sizes, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(l, dims, sizes, type, strides);
}
static dnnl_status_t layout_any(layout *l, int dims, const dnnl_dims_t sizes, dnnl_data_type_t type)
{
    return dnnl_memory_desc_create_with_tag(l, dims, sizes, type, dnnl_format_tag_any);
}
static dnnl_status_t layout_copy(layout *l, layout_view from)
{
    return dnnl_memory_desc_clone(l, from);
}
static void layout_release(layout *l)
{
    if (*l) dnnl_memory_desc_destroy(*l);
    *l = NULL;
}
static layout_view layout_see(const layout *l)
{
    return *l;
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const layout *a, const layout *b, const layout *c,
                                     const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, *a, *b, NULL, *c, attr);
}
static dnnl_status_t sum_append(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}
#else
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_view;
static dnnl_status_t layout_strided(layout *l, int dims, const dnnl_dims_t sizes, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(l, dims, sizes, type, strides);
}
static dnnl_status_t layout_any(layout *l, int dims, const dnnl_dims_t sizes, dnnl_data_type_t type)
{
    return dnnl_memory_desc_init_by_tag(l, dims, sizes, type, dnnl_format_tag_any);
}
static dnnl_status_t layout_copy(layout *l, layout_view from)
{
    *l = *from;
    return dnnl_success;
}
static void layout_release(layout *l)
{
    (void)l;
}
static layout_view layout_see(const layout *l)
{
    return l;
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const layout *a, const layout *b, const layout *c,
                                     const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, NULL, c);
    return status != dnnl_success ? status : dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL);
}
static dnnl_status_t sum_append(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}
#endif

typedef struct {
    layout a, b, c, plain_b, scratchpad; /* b: as the primitive reads it; plain_b: as packing finds it */
    dnnl_primitive_t matmul, pack;
    size_t scratch, packed;
} onednn_state;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_status_t engine_status;

static void engine_start(void)
{
    static const dnnl_cpu_isa_t caps[LJ_ISA_COUNT] = {[LJ_ISA_GENERIC] = dnnl_cpu_isa_sse41,
                                                      [LJ_ISA_AVX2] = dnnl_cpu_isa_avx2,
                                                      [LJ_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
                                                      [LJ_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
                                                      [LJ_ISA_AMX] = dnnl_cpu_isa_avx512_core_amx};
    dnnl_set_max_cpu_isa(caps[lj_machine_get()->isa]); /* refused when someone used oneDNN before us: then that choice stands */
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

static lj_status refused(const char *what, dnnl_status_t status)
{
    return lj_fail(status == dnnl_out_of_memory ? LJ_ERR_NOMEM : LJ_ERR_UNSUPPORTED, "oneDNN %d.%d refuses %s (its status %d)",
                   DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, what, (int)status);
}

#define DNNL_TRY(expr, what)                                                                                                     \
    do {                                                                                                                         \
        dnnl_status_t dnnl_try_status = (expr);                                                                                  \
        if (dnnl_try_status != dnnl_success) return refused(what, dnnl_try_status);                                              \
    } while (0)

static bool type_of(lj_dtype type, dnnl_data_type_t *out)
{
    *out = type == LJ_BF16 ? dnnl_bf16 : type == LJ_F32 ? dnnl_f32 : dnnl_data_type_undef;
    return *out != dnnl_data_type_undef;
}

static bool supports(const lj_gemm_desc *d)
{
    dnnl_data_type_t type;
    return d->a_type == d->b_type && type_of(d->a_type, &type) && type_of(d->c_type, &type) &&
           (d->c_type == LJ_F32 || d->a_type == LJ_BF16);
}

/* A stored matrix as oneDNN sees it: [batch,] rows x columns. */
static dnnl_status_t layout_make(layout *l, int64_t batch, int64_t rows, int64_t columns, lj_dtype type, bool transposed, int64_t ld,
                                 int64_t batch_stride, bool with_batch)
{
    dnnl_data_type_t element;
    type_of(type, &element);
    dnnl_dims_t flat = {rows, columns}, flat_strides = {transposed ? 1 : ld, transposed ? ld : 1};
    dnnl_dims_t sizes = {batch, rows, columns}, strides = {batch_stride, flat_strides[0], flat_strides[1]};
    return with_batch ? layout_strided(l, 3, sizes, element, strides) : layout_strided(l, 2, flat, element, flat_strides);
}

static lj_status layouts_make(const lj_gemm_desc *d, onednn_state *s, const onednn_state *like)
{
    bool with_batch = d->batch != 1;
    int64_t b_batch = d->share_b ? 1 : d->batch;
    DNNL_TRY(layout_make(&s->a, d->batch, d->m, d->k, d->a_type, d->trans_a, d->lda, d->stride_a, with_batch), "the layout of A");
    DNNL_TRY(layout_make(&s->plain_b, b_batch, d->k, d->n, d->b_type, d->trans_b, d->ldb, d->share_b ? d->k * d->n : d->stride_b, with_batch),
             "the layout of B");
    DNNL_TRY(layout_make(&s->c, d->batch, d->m, d->n, d->c_type, false, d->ldc, d->stride_c, with_batch), "the layout of C");
    if (!d->packed_b) {
        DNNL_TRY(layout_copy(&s->b, layout_see(&s->plain_b)), "the layout of B");
    } else if (like) {
        DNNL_TRY(layout_copy(&s->b, layout_see(&like->b)), "the other product's packed layout");
    } else {
        dnnl_data_type_t element;
        type_of(d->b_type, &element);
        dnnl_dims_t flat = {d->k, d->n}, sizes = {b_batch, d->k, d->n};
        DNNL_TRY(with_batch ? layout_any(&s->b, 3, sizes, element) : layout_any(&s->b, 2, flat, element), "a packed B");
    }
    return LJ_OK;
}

static dnnl_status_t attributes_make(const lj_gemm_desc *d, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || !d->accumulate) return status;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success) status = sum_append(ops);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops) dnnl_post_ops_destroy(ops);
    return status;
}

/* The primitive, the layout of B that it wants, and its scratch. A "ref" implementation is refused: ours are faster. */
static lj_status matmul_make(const lj_gemm_desc *d, onednn_state *s)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    const char *kind = "";
    layout wanted;
    lj_status result = LJ_OK;
    memset(&wanted, 0, sizeof wanted);
    dnnl_status_t status = attributes_make(d, &attr);
    if (status == dnnl_success) status = matmul_describe(&pd, engine, &s->a, &s->b, &s->c, attr);
    if (status == dnnl_success) status = dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &kind);
    if (status == dnnl_success && strncmp(kind, "ref", 3) == 0) status = dnnl_unimplemented;
    if (status == dnnl_success) status = layout_copy(&wanted, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    if (status == dnnl_success) {
        layout_release(&s->b);
        s->b = wanted;
        status = layout_copy(&s->scratchpad, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
        s->scratch = dnnl_memory_desc_get_size(layout_see(&s->scratchpad));
        s->packed = dnnl_memory_desc_get_size(layout_see(&s->b));
        if (status == dnnl_success) status = dnnl_primitive_create(&s->matmul, pd);
    }
    if (status != dnnl_success) result = refused("this product", status);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return result;
}

static lj_status pack_make(onednn_state *s)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    DNNL_TRY(dnnl_primitive_attr_create(&attr), "packing attributes");
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&pd, layout_see(&s->plain_b), engine, layout_see(&s->b), engine, attr);
    if (status == dnnl_success) status = dnnl_primitive_create(&s->pack, pd);
    if (pd) dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return status == dnnl_success ? LJ_OK : refused("packing of B", status);
}

static void state_destroy(onednn_state *s)
{
    if (!s) return;
    if (s->matmul) dnnl_primitive_destroy(s->matmul);
    if (s->pack) dnnl_primitive_destroy(s->pack);
    layout_release(&s->a), layout_release(&s->b), layout_release(&s->c), layout_release(&s->plain_b), layout_release(&s->scratchpad);
    free(s);
}

static lj_status create(lj_gemm *gemm, const lj_gemm *like)
{
    pthread_once(&once, engine_start);
    if (engine_status != dnnl_success) return refused("to start", engine_status);
    onednn_state *s = calloc(1, sizeof *s);
    if (!s) return lj_fail(LJ_ERR_NOMEM, "gemm: could not get %zu bytes", sizeof *s);
    lj_team_match(gemm->threads);
    lj_status status = layouts_make(&gemm->desc, s, like ? like->state : NULL);
    if (status == LJ_OK) status = matmul_make(&gemm->desc, s);
    if (status == LJ_OK && gemm->desc.packed_b) status = pack_make(s);
    if (status != LJ_OK) {
        state_destroy(s);
        return status;
    }
    gemm->state = s;
    gemm->name = "onednn";
    return LJ_OK;
}

static void destroy(lj_gemm *gemm)
{
    state_destroy(gemm->state);
}

static size_t scratch_bytes(const lj_gemm *gemm)
{
    return ((const onednn_state *)gemm->state)->scratch;
}

static size_t packed_bytes(const lj_gemm *gemm)
{
    return ((const onednn_state *)gemm->state)->packed;
}

typedef struct {
    int arg;
    layout_view desc;
    void *data;
} bound;

/* Wraps the buffers, executes, waits. The wrappers cost well under a microsecond and keep the handle free of state. */
static dnnl_status_t execute(dnnl_primitive_t primitive, const bound *bounds, int count)
{
    dnnl_exec_arg_t args[4];
    dnnl_stream_t stream = NULL;
    int made = 0;
    dnnl_status_t status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    for (; status == dnnl_success && made < count; made += status == dnnl_success) {
        args[made].arg = bounds[made].arg;
        status = dnnl_memory_create(&args[made].memory, bounds[made].desc, engine, bounds[made].data);
    }
    if (status == dnnl_success) status = dnnl_primitive_execute(primitive, stream, count, args);
    if (status == dnnl_success) status = dnnl_stream_wait(stream);
    for (int i = 0; i < made; i++) dnnl_memory_destroy(args[i].memory);
    if (stream) dnnl_stream_destroy(stream);
    return status;
}

static lj_status pack_b(const lj_gemm *gemm, const void *b, void *packed)
{
    const onednn_state *s = gemm->state;
    lj_team_match(gemm->threads);
    bound bounds[] = {{DNNL_ARG_FROM, layout_see(&s->plain_b), (void *)(uintptr_t)b}, {DNNL_ARG_TO, layout_see(&s->b), packed}};
    DNNL_TRY(execute(s->pack, bounds, 2), "to pack");
    return LJ_OK;
}

static lj_status run(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch, const lj_gemm_tail *tail)
{
    (void)tail;
    const onednn_state *s = gemm->state;
    lj_team_match(gemm->threads);
    bound bounds[] = {{DNNL_ARG_SRC, layout_see(&s->a), (void *)(uintptr_t)a},
                      {DNNL_ARG_WEIGHTS, layout_see(&s->b), (void *)(uintptr_t)b},
                      {DNNL_ARG_DST, layout_see(&s->c), c},
                      {DNNL_ARG_SCRATCHPAD, layout_see(&s->scratchpad), scratch}};
    dnnl_status_t status = execute(s->matmul, bounds, s->scratch ? 4 : 3);
    return status == dnnl_success ? LJ_OK : refused("to run", status);
}

const lj_gemm_provider_row lj_gemm_onednn = {"onednn", supports, create, destroy, scratch_bytes, run, packed_bytes, pack_b, false};
