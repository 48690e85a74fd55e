/* Each rule of shape and dtype inference refuses what it must, and says what differs. Written as text: one node a row on the
 * inputs below. */
#include "support/testing.h"

#include "ir/ir.h"

static const char inputs[] =
    "ljgraph 1\nsymbols B T S C\ngradients f32\n"
    "%1 = input() {role=0} : f32[B,T,8] \"x\"\n"
    "%2 = input() {role=0} : f32[8] \"w\"\n"
    "%3 = input() {role=0} : i32[B,T] \"ids\"\n"
    "%4 = input() {role=0} : bool[B,T,8] \"mask\"\n"
    "%5 = input() {role=0} : i64[] \"seed\"\n"
    "%6 = input() {role=0} : f32[B,T,4,6] \"q\"\n"
    "%7 = input() {role=0} : f32[B,S,2,6] \"k\"\n"
    "%8 = input() {role=0} : f32[16,6] \"cos\"\n"
    "%9 = input() {role=0} : bf16[B,T,8] \"narrow\"\n"
    "%10 = input() {role=0} : f32[B,C] \"symbolic\"\n"
    "%11 = input() {role=0} : f32[C] \"symbolic.w\"\n"
    "%12 = input() {role=0} : f32[20,8] \"table\"\n"
    "%13 = input() {role=0} : i32[B] \"rows\"\n"
    "%14 = input() {role=0} : f32[B,8] \"flat\"\n"
    "%15 = input() {role=0} : f32[B] \"vector\"\n"
    "%16 = input() {role=0} : f32[4] \"scalars\"\n"
    "%17 = input() {role=0} : f32[B,T,3,6] \"odd.heads\"\n"
    "%18 = input() {role=0} : f32[3,8] \"three\"\n";

typedef struct {
    const char *node, *message; /* NULL: it must be taken */
} row;

