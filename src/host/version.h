/* Version numbers as drivers, CUDA, Debian and Python packages write them. */
#ifndef LJ_HOST_VERSION_H
#define LJ_HOST_VERSION_H

#include <stdbool.h>
#include <stddef.h>

/* <0, 0, >0 by the dotted numbers ("535.54.03" < "535.104.5"); a missing part counts as 0; what follows the
 * numbers is left out. */
int lj_version_compare(const char *a, const char *b);
/* True when all parts of `prefix` are those of `version`: "570" of "570.26". */
bool lj_version_within(const char *version, const char *prefix);
/* First number of a version, 0 when it does not start with one. */
int lj_version_major(const char *version);
/* The part after '+' ("2.7.1.8+nv25.3" -> "nv25.3"), "" without one. */
const char *lj_version_suffix(const char *version);
/* The first dotted number in a text ("Kernel Module  535.54.03  Tue" -> "535.54.03"); false when there is
 * none with a dot. */
bool lj_version_find(const char *text, char *out, size_t capacity);

/* PEP 440 order with epochs left out: a pre-release (a, b, rc, dev) before its release, post after, a local
 * part after its public version. */
int lj_python_version_compare(const char *a, const char *b);
/* Does `version` satisfy a specifier list such as ">=2.0,<3,!=2.3.*,~=2.1"? An empty list allows everything.
 */
bool lj_python_version_allows(const char *specifiers, const char *version);

#endif
