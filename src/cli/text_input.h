/* What the commands about text share: a file or standard input as bytes, and the tokenizer that --model or --tokenizer names. */
#ifndef LJ_CLI_TEXT_INPUT_H
#define LJ_CLI_TEXT_INPUT_H

#include "base/file.h"
#include "base/text.h"
#include "cli/command.h"
#include "text/tokenizer.h"

typedef struct {
    const char *data;
    size_t bytes;
    lj_mapped_file file;
    lj_text own;
} lj_text_input;

/* "-" is standard input, read to its end. Release also after a failure. */
lj_status lj_text_input_init(lj_text_input *input, const char *path);
void lj_text_input_release(lj_text_input *input);

/* --tokenizer, else --model. */
lj_status lj_command_tokenizer(const lj_config *config, lj_tokenizer **out);
/* tokenize --out: the arguments' documents to PREFIX.bin and PREFIX.idx. */
lj_status lj_tokenize_to_files(const lj_command_input *input);

#endif
