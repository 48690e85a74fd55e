/* Host C of the kernels with a form of their own. */
#include "codegen/express.h"
#include "codegen/host.h"

#include <stdio.h>

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
    lj_text_release(&load);
}

static const char *load_text(lj_text *text, lj_dtype dtype, const char *place)
{
    lj_text_release(text);
    lj_text_init(text);
    lj_express_load(text, dtype, place);
    return text->data ? text->data : "";
}

/* Each thread has its own columns and adds all rows in order. */
static void print_scatter_add(lj_printer *p)
{
    const lj_type *base = &p->lowered->single_types[0], *ids = &p->lowered->single_types[1];
    const int *b = p->lowered->single_buffer;
    bool in_place = p->lowered->buffers[p->lowered->input_count].same_as >= 0;
    int out = in_place ? b[0] : b[3];
    const char *type = lj_register_type(base->dtype);
    char place[64];
    lj_text x, y, sum;
    lj_text_init(&x), lj_text_init(&y), lj_text_init(&sum);
    lj_print_line(p, "const int64_t width = %s, rows = %s;", lj_dim_text(product_from(base, 1, base->rank)), lj_dim_text(base->dim[0]));
    lj_host_share(p, "width", 16);
    if (!in_place) {
        lj_print_line(p, "for (int64_t i = 0; i < rows; i++)");
        lj_print_line(p, "    for (int64_t j = begin; j < end; j++) b%d[i * width + j] = b%d[i * width + j];", out, b[0]);
    }
    lj_print_line(p, "for (int64_t i = 0; i < %s; i++) {", lj_dim_text(product_from(ids, 0, ids->rank)));
    p->indent++;
    lj_print_line(p, "const int64_t id = (int64_t)b%d[i];", b[1]);
    lj_print_line(p, "if ((uint64_t)id >= (uint64_t)rows) return 1;");
    lj_print_line(p, "for (int64_t j = begin; j < end; j++) {");
    p->indent++;
    snprintf(place, sizeof place, "b%d[id * width + j]", out);
    lj_print_line(p, "const %s x = %s;", type, load_text(&x, base->dtype, place));
    char update[64];
    snprintf(update, sizeof update, "b%d[i * width + j]", b[2]);
    lj_print_line(p, "const %s y = %s;", type, load_text(&y, base->dtype, update));
    lj_express_op(&sum, LJ_OP_add, base->dtype, (lj_dtype[]){base->dtype, base->dtype}, (const char *[]){"x", "y"});
    lj_print_line(p, "const %s sum = %s;", type, sum.data ? sum.data : "");
    lj_text_release(&x);
    lj_express_store(&x, base->dtype, "sum");
    lj_print_line(p, "%s = %s;", place, x.data ? x.data : "");
    p->indent--;
    lj_print_line(p, "}");
    p->indent--;
    lj_print_line(p, "}");
    lj_text_release(&x), lj_text_release(&y), lj_text_release(&sum);
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
