/* A folder with an index: the input is split at 0xff bytes (never in valid JSON text) into index, config and two shards. */
#include "support.h"

#include "base/memory.h"
#include "formats/weights.h"

#include <string.h>

static const char *const paths[] = {"m/model.safetensors.index.json", "m/config.json", "m/a.safetensors", "m/b.safetensors"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lj_weights *w;
    lj_weights_report report;
    size_t before = lj_memory_live();
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *end = i < 3 ? memchr(data, 0xff, bytes) : NULL;
        size_t length = end ? (size_t)(end - data) : bytes;
        fuzz_file_set(paths[i], data, length);
        data += length + (end != NULL), bytes -= length + (end != NULL);
    }
    if (lj_weights_open_any("m", &w) == LJ_OK) {
        const lj_model_config *c = lj_weights_config(w);
        lj_status status = c ? lj_weights_check_model(w, c, false, &report) : LJ_ERR_IO;
        if (status == LJ_OK || (c && (status == LJ_ERR_INVALID || status == LJ_ERR_NOT_FOUND))) lj_weights_report_release(&report);
        lj_weights_close(w);
    }
    fuzz_files_clear();
    fuzz_expect(lj_memory_live() == before, "nothing is left");
    return 0;
}
