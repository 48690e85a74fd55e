/* The byte-level BPE tokenizer of a GGUF file, written as Hugging Face's tokenizer.json and tokenizer_config.json. */
#ifndef LJ_TEXT_EXPORT_GGUF_H
#define LJ_TEXT_EXPORT_GGUF_H

#include "formats/gguf.h"

/* FOLDER must exist. Ids, words and special tokens are the file's. LJ_ERR_UNSUPPORTED: another kind of tokenizer, by name. */
lj_status lj_tokenizer_export_gguf(const lj_gguf *gguf, const char *folder);

#endif
