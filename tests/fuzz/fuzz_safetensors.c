/* safetensors: the mapped and the ranged reader give the same verdict, and every byte of every tensor can be read. */
#include "support.h"

#include "base/memory.h"
#include "formats/safetensors.h"

#include <string.h>

typedef struct {
    const uint8_t *data;
    size_t bytes, piece;
} source;

static lj_status piece_read(void *user, uint64_t offset, size_t bytes, void *buffer, size_t *got)
{
    const source *s = user;
    fuzz_expect(offset <= s->bytes && bytes <= s->bytes - offset, "ranges stay inside the file");
    *got = bytes < s->piece ? bytes : s->piece;
    memcpy(buffer, s->data + offset, *got);
    return LJ_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lj_safetensors *mapped = NULL, *ranged = NULL;
    source s = {data, bytes, bytes % 7 ? 1 + bytes % 1000 : bytes + 1};
    uint64_t sum = 0;
    size_t before = lj_memory_live();
    fuzz_file_set("x.safetensors", data, bytes);
    lj_status first = lj_safetensors_open("x.safetensors", &mapped), second = lj_safetensors_open_ranged("x.safetensors", bytes, piece_read, &s, &ranged);
    fuzz_expect(first == second, "both readers agree");
    for (size_t i = 0; first == LJ_OK && i < lj_safetensors_count(mapped); i++) {
        const lj_safetensors_tensor *t = lj_safetensors_get(mapped, i);
        fuzz_expect(lj_safetensors_find(ranged, t->name) != NULL, "the same names");
        fuzz_expect(lj_safetensors_find(mapped, t->name) == t, "a name finds its tensor");
        for (uint64_t b = 0; b < t->bytes; b++) sum += t->data[b];
    }
    fuzz_expect(sum != UINT64_MAX, "the bytes were read");
    lj_safetensors_close(mapped);
    lj_safetensors_close(ranged);
    fuzz_files_clear();
    fuzz_expect(lj_memory_live() == before, "nothing is left");
    return 0;
}
