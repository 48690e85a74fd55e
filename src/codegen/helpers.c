/* The text of the helpers lives in helpers.def: HELPER(name, type, parameters, body) for both dialects, HOST and CUDA for one. */
#include "codegen/helpers.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    const char *name, *type, *parameters, *body;
    bool in[2]; /* dialects */
} helper_row;

static const helper_row rows[] = {
#define HELPER(name, type, parameters, body) {#name, type, parameters, body, {true, true}},
#define HOST(name, type, parameters, body) {#name, type, parameters, body, {true, false}},
#define CUDA(name, type, parameters, body) {#name, type, parameters, body, {false, true}},
#include "codegen/helpers.def"
#undef HELPER
#undef HOST
#undef CUDA
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };
_Static_assert(ROW_COUNT <= 64 * LJ_HELPER_WORDS, "a word more is needed in lj_helper_set");

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool lj_text_names(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if ((at == text || !is_word(at[-1])) && !is_word(at[length])) return true;
    return false;
}

static bool holds(const lj_helper_set *set, int row)
{
    return set->bits[row / 64] >> (row % 64) & 1;
}

void lj_helpers_scan(lj_helper_set *set, lj_dialect dialect, const char *text)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        if (!rows[i].in[dialect] || holds(set, i) || !lj_text_names(text, rows[i].name)) continue;
        set->bits[i / 64] |= (uint64_t)1 << (i % 64);
        lj_helpers_scan(set, dialect, rows[i].body);
        lj_helpers_scan(set, dialect, rows[i].parameters);
    }
}

void lj_helpers_merge(lj_helper_set *set, const lj_helper_set *other)
{
    for (int i = 0; i < LJ_HELPER_WORDS; i++) set->bits[i] |= other->bits[i];
}

/* "@V" in a body is the vector width in bytes. */
static void print_body(lj_text *out, const char *body, int vector_bytes)
{
    for (const char *mark; (mark = strstr(body, "@V")); body = mark + 2) {
        lj_text_add_bytes(out, body, (size_t)(mark - body));
        lj_text_add(out, "%d", vector_bytes);
    }
    lj_text_add(out, "%s", body);
}

void lj_helpers_print(lj_text *out, lj_dialect dialect, const lj_helper_set *set, int vector_bytes)
{
    const char *qualifier = dialect == LJ_DIALECT_CUDA_C ? "static __device__ __forceinline__" : "static inline";
    for (int i = 0; i < ROW_COUNT; i++) {
        if (!holds(set, i) || !rows[i].in[dialect]) continue;
        if (!*rows[i].parameters) /* a type */
            print_body(out, rows[i].body, vector_bytes);
        else {
            lj_text_add(out, "%s %s %s(%s)\n{\n", qualifier, rows[i].type, rows[i].name, rows[i].parameters);
            print_body(out, rows[i].body, vector_bytes);
            lj_text_add(out, "}\n");
        }
        lj_text_add(out, "\n");
    }
}
