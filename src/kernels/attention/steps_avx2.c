/* The steps of attention with f32 probabilities, avx2. */
#define STEP_PAIRS 0
#include "kernels/attention/steps_body.h"

const lj_attention_steps lj_attention_avx2 = {false, softmax, multiply, gradient, transpose, convert, dot_rows, decode};
