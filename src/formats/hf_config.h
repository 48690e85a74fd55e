/* Hugging Face config.json <-> lj_model_config.
 *
 * Reads both spellings: rope_theta / rope_scaling / torch_dtype, and the newer rope_parameters / dtype. What is written has both, so
 * that transformers 4.51 and 5.x load it. A file whose meaning we cannot keep (another model_type, an unknown rotary scaling or
 * activation, partial rotation, layers that slide in a mixed pattern, quantised weights) is refused by the name of the field. */
#ifndef LJ_FORMATS_HF_CONFIG_H
#define LJ_FORMATS_HF_CONFIG_H

#include "formats/model_config.h"

/* Reads FILE, checked by lj_model_config_check. LJ_ERR_IO, LJ_ERR_FORMAT, LJ_ERR_INVALID, LJ_ERR_LIMIT, LJ_ERR_UNSUPPORTED. Any thread. */
lj_status lj_hf_config_read(const char *path, lj_model_config *config);
/* The same from text in memory; `where` names it in errors. */
lj_status lj_hf_config_parse(const char *where, const char *text, size_t bytes, lj_model_config *config);
/* Writes FOLDER/config.json and FOLDER/generation_config.json, each atomically. */
lj_status lj_hf_config_write(const char *folder, const lj_model_config *config);

#endif
