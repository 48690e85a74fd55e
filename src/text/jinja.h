/* The part of Jinja that chat templates are written in: enough to run them over probe conversations and see what they write.
 *
 * Output, if, for, set (with namespaces), expressions with operators, slices, filters, tests and string methods, white space control
 * as Hugging Face sets it (trim_blocks, lstrip_blocks). Macros, includes and calls with blocks are refused. A template is foreign text:
 * depth, steps and output are bounded. */
#ifndef LJ_TEXT_JINJA_H
#define LJ_TEXT_JINJA_H

#include "base/text.h"

#include <jansson.h>

/* Appends what the template writes, given the variables (a JSON object). LJ_ERR_UNSUPPORTED: a construct not known here, with its
 * place; LJ_ERR_INVALID: the template raised an exception (its text); LJ_ERR_FORMAT: broken syntax; LJ_ERR_LIMIT. Any thread. */
lj_status lj_jinja_render(const char *source, const json_t *variables, lj_text *out);

#endif
