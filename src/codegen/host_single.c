/* Host C of the kernels with a form of their own. */
#include "codegen/express.h"
#include "codegen/host.h"

#include <stdio.h>
#include <string.h>

static lj_dim product_from(const lj_type *type, int begin, int end)
{
    return lj_dims_product(&type->dim[begin], end - begin);
}

/* Position of the first largest; the first NaN counts as largest. */
static void print_argmax(lj_printer *p)
{
    const lj_type *x = &p->lowered->single_types[0];
    int axis = (int)p->lowered->single_axis, input = p->lowered->single_buffer[0], output = p->lowered->single_buffer[1];
    lj_dim inner = product_from(x, axis + 1, x->rank);
    lj_text load;
    lj_text_init(&load);
    lj_print_line(p, "const int64_t n = %s, inner = %s;", lj_dim_text(x->dim[axis]), lj_dim_text(inner));
    lj_host_share(p, lj_dim_text(lj_dim_mul(product_from(x, 0, axis), inner)), 1);
    lj_print_line(p, "for (int64_t i = begin; i < end; i++) {");
    p->indent++;
    lj_print_line(p, "const %s *x = b%d + i / inner * inner * n + i %% inner;", lj_memory_type(x->dtype), input);
    const char *type = lj_register_type(x->dtype);
    lj_print_line(p, "int64_t best = 0;");
    lj_print_line(p, "%s largest = %s;", type, lj_start_text(LJ_OP_maximum, x->dtype));
    lj_express_load(&load, x->dtype, "x[k * inner]");
    bool is_float = lj_dtype_rows[x->dtype].is_float;
    lj_print_line(p, "for (int64_t k = 0; k < n; k++) {");
    p->indent++;
    lj_print_line(p, "const %s v = %s;", type, load.data ? load.data : "");
    if (is_float) {
        lj_print_line(p, "if (v != v) {");
        lj_print_line(p, "    best = k;");
        lj_print_line(p, "    break;");
        lj_print_line(p, "}");
    }
    lj_print_line(p, "if (v > largest) {");
    lj_print_line(p, "    largest = v;");
    lj_print_line(p, "    best = k;");
    lj_print_line(p, "}");
    p->indent--;
    lj_print_line(p, "}");
    lj_print_line(p, "b%d[i] = (int32_t)best;", output);
    p->indent--;
    lj_print_line(p, "}");
    p->out->failed |= load.failed;
    lj_text_release(&load);
}

/* Prints "TYPE name = the updates' element at `place`, as the base's dtype". */
static void print_update(lj_printer *p, lj_dtype base, const char *place)
{
    lj_dtype dtype = p->lowered->single_types[2].dtype;
    lj_text load, cast;
    lj_text_init(&load), lj_text_init(&cast);
    lj_express_load(&load, dtype, place);
    lj_print_line(p, "const %s u = %s;", lj_register_type(dtype), load.data ? load.data : "");
    if (strcmp(lj_register_type(dtype), lj_register_type(base)) == 0)
        lj_text_add(&cast, "u"); /* summed wider than it is rounded */
    else
        lj_express_cast(&cast, dtype, base, "u", false);
    lj_print_line(p, "const %s y = %s;", lj_register_type(base), cast.data ? cast.data : "");
    p->out->failed |= load.failed || cast.failed;
    lj_text_release(&load), lj_text_release(&cast);
}

/* Sums in the result's own dtype: rows are added where they belong, one after the other. */
static void print_scatter_rows(lj_printer *p, lj_dtype dtype, int out, const char *rows)
{
    char place[64];
    snprintf(place, sizeof place, "b%d[i * width + j]", p->lowered->single_buffer[2]);
    lj_print_line(p, "for (int64_t i = 0; i < %s; i++) {", rows);
    lj_print_line(p, "    %s *to = b%d + (int64_t)b%d[i] * width;", lj_memory_type(dtype), out, p->lowered->single_buffer[1]);
    lj_print_line(p, "    for (int64_t j = begin; j < end; j++) {");
    p->indent += 2;
    print_update(p, dtype, place);
    lj_print_line(p, "to[j] = %s;", lj_combine_text(LJ_OP_sum, dtype, "to[j]", "y"));
    p->indent -= 2;
    lj_print_line(p, "    }");
    lj_print_line(p, "}");
}

