/* Functions that generated code calls: each is printed into a kernel's text only when the text (or a printed helper) names it. */
#ifndef LJ_CODEGEN_HELPERS_H
#define LJ_CODEGEN_HELPERS_H

#include "base/text.h"

typedef enum { LJ_DIALECT_HOST_C, LJ_DIALECT_CUDA_C } lj_dialect;

enum { LJ_HELPER_WORDS = 2 };
/* A set of helpers. */
typedef struct {
    uint64_t bits[LJ_HELPER_WORDS];
} lj_helper_set;

/* Does `text` have `name` as a whole word? */
bool lj_text_names(const char *text, const char *name);
/* Adds the helpers that `text` names, and what those name in turn. */
void lj_helpers_scan(lj_helper_set *set, lj_dialect dialect, const char *text);
void lj_helpers_merge(lj_helper_set *set, const lj_helper_set *other);
/* Prints the set's functions in an order in which each stands before its users. `vector_bytes`: width of a vector register. */
void lj_helpers_print(lj_text *out, lj_dialect dialect, const lj_helper_set *set, int vector_bytes);

#endif
