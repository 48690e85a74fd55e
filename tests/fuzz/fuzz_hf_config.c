/* config.json: what is accepted passes its own check and lists its weights. */
#include "support.h"

#include "base/memory.h"
#include "formats/hf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lj_model_config config;
    size_t before = lj_memory_live();
    if (lj_hf_config_parse("config.json", (const char *)data, bytes, &config) == LJ_OK) {
        lj_model_weight weight;
        fuzz_expect(lj_model_config_check(&config) == LJ_OK, "an accepted config is a checked one");
        size_t count = lj_model_weight_count(&config);
        for (size_t i = 0; i < count; i += 1 + count / 16) {
            lj_model_weight_get(&config, i, &weight);
            fuzz_expect(weight.shape[0] > 0, "every weight has a size");
        }
        fuzz_expect(lj_model_parameter_count(&config) > 0, "parameters do not overflow");
    }
    fuzz_expect(lj_memory_live() == before, "nothing is left");
    return 0;
}
