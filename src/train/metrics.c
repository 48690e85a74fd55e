#include "train/metrics.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines up to `step`; a torn last line (the process died while writing) goes too. */
static void lines_kept(const char *data, size_t bytes, int64_t step, lj_text *out)
{
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(data + at, '\n', bytes - at);
        if (!end) return;
        size_t length = (size_t)(end - data) - at + 1;
        char head[64];
        long long line_step = 0;
        snprintf(head, sizeof head, "%.*s", (int)(length < 63 ? length : 63), data + at);
        if (sscanf(head, "{\"step\": %lld", &line_step) == 1 && line_step <= step) lj_text_add_bytes(out, data + at, length);
        at += length;
    }
}

static lj_status drop_after(const char *path, int64_t step)
{
    lj_mapped_file file;
    lj_text kept;
    if (access(path, F_OK) != 0) return LJ_OK;
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_text_init(&kept);
    lines_kept((const char *)file.data, file.bytes, step, &kept);
    lj_status status = lj_text_status(&kept);
    if (status == LJ_OK && kept.length != file.bytes) status = lj_file_write(path, kept.data ? kept.data : "", kept.length);
    lj_text_release(&kept);
    lj_mapped_file_release(&file);
    return status;
}

lj_status lj_metrics_open(lj_metrics *metrics, const char *out, int64_t step)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    LJ_TRY(drop_after(path, step));
    *metrics = (lj_metrics){fopen(path, "ae"), strdup(path)};
    if (!metrics->file) return lj_fail_errno("open", path);
    return metrics->path ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "%s", path);
}

/* JSON has no NaN: such a number is null. */
static const char *number(double value, char *buffer, size_t capacity)
{
    if (isfinite(value))
        snprintf(buffer, capacity, "%.9g", value);
    else
        snprintf(buffer, capacity, "null");
    return buffer;
}

static lj_status line_end(lj_metrics *metrics)
{
    return fputs("}\n", metrics->file) >= 0 && fflush(metrics->file) == 0 ? LJ_OK : lj_fail_errno("write", metrics->path);
}

lj_status lj_metrics_step(lj_metrics *metrics, const lj_step_metrics *row)
{
    char loss[32], norm[32];
    fprintf(metrics->file, "{\"step\": %lld, \"loss\": %s, \"lr\": %.9g, \"grad_norm\": %s, \"tokens\": %lld, \"seconds\": %.6g, \"tokens_per_s\": %.6g",
            (long long)row->step, number(row->loss, loss, sizeof loss), row->lr, number(row->grad_norm, norm, sizeof norm),
            (long long)row->tokens, row->seconds, row->tokens_per_s);
    return line_end(metrics);
}

lj_status lj_metrics_eval(lj_metrics *metrics, const lj_eval_metrics *row)
{
    char loss[32], perplexity[32];
    fprintf(metrics->file, "{\"step\": %lld, \"eval_loss\": %s, \"perplexity\": %s, \"eval_tokens\": %lld", (long long)row->step,
            number(row->loss, loss, sizeof loss), number(exp(row->loss), perplexity, sizeof perplexity), (long long)row->tokens);
    return line_end(metrics);
}

void lj_metrics_close(lj_metrics *metrics)
{
    if (metrics->file) fclose(metrics->file);
    free(metrics->path);
    *metrics = (lj_metrics){0};
}
