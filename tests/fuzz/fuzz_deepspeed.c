/* DeepSpeed's JSON: what is accepted has a consistent triple of batch sizes; nothing is left behind. */
#include "support.h"

#include "base/memory.h"
#include "formats/deepspeed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lj_deepspeed d;
    size_t before = lj_memory_live();
    int ranks = bytes ? 1 + data[bytes - 1] % 8 : 1;
    fuzz_file_set("ds.json", data, bytes);
    if (lj_deepspeed_read("ds.json", ranks, &d) == LJ_OK) {
        int64_t product = 0;
        bool fits = !__builtin_mul_overflow(d.micro_batch, d.accumulation, &product) && !__builtin_mul_overflow(product, (int64_t)ranks, &product);
        bool set = d.train_batch > 0 && d.micro_batch > 0 && d.accumulation > 0;
        fuzz_expect(!set || (fits && product == d.train_batch), "train = micro x accumulation x ranks");
        lj_deepspeed_release(&d);
    }
    fuzz_files_clear();
    fuzz_expect(lj_memory_live() == before, "nothing is left");
    return 0;
}
