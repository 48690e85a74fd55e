/* copy_safetensors IN OUT: reads a safetensors file with our reader and writes it with our writer, metadata included. */
#include "formats/safetensors.h"

#include <stdio.h>

static lj_status copy(const lj_safetensors *in, lj_safetensors_writer *out)
{
    for (size_t i = 0; i < lj_safetensors_metadata_count(in); i++) {
        const lj_safetensors_entry *e = lj_safetensors_metadata_get(in, i);
        lj_status status = lj_safetensors_writer_metadata(out, e->key, e->value);
        if (status != LJ_OK) return status;
    }
    for (size_t i = 0; i < lj_safetensors_count(in); i++) {
        const lj_safetensors_tensor *t = lj_safetensors_get(in, i);
        lj_status status = lj_safetensors_writer_tensor(out, t->name, t->dtype, t->rank, t->shape);
        if (status != LJ_OK) return status;
    }
    for (size_t i = 0; i < lj_safetensors_count(in); i++) {
        const lj_safetensors_tensor *t = lj_safetensors_get(in, i);
        lj_status status = lj_safetensors_writer_write(out, t->data, t->bytes);
        if (status != LJ_OK) return status;
    }
    return LJ_OK;
}

int main(int argc, char **argv)
{
    lj_safetensors *in;
    lj_safetensors_writer *out;
    if (argc != 3) return fprintf(stderr, "usage: copy_safetensors IN OUT\n"), 2;
    lj_status status = lj_safetensors_open(argv[1], &in);
    if (status == LJ_OK) status = lj_safetensors_writer_create(argv[2], &out);
    if (status == LJ_OK) {
        status = copy(in, out);
        if (status == LJ_OK)
            status = lj_safetensors_writer_commit(out);
        else
            lj_safetensors_writer_abort(out);
        lj_safetensors_close(in);
    }
    if (status != LJ_OK) fprintf(stderr, "copy_safetensors: %s\n", lj_error_message());
    return status == LJ_OK ? 0 : 1;
}
