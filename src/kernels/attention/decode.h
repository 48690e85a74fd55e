/* Inside of attention: forward for a few queries. */
#ifndef LJ_KERNELS_ATTENTION_DECODE_H
#define LJ_KERNELS_ATTENTION_DECODE_H

#include "kernels/attention/layout.h"

bool lj_attention_decodes(const lj_attention_desc *d);
size_t lj_attention_decode_scratch(const lj_attention_desc *d, int threads);
void lj_attention_decode(const lj_attention_forward_args *a, int thread, int threads);

#endif
