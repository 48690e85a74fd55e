/* Megatron's index over a fixed .bin: opening proves it, so that reading every sequence stays inside. */
#include "support.h"

#include "formats/megatron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint8_t values[256] = {1, 2, 3, 0xff};
    int32_t tokens[64];
    lj_megatron *set;
    fuzz_file_set("set.idx", data, bytes);
    fuzz_file_set("set.bin", values, sizeof values);
    if (lj_megatron_open("set", &set) == LJ_OK) {
        for (uint64_t s = 0; s < set->sequence_count; s++) {
            uint64_t length = lj_megatron_length(set, s);
            (void)lj_megatron_read(set, s, length > 64 ? length - 64 : 0, length < 64 ? length : 64, tokens);
        }
        for (uint64_t d = 0; d <= set->document_count; d++) fuzz_expect(lj_megatron_document(set, d) <= set->sequence_count, "a mark is inside");
        lj_megatron_close(set);
    }
    fuzz_files_clear();
    return 0;
}
