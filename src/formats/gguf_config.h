/* GGUF metadata -> lj_model_config, and GGUF tensor names -> Hugging Face's. */
#ifndef LJ_FORMATS_GGUF_CONFIG_H
#define LJ_FORMATS_GGUF_CONFIG_H

#include "formats/gguf.h"
#include "formats/model_config.h"

/* Architectures llama, qwen2, qwen3 (Mistral files call themselves llama). What metadata cannot say is read from the tensors: a missing
 * output.weight is a tied head, attn_q.bias is attention_bias, rope_freqs.weight is the llama3 scaling, solved back to its four
 * numbers. Checked by lj_model_config_check. LJ_ERR_FORMAT, LJ_ERR_LIMIT, LJ_ERR_UNSUPPORTED. Any thread. */
lj_status lj_gguf_config_read(const lj_gguf *gguf, lj_model_config *config);

/* "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; false when the name has no counterpart (then it is left as it is by
 * callers). `buffer` takes LJ_MAX_WEIGHT_NAME bytes. */
bool lj_gguf_name_to_hf(const char *name, char *buffer);

/* llama-architecture files store the rows of q and k interleaved (pair i of a head in rows 2i, 2i + 1); Hugging Face and we keep the halves
 * apart (rows i and i + head_dim / 2). The stored row of our row `row`: */
int64_t lj_gguf_rotary_row(int64_t row, int64_t head_dim);

#endif
