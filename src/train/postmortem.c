#include "train/postmortem.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>

typedef struct {
    double norm, least, largest;
    int64_t not_finite;
} statistics;

static statistics measure(const float *data, int64_t count)
{
    statistics s = {0, INFINITY, -INFINITY, 0};
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(data[i])) {
            s.not_finite++;
            continue;
        }
        s.norm += (double)data[i] * data[i];
        s.least = fmin(s.least, data[i]), s.largest = fmax(s.largest, data[i]);
    }
    s.norm = sqrt(s.norm);
    if (s.least > s.largest) s.least = s.largest = 0;
    return s;
}

static void tensor_line(lj_text *out, lj_trainer *trainer, const lj_weight_slot *slot)
{
    struct {
        const char *what;
        const float *flat;
    } rows[] = {{"weight", lj_trainer_master(trainer)}, {"gradient", lj_trainer_gradients(trainer)}, {"m", lj_trainer_m(trainer)}, {"v", lj_trainer_v(trainer)}};
    int64_t offset = lj_slot_offset(lj_trainer_layout(trainer), slot);
    lj_text_add(out, "{\"name\": \"%s\"", slot->weight.name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        statistics s = measure(rows[i].flat + offset, slot->count);
        lj_text_add(out, ", \"%s\": {\"norm\": %.9g, \"min\": %.9g, \"max\": %.9g, \"not_finite\": %lld}", rows[i].what, s.norm, s.least, s.largest,
                    (long long)s.not_finite);
    }
    lj_text_add(out, "}\n");
}

static void ids_add(lj_text *out, const char *name, const int32_t *ids, int64_t count)
{
    lj_text_add(out, ", \"%s\": [", name);
    for (int64_t i = 0; i < count; i++) lj_text_add(out, i ? ",%d" : "%d", ids[i]);
    lj_text_add(out, "]");
}

static void batch_lines(lj_text *out, const lj_batch *batch, int64_t micro, int64_t position)
{
    for (int64_t row = 0; row < batch->rows; row++) {
        lj_text_add(out, "{\"micro_batch\": %lld, \"position\": %lld", (long long)micro, (long long)(position + row));
        ids_add(out, "tokens", batch->tokens + row * batch->length, batch->length);
        ids_add(out, "targets", batch->targets + row * batch->length, batch->length);
        lj_text_add(out, "}\n");
    }
}

static lj_status text_write(const char *folder, const char *name, lj_text *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    lj_status status = lj_text_status(text);
    if (status == LJ_OK) status = lj_file_write(path, text->data ? text->data : "", text->length);
    lj_text_release(text);
    return status;
}

lj_status lj_postmortem_write(const char *out, lj_trainer *trainer, const lj_batch *batches, int64_t count, const lj_train_state *state)
{
    char folder[4096];
    lj_text batch, tensors;
    const lj_param_layout *layout = lj_trainer_layout(trainer);
    snprintf(folder, sizeof folder, "%s/stopped", out);
    LJ_TRY(lj_folder_create(folder, 0755));
    lj_text_init(&batch);
    lj_text_init(&tensors);
    for (int64_t i = 0; i < count; i++) batch_lines(&batch, &batches[i], i, state->position + i * batches[i].rows);
    for (size_t i = 0; i < layout->slot_count; i++) tensor_line(&tensors, trainer, &layout->slots[i]);
    lj_status status = text_write(folder, "batch.jsonl", &batch), second = text_write(folder, "tensors.jsonl", &tensors);
    return status == LJ_OK ? second : status;
}