static const row rows[] = {
    {"add(%1, %1) : f32[B,T,8]", NULL},
    {"add(%1, %9) : f32[B,T,8]", "operands differ"},
    {"add(%1, %14) : f32[B,T,8]", "operands differ"},
    {"add(%4, %4) : bool[B,T,8]", "does not take bool"},
    {"div(%3, %3) : i32[B,T]", "does not take i32"},
    {"exp(%3) : i32[B,T]", "does not take i32"},
    {"not(%1) : f32[B,T,8]", "does not take f32"},
    {"lt(%1, %9) : bool[B,T,8]", "operands differ"},
    {"where(%1, %1, %1) : f32[B,T,8]", "condition must be bool"},
    {"where(%4, %1, %9) : f32[B,T,8]", "branches differ"},
    {"where(%4, %14, %14) : f32[B,8]", "differ in shape"},
    {"reshape(%1) : f32[B,T,9]", "element counts differ"},
    {"reshape(%1) : f32[8*T,B]", NULL},
    {"reshape(%1) : f32[B*B,8]", "element counts differ"},
    {"broadcast(%2) : f32[8,8]", "cannot broadcast"},
    {"broadcast(%2) : f32[9]", "cannot broadcast"},
    {"slice(%1) {axis=0, start=0, length=1} : f32[1,T,8]", "no constant size"},
    {"slice(%1) {axis=2, start=4, length=5} : f32[B,T,5]", "slice 4 .. +5 of an axis of 8"},
    {"pad(%1) {axis=1, before=0, after=1} : f32[B,T,8]", "no constant size"},
    {"concat(%1, %14) {axis=0} : f32[B,T,8]", "ranks differ"},
    {"concat(%1, %9) {axis=0} : f32[2*B,T,8]", "parts differ"},
    {"concat(%6, %7) {axis=1} : f32[B,T,4,6]", "different symbols"},
    {"concat(%6, %17) {axis=2} : f32[B,T,7,6]", NULL},
    {"gather(%12, %1) : f32[B,T,8,8]", "ids must be i32"},
    {"gather(%12, %3) : f32[B,T,8]", NULL},
    {"scatter_add(%12, %3, %14) : f32[20,8]", "updates differ"},
    {"scatter_add(%12, %3, %1) : f32[20,8]", NULL},
    {"update_rows(%6, %7, %13) : f32[B,T,4,6]", "update does not fit"},
    {"update_rows(%6, %6, %3) : f32[B,T,4,6]", "start must be i32"},
    {"sum(%1) {axis=3} : f32[B,T,1]", "axis 3"},
    {"argmax(%1) {axis=2} : f32[B,T,1]", "the type that the op gives"},
    {"matmul(%1, %14) {transpose_a=0, transpose_b=0} : f32[B,T,8]", "do not fit"},
    {"matmul(%14, %12) {transpose_a=0, transpose_b=0} : f32[B,8]", "dims differ"},
    {"matmul(%14, %12) {transpose_a=0, transpose_b=1} : f32[B,20]", NULL},
    {"matmul(%14, %12, %12) {transpose_a=0, transpose_b=1} : f32[B,20]", "addend differs"},
    {"matmul(%14, %12) {transpose_a=0, transpose_b=1} : i32[B,20]", "float type"},
    {"all_gather(%5) {ranks=2} : i64[2]", "axis 0"},
    {"reduce_scatter(%18) {ranks=2} : f32[1,8]", "does not divide"},
    {"all_to_all(%18) {ranks=2} : f32[3,8]", "does not divide"},
    {"random(%13) {stream=0} : f32[B]", "i64"},
    {"random(%5) {stream=0} : bf16[B]", "random gives f32"},
    {"rms_norm(%1, %2) {eps=1e-5} : f32[B,T,8], f32[B,T,1]", NULL},
    {"rms_norm(%1, %15) {eps=1e-5} : f32[B,T,8], f32[B,T,1]", "weight does not fit"},
    {"rms_norm(%10, %11) {eps=1e-5} : f32[B,C], f32[B,1]", "constant size"},
    {"rms_norm_grad(%1, %2, %1, %1) : f32[B,T,8], f32[8]", "rstd differs"},
    {"rotary(%6, %8, %8, %3) {inverse=0} : f32[B,T,4,6]", NULL},
    {"rotary(%1, %8, %8, %3) {inverse=0} : f32[B,T,8]", "[B, T, H, D]"},
    {"rotary(%6, %12, %12, %3) {inverse=0} : f32[B,T,4,6]", "line 22"},
    {"rotary(%6, %8, %8, %13) {inverse=0} : f32[B,T,4,6]", "line 22"},
    {"swiglu(%1, %14) : f32[B,T,8]", "operands differ"},
    {"swiglu_grad(%1, %1, %9) : f32[B,T,8], f32[B,T,8]", "dy differs"},
    {"attention(%6, %7, %7) {scale=1, causal=1, window=0} : f32[B,T,4,6], f32[B,4,T]", NULL},
    {"attention(%17, %7, %7) {scale=1, causal=1, window=0} : f32[B,T,3,6], f32[B,3,T]", "head counts"},
    {"attention(%6, %7, %6) {scale=1, causal=1, window=0} : f32[B,T,4,6], f32[B,4,T]", "q, k, v"},
    {"attention(%6, %7, %7) {scale=1, causal=1, window=-1} : f32[B,T,4,6], f32[B,4,T]", "window"},
    {"attention(%6, %7, %7, %13) {scale=1, causal=1, window=0} : f32[B,T,4,6], f32[B,4,T]", "starts must be"},
    {"attention(%6, %7, %7, _, %3) {scale=1, causal=1, window=0} : f32[B,T,4,6], f32[B,4,T]", "q_start must be"},
    {"attention(%6, %7, %7, _, %13) {scale=1, causal=1, window=0} : f32[B,T,4,6], f32[B,4,T]", NULL},
    {"head_loss(%14, %12, %13) : f32[B], f32[B]", NULL},
    {"head_loss(%14, %12, %15) : f32[B], f32[B]", "targets must be"},
    {"head_loss(%14, %8, %13) : f32[B], f32[B]", "do not fit"},
    {"head_loss_grad(%14, %12, %13, %2, %15) : f32[B,8], f32[20,8]", "lse differs"},
    {"head_loss_train(%14, %12, %13, %2) : f32[B], f32[B], f32[B,8], f32[20,8]", "dloss differs"},
    {"dropout(%1, %13) {rate=0.1, stream=0} : f32[B,T,8]", "seed must be"},
    {"dropout(%1, %5) {rate=1, stream=0} : f32[B,T,8]", "rate 1"},
    {"dropout(%1, %5) {rate=nan, stream=0} : f32[B,T,8]", "rate nan"},
    {"adamw(%15, %15, %15, %15, %16) {beta1=0.9, beta2=0.9, eps=1, weight_decay=0} : f32[B], f32[B], f32[B]", NULL},
    {"adamw(%15, %15, %2, %15, %16) {beta1=0.9, beta2=0.9, eps=1, weight_decay=0} : f32[B], f32[B], f32[B]", "differ"},
    {"adamw(%15, %15, %15, %15, %2) {beta1=0.9, beta2=0.9, eps=1, weight_decay=0} : f32[B], f32[B], f32[B]", "scalars must be"},
};

static void rules_refuse_what_they_must(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[4096];
        lj_graph *g = NULL;
        snprintf(text, sizeof text, "%s%%30 = %s\n", inputs, rows[i].node);
        lj_status status = lj_graph_parse(text, &g);
        if (status == LJ_OK) lj_graph_destroy(g);
        if ((status == LJ_OK) == (rows[i].message == NULL) && (status == LJ_OK || strstr(lj_error_message(), rows[i].message))) continue;
        print_error("%s: %s\n", rows[i].node, status == LJ_OK ? "was taken" : lj_error_message());
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* Builders that fail give 0, take 0, and keep the first message with its place. */
static void the_first_error_stays(void **state)
{
    (void)state;
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_value a = lj_input(g, "a", lj_type_of(LJ_F32, 1, (int64_t[]){3}), LJ_ROLE_DATA), b = lj_input(g, "b", lj_type_of(LJ_F32, 1, (int64_t[]){4}), LJ_ROLE_DATA);
    lj_value bad = lj_add(lj_graph_at(g, "model.c", 41), a, b);
    assert_int_equal(bad, 0);
    assert_int_equal(lj_exp(lj_graph_at(g, "model.c", 42), bad), 0);
    assert_int_equal(lj_graph_output(g, "y", bad), LJ_ERR_INVALID);
    assert_fails(lj_graph_status(g), LJ_ERR_INVALID, "model.c:41");
    assert_fails(lj_graph_verify(g), LJ_ERR_INVALID, "model.c:41");
    lj_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules_refuse_what_they_must), cmocka_unit_test(the_first_error_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
