/* How a public function is written: the body under its `p` name, the plain name a weak alias, as NCCL has it, so that a profiler may replace the
 * plain one. */
#ifndef ACCL_API_H
#define ACCL_API_H

#include "accl/nccl.h"

#define ACCL_API(result, name, arguments)                                                                                        \
    ACCL_EXPORT result name arguments __attribute__((weak, alias("p" #name)));                                                   \
    result p##name arguments

#endif
