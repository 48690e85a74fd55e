/* The generated text of the fixed kernel graphs, host C and CUDA C, letter for letter as committed in tests/codegen/golden. After a wanted
 * change: UPDATE_GOLDEN=1 build/tests/test_codegen_golden, and look at the difference before committing it. */
#include "support/testing.h"

#include "base/file.h"
#include "codegen/emit.h"
#include "support/kernel_graphs.h"

#include <stdlib.h>

typedef lj_status (*emit_fn)(const lj_lowered *lowered, lj_source *source);

static void print_kernel(const lj_graph *graph, const char *name, lj_dialect dialect, lj_text *out)
{
    lj_lowered *lowered;
    lj_source source;
    const lj_source *sources = &source;
    emit_fn emit = dialect == LJ_DIALECT_HOST_C ? lj_emit_host_c : lj_emit_cuda_c;
    lj_source_init(&source);
    assert_ok(lj_lower(graph, &lowered));
    assert_ok(emit(lowered, &source));
    assert_ok(lj_print_unit(out, dialect, &sources, &name, 1, lj_isa_vector_bytes(LJ_ISA_AVX512)));
    lj_source_release(&source);
    lj_lowered_destroy(lowered);
}

static void check_file(const char *path, const lj_text *text)
{
    lj_mapped_file file;
    if (getenv("UPDATE_GOLDEN")) {
        assert_ok(lj_file_write(path, text->data, text->length));
        return;
    }
    assert_ok(lj_mapped_file_init(&file, path));
    size_t at = 0, line = 1;
    while (at < file.bytes && at < text->length && file.data[at] == (unsigned char)text->data[at]) line += text->data[at++] == '\n';
    bool same = at == file.bytes && at == text->length;
    lj_mapped_file_release(&file);
    if (!same) fail_msg("%s:%zu differs from what is generated now: UPDATE_GOLDEN=1 rewrites it", path, line);
}

static void check_all(lj_dialect dialect, const char *ending)
{
    for (int i = 0; i < kernel_graph_count; i++) {
        char path[600];
        test_sheet sheet;
        lj_text text;
        lj_text_init(&text);
        test_sheet_init(&sheet);
        kernel_graph_rows[i].build(&sheet);
        assert_ok(lj_graph_status(sheet.graph));
        print_kernel(sheet.graph, kernel_graph_rows[i].name, dialect, &text);
        snprintf(path, sizeof path, "%s/tests/codegen/golden/%s.%s", LJ_SOURCE_DIR, kernel_graph_rows[i].name, ending);
        check_file(path, &text);
        lj_text_release(&text);
        test_sheet_release(&sheet);
    }
}

static void host_text_is_golden(void **state)
{
    (void)state;
    check_all(LJ_DIALECT_HOST_C, "c");
}

static void cuda_text_is_golden(void **state)
{
    (void)state;
    check_all(LJ_DIALECT_CUDA_C, "cu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(host_text_is_golden), cmocka_unit_test(cuda_text_is_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
