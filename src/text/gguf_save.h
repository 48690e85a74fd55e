/* The tokenizer inside a GGUF as the files of a Hugging Face folder. */
#ifndef LJ_TEXT_GGUF_SAVE_H
#define LJ_TEXT_GGUF_SAVE_H

#include "formats/gguf.h"

/* A byte-level vocabulary ("gpt2") becomes FOLDER/tokenizer.json, one with scores ("llama") FOLDER/tokenizer.model; both with
 * FOLDER/tokenizer_config.json (roles, chat template). The words are cut as llama.cpp cuts them for this file. Written atomically, each.
 * LJ_ERR_UNSUPPORTED: another kind, a pre-tokenizer that is not known, or a vocabulary that JSON cannot hold (a token twice, or no
 * UTF-8); LJ_ERR_FORMAT: lists that contradict each other. */
lj_status lj_gguf_tokenizer_save(const lj_gguf *gguf, const char *folder);

#endif