/* 16-bit results are summed in f32 and rounded once: the first row of an id collects all rows of that id. */
static void print_scatter_collected(lj_printer *p, lj_dtype dtype, int out, const char *rows)
{
    const char *name = lj_dtype_name(dtype);
    int ids = p->lowered->single_buffer[1];
    char place[64];
    snprintf(place, sizeof place, "b%d[k * width + j]", p->lowered->single_buffer[2]);
    lj_print_line(p, "for (int64_t i = 0; i < %s; i++) {", rows);
    p->indent++;
    lj_print_line(p, "uint16_t *to = b%d + (int64_t)b%d[i] * width;", out, ids);
    lj_print_line(p, "int earlier = 0;");
    lj_print_line(p, "for (int64_t k = 0; k < i; k++) earlier |= b%d[k] == b%d[i];", ids, ids);
    lj_print_line(p, "if (earlier) continue;");
    lj_print_line(p, "for (int64_t j0 = begin; j0 < end; j0 += 256) {");
    p->indent++;
    lj_print_line(p, "const int64_t j1 = least_i64(j0 + 256, end);");
    lj_print_line(p, "float t[256];");
    lj_print_line(p, "for (int64_t j = j0; j < j1; j++) t[j - j0] = f32_from_%s(to[j]);", name);
    lj_print_line(p, "for (int64_t k = i; k < %s; k++) {", rows);
    lj_print_line(p, "    if (b%d[k] != b%d[i]) continue;", ids, ids);
    lj_print_line(p, "    for (int64_t j = j0; j < j1; j++) {");
    p->indent += 2;
    print_update(p, dtype, place);
    lj_print_line(p, "t[j - j0] = t[j - j0] + y;");
    p->indent -= 2;
    lj_print_line(p, "    }");
    lj_print_line(p, "}");
    lj_print_line(p, "for (int64_t j = j0; j < j1; j++) to[j] = %s_from_f32(round_%s(t[j - j0]));", name, name);
    p->indent--;
    lj_print_line(p, "}");
    p->indent--;
    lj_print_line(p, "}");
}

/* Each thread has its own columns and takes all rows in order. */
static void print_scatter_add(lj_printer *p)
{
    const lj_type *base = &p->lowered->single_types[0], *ids = &p->lowered->single_types[1];
    const int *b = p->lowered->single_buffer;
    bool in_place = p->lowered->buffers[p->lowered->input_count].same_as >= 0;
    int out = in_place ? b[0] : b[3];
    char rows[300];
    snprintf(rows, sizeof rows, "%s", lj_dim_text(product_from(ids, 0, ids->rank)));
    lj_print_line(p, "const int64_t width = %s, rows = %s;", lj_dim_text(product_from(base, 1, base->rank)), lj_dim_text(base->dim[0]));
    lj_print_line(p, "for (int64_t i = 0; i < %s; i++)", rows);
    lj_print_line(p, "    if ((uint64_t)b%d[i] >= (uint64_t)rows) return 1;", b[1]);
    lj_host_share(p, "width", 16);
    if (!in_place) {
        lj_print_line(p, "for (int64_t i = 0; i < rows; i++)");
        lj_print_line(p, "    for (int64_t j = begin; j < end; j++) b%d[i * width + j] = b%d[i * width + j];", out, b[0]);
    }
    if (base->dtype == LJ_BF16 || base->dtype == LJ_F16)
        print_scatter_collected(p, base->dtype, out, rows);
    else
        print_scatter_rows(p, base->dtype, out, rows);
}

/* x [B, S, ...], update [B, T, ...], start [B]. */
static void print_update_rows(lj_printer *p)
{
    const lj_type *x = &p->lowered->single_types[0], *update = &p->lowered->single_types[1];
    const int *b = p->lowered->single_buffer;
    bool in_place = p->lowered->buffers[p->lowered->input_count].same_as >= 0;
    int bytes = (int)lj_dtype_bytes(x->dtype);
    lj_print_line(p, "const int64_t batch = %s, rows = %s, news = %s;", lj_dim_text(x->dim[0]), lj_dim_text(x->dim[1]), lj_dim_text(update->dim[1]));
    lj_print_line(p, "const int64_t width = %s;", lj_dim_text(product_from(x, 2, x->rank)));
    lj_print_line(p, "for (int64_t i = 0; i < batch; i++)");
    lj_print_line(p, "    if (b%d[i] < 0 || (int64_t)b%d[i] > rows - news) return 1;", b[2], b[2]);
    lj_host_share(p, in_place ? "batch * news" : "batch * rows", 1);
    lj_print_line(p, "for (int64_t i = begin; i < end; i++) {");
    p->indent++;
    if (in_place) {
        lj_print_line(p, "const int64_t row = i / news * rows + (int64_t)b%d[i / news] + i %% news;", b[2]);
        lj_print_line(p, "memcpy(b%d + row * width, b%d + i * width, (size_t)width * %d);", b[0], b[1], bytes);
    } else {
        lj_print_line(p, "const int64_t t = i %% rows - (int64_t)b%d[i / rows];", b[2]);
        lj_print_line(p, "const %s *from = t >= 0 && t < news ? b%d + (i / rows * news + t) * width : b%d + i * width;", lj_memory_type(x->dtype), b[1],
                      b[0]);
        lj_print_line(p, "memcpy(b%d + i * width, from, (size_t)width * %d);", b[3], bytes);
    }
    p->indent--;
    lj_print_line(p, "}");
}

void lj_host_single(lj_printer *p)
{
    lj_print_line(p, "{");
    p->indent++;
    switch (p->lowered->form) {
    case LJ_KERNEL_ARGMAX: print_argmax(p); break;
    case LJ_KERNEL_SCATTER_ADD: print_scatter_add(p); break;
    case LJ_KERNEL_UPDATE_ROWS: print_update_rows(p); break;
    case LJ_KERNEL_LOOPS: break;
    }
    p->indent--;
    lj_print_line(p, "}");
}
