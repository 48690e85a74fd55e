/* Tables of the rotary embedding: cosines and sines [positions, head_dim], both halves equal, as lj_rotary reads them. */
#ifndef LJ_MODEL_ROPE_H
#define LJ_MODEL_ROPE_H

#include "formats/model_config.h"

/* Fills cosines and sines, each positions x head_dim floats. Angles are computed in f32 as transformers does, so that long
 * positions agree with it. With LJ_ROPE_DYNAMIC the base follows `positions`, taken as the sequence length. */
void lj_rope_tables(const lj_model_config *config, int64_t positions, float *cosines, float *sines);

#endif
