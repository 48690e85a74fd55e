/* GGUF: every field through every getter, the model's numbers, and a few rows of every tensor. */
#include "support.h"

#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/gguf_config.h"
#include "formats/weights.h"

#include <stdlib.h>

static void field_read(const lj_gguf *gguf, const char *key)
{
    int64_t whole = 0;
    double number = 0;
    bool truth = false;
    uint64_t count = 0, sum = 0;
    const uint8_t *data = NULL;
    lj_gguf_string text = {"", 0}, *list = NULL;
    (void)lj_gguf_get_int(gguf, key, &whole);
    (void)lj_gguf_get_double(gguf, key, &number);
    (void)lj_gguf_get_bool(gguf, key, &truth);
    if (lj_gguf_get_string(gguf, key, &text) == LJ_OK)
        for (size_t i = 0; i < text.bytes; i++) sum += (uint8_t)text.data[i];
    if (lj_gguf_get_array(gguf, key, LJ_GGUF_F32, &data, &count) == LJ_OK)
        for (uint64_t i = 0; i < 4 * count; i++) sum += data[i];
    if (lj_gguf_get_strings(gguf, key, &list, &count) == LJ_OK && list) {
        for (uint64_t i = 0; i < count; i++)
            for (size_t c = 0; c < list[i].bytes; c++) sum += (uint8_t)list[i].data[c];
        lj_free(list);
    }
    fuzz_expect(sum != UINT64_MAX, "the bytes were read");
}

static void tensors_read(lj_weights *w)
{
    enum { MOST = 1 << 16 };
    for (size_t i = 0; i < lj_weights_count(w); i++) {
        lj_weight *item = lj_weights_get(w, i);
        int64_t rows = item->columns > 0 && item->columns <= MOST ? MOST / item->columns : 0, first = item->rows - rows;
        if (rows > item->rows) rows = item->rows;
        if (first < 0) first = 0;
        float *out = malloc(4 * MOST);
        fuzz_expect(out != NULL, "memory");
        (void)lj_weights_read(w, item, 0, rows, LJ_F32, out);
        (void)lj_weights_read(w, item, first, rows, LJ_BF16, out);
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lj_gguf *gguf;
    lj_weights *w;
    lj_model_config config;
    lj_weights_report report;
    size_t before = lj_memory_live();
    fuzz_file_set("x.gguf", data, bytes);
    if (lj_gguf_open("x.gguf", &gguf) == LJ_OK) {
        for (size_t i = 0; i < lj_gguf_field_count(gguf); i++) field_read(gguf, lj_gguf_field_get(gguf, i)->key);
        (void)lj_gguf_config_read(gguf, &config);
        lj_gguf_close(gguf);
    }
    if (lj_weights_open_any("x.gguf", &w) == LJ_OK) {
        const lj_model_config *c = lj_weights_config(w);
        lj_status status = c ? lj_weights_check_model(w, c, false, &report) : LJ_ERR_IO;
        if (status == LJ_OK || (c && (status == LJ_ERR_INVALID || status == LJ_ERR_NOT_FOUND))) lj_weights_report_release(&report);
        tensors_read(w);
        lj_weights_close(w);
    }
    fuzz_files_clear();
    fuzz_expect(lj_memory_live() == before, "nothing is left");
    return 0;
}
