/* decode_gguf FILE OUT f32|bf16: every tensor of a GGUF in the order of the file, decoded and concatenated. LJPERF_ISA caps the decoders. */
#include "formats/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    lj_gguf *gguf;
    if (argc != 4) return fprintf(stderr, "usage: decode_gguf FILE OUT f32|bf16\n"), 2;
    lj_dtype to = strcmp(argv[3], "bf16") == 0 ? LJ_BF16 : LJ_F32;
    FILE *out = fopen(argv[2], "wb");
    if (!out || lj_gguf_open(argv[1], &gguf) != LJ_OK) return fprintf(stderr, "decode_gguf: %s\n", lj_error_message()), 1;
    for (size_t i = 0; i < lj_gguf_tensor_count(gguf); i++) {
        const lj_gguf_tensor *t = lj_gguf_tensor_get(gguf, i);
        size_t blocks = t->bytes / t->type->block_bytes, elements = blocks * t->type->block_elements;
        void *decoded = malloc(elements * lj_dtype_bytes(to));
        lj_dequantise(t->type, to, decoded, t->data, blocks);
        if (fwrite(decoded, lj_dtype_bytes(to), elements, out) != elements) return 1;
        free(decoded);
    }
    lj_gguf_close(gguf);
    return fclose(out) == 0 ? 0 : 1;
}
