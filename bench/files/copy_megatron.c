/* copy_megatron IN OUT: reads a set sequence by sequence and writes it again; equal files prove both ways. */
#include "formats/megatron.h"

#include <stdio.h>
#include <stdlib.h>

static lj_status copy(const lj_megatron *in, lj_megatron_writer *out)
{
    for (uint64_t d = 0; d < in->document_count; d++) {
        for (uint64_t s = lj_megatron_document(in, d); s < lj_megatron_document(in, d + 1); s++) {
            uint64_t length = lj_megatron_length(in, s);
            int32_t *tokens = malloc((length + 1) * sizeof *tokens);
            lj_status status = tokens ? lj_megatron_read(in, s, 0, length, tokens) : LJ_ERR_NOMEM;
            if (status == LJ_OK) status = lj_megatron_writer_add(out, tokens, length, lj_megatron_mode(in, s));
            free(tokens);
            LJ_TRY(status);
        }
        LJ_TRY(lj_megatron_writer_end_document(out));
    }
    return LJ_OK;
}

int main(int argc, char **argv)
{
    lj_megatron *in = NULL;
    lj_megatron_writer *out = NULL;
    lj_status status = argc == 3 ? lj_megatron_open(argv[1], &in) : LJ_ERR_INVALID;
    if (status == LJ_OK) status = lj_megatron_writer_begin(argv[2], in->type, in->modes != NULL, &out);
    if (status == LJ_OK) status = copy(in, out);
    if (status == LJ_OK) status = lj_megatron_writer_commit(out);
    if (status != LJ_OK) fprintf(stderr, "%s\n", lj_error_message());
    lj_megatron_close(in);
    return status != LJ_OK;
}
