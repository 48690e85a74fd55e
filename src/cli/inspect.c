/* ljperf inspect: what a model file or folder holds. Reads headers only. */
#define _GNU_SOURCE
#include "base/file.h"
#include "cli/commands.h"
#include "formats/gguf.h"
#include "formats/weights.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_TEXT = 72 };

static const char *shape_text(const lj_weight *w, char *buffer, size_t capacity)
{
    size_t used = (size_t)snprintf(buffer, capacity, "[");
    for (int i = 0; i < w->rank && used < capacity; i++) used += (size_t)snprintf(buffer + used, capacity - used, "%s%lld", i ? ", " : "", (long long)w->shape[i]);
    if (used < capacity) snprintf(buffer + used, capacity - used, "]");
    return buffer;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A scalar of GGUF metadata as JSON; arrays as their length and type. */
static json_t *field_json(const lj_gguf *gguf, const lj_gguf_field *field)
{
    int64_t whole = 0;
    double number = 0;
    bool truth = false;
    lj_gguf_string text = {"", 0};
    switch (field->type) {
    case LJ_GGUF_ARRAY: return json_pack("{s:s, s:I}", "array_of", lj_gguf_type_name(field->element_type), "count", (json_int_t)field->count);
    case LJ_GGUF_STRING:
        (void)lj_gguf_get_string(gguf, field->key, &text);
        json_t *value = json_stringn(text.data, text.bytes);
        return value ? value : json_string("(not UTF-8)");
    case LJ_GGUF_BOOL: (void)lj_gguf_get_bool(gguf, field->key, &truth); return json_boolean(truth);
    case LJ_GGUF_F32:
    case LJ_GGUF_F64: (void)lj_gguf_get_double(gguf, field->key, &number); return json_real(number);
    default: return lj_gguf_get_int(gguf, field->key, &whole) == LJ_OK ? json_integer(whole) : json_string("(above 2^63)");
    }
}

static json_t *metadata_json(const lj_weights *w)
{
    json_t *all = json_object();
    const lj_gguf *gguf = lj_weights_gguf(w);
    for (size_t i = 0; gguf && i < lj_gguf_field_count(gguf); i++) {
        const lj_gguf_field *field = lj_gguf_field_get(gguf, i);
        json_object_set_new(all, field->key, field_json(gguf, field));
    }
    for (size_t i = 0; i < lj_weights_metadata_count(w); i++) {
        const char *key, *value;
        lj_weights_metadata_get(w, i, &key, &value);
        json_object_set_new(all, key, json_string(value));
    }
    return all;
}

static json_t *config_json(const lj_weights *w)
{
    const lj_model_config *c = lj_weights_config(w);
    if (!c) return json_null();
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:b, s:b, s:b, s:I, s:s}", "model_type", lj_model_family_name(c->family),
                     "parameters", (json_int_t)lj_model_parameter_count(c), "vocab_size", (json_int_t)c->vocab_size, "hidden_size", (json_int_t)c->hidden_size,
                     "intermediate_size", (json_int_t)c->intermediate_size, "num_hidden_layers", (json_int_t)c->num_hidden_layers, "num_attention_heads",
                     (json_int_t)c->num_attention_heads, "num_key_value_heads", (json_int_t)c->num_key_value_heads, "head_dim", (json_int_t)c->head_dim,
                     "max_position_embeddings", (json_int_t)c->max_position_embeddings, "rms_norm_eps", c->rms_norm_eps, "rope_theta", c->rope_theta, "rope_type",
                     lj_rope_type_name(c->rope_scaling.type), "tie_word_embeddings", c->tie_word_embeddings, "attention_bias", c->attention_bias, "qk_norm",
                     c->qk_norm, "sliding_window", (json_int_t)c->sliding_window, "dtype", lj_dtype_name(c->dtype));
}

static json_t *tensors_json(const lj_weights *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < lj_weights_count(w); i++) {
        const lj_weight *t = lj_weights_get(w, i);
        json_t *shape = json_array();
        for (int d = 0; d < t->rank; d++) json_array_append_new(shape, json_integer(t->shape[d]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:I, s:s}", "name", t->name, "stored_name", t->stored_name, "type", t->type_name, "shape", shape,
                                              "bytes", (json_int_t)t->bytes, "file", base_name(t->file)));
    }
    return list;
}

static json_t *report_json(const lj_weights *w, const lj_weights_report *report)
{
    json_t *root = json_object();
    json_object_set_new(root, "schema", json_string("ljperf.inspect/1"));
    json_object_set_new(root, "path", json_string(lj_weights_path(w)));
    json_object_set_new(root, "format", json_string(lj_weights_gguf(w) ? "gguf" : "safetensors"));
    json_object_set_new(root, "config", config_json(w));
    json_object_set_new(root, "metadata", metadata_json(w));
    json_object_set_new(root, "tensors", tensors_json(w));
    json_object_set_new(root, "missing", json_integer((json_int_t)report->missing));
    json_object_set_new(root, "misshapen", json_integer((json_int_t)report->misshapen));
    json_object_set_new(root, "unused", json_integer((json_int_t)report->unused));
    return root;
}

static void metadata_print(const json_t *metadata)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value) {
        char *text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        if (!text) continue;
        text[strcspn(text, "\n")] = 0; /* templates: the first line tells which */
        printf("  %-44s %.*s%s\n", key, SHOWN_TEXT, text, strlen(text) > SHOWN_TEXT ? "..." : "");
        free(text);
    }
}

/* Sums of one element type. Type names are static strings of tables, so there are few. */
typedef struct {
    const char *name;
    size_t count;
    uint64_t elements, bytes;
} type_sum;

static size_t types_sum(const lj_weights *w, type_sum *sums, size_t capacity)
{
    size_t types = 0;
    for (size_t i = 0; i < lj_weights_count(w); i++) {
        const lj_weight *t = lj_weights_get(w, i);
        size_t s = 0;
        while (s < types && strcmp(sums[s].name, t->type_name) != 0) s++;
        if (s == capacity) continue;
        if (s == types) sums[types++] = (type_sum){.name = t->type_name};
        sums[s].count++, sums[s].elements += (uint64_t)(t->rows * t->columns), sums[s].bytes += t->bytes;
    }
    return types;
}

static void types_print(const lj_weights *w)
{
    enum { MAX_TYPES = 64 };
    type_sum sums[MAX_TYPES];
    uint64_t total = 0;
    char size[32];
    size_t types = types_sum(w, sums, MAX_TYPES);
    printf("types:\n");
    for (size_t i = 0; i < types; i++) {
        total += sums[i].bytes;
        printf("  %-8s %6zu tensors %14llu elements  %s\n", sums[i].name, sums[i].count, (unsigned long long)sums[i].elements,
               lj_size_format((double)sums[i].bytes, size, sizeof size));
    }
    printf("  %-8s %6zu tensors %25s%s\n", "all", lj_weights_count(w), "", lj_size_format((double)total, size, sizeof size));
}

static void model_print(const lj_weights *w)
{
    const lj_model_config *c = lj_weights_config(w);
    char count[32];
    if (!c) {
        if (*lj_weights_config_error(w)) printf("model: cannot be built here: %s\n", lj_weights_config_error(w));
        return;
    }
    printf("model: %s, %s parameters, %lld layers, hidden %lld, ffn %lld, heads %lld/%lld of %lld, vocabulary %lld%s, context %lld, rope %s theta %g\n",
           lj_model_family_name(c->family), lj_si_format((double)lj_model_parameter_count(c), count, sizeof count), (long long)c->num_hidden_layers,
           (long long)c->hidden_size, (long long)c->intermediate_size, (long long)c->num_attention_heads, (long long)c->num_key_value_heads, (long long)c->head_dim,
           (long long)c->vocab_size, c->tie_word_embeddings ? " (tied head)" : "", (long long)c->max_position_embeddings, lj_rope_type_name(c->rope_scaling.type),
           c->rope_theta);
}

static void text_print(const lj_weights *w, const lj_weights_report *report)
{
    char shape[160], size[32];
    printf("%s: %s, %zu tensors\n", lj_weights_path(w), lj_weights_gguf(w) ? "GGUF" : "safetensors", lj_weights_count(w));
    model_print(w);
    json_t *metadata = metadata_json(w);
    if (json_object_size(metadata)) printf("metadata:\n");
    metadata_print(metadata);
    json_decref(metadata);
    printf("tensors:\n");
    for (size_t i = 0; i < lj_weights_count(w); i++) {
        const lj_weight *t = lj_weights_get(w, i);
        printf("  %-56s %-8s %-18s %10s  %s\n", t->name, t->type_name, shape_text(t, shape, sizeof shape), lj_size_format((double)t->bytes, size, sizeof size),
               base_name(t->file));
    }
    types_print(w);
    if (report->text.length) printf("against the model:\n%s", report->text.data);
}

static lj_status inspect(const lj_command_input *input, const char *path)
{
    lj_weights *w;
    lj_weights_report report = {0};
    LJ_TRY(lj_weights_open_any(path, &w));
    lj_status status = LJ_OK;
    if (lj_weights_config(w)) status = lj_weights_check_model(w, lj_weights_config(w), false, &report);
    const char *json = lj_config_string(input->config, LJ_CFG_json);
    if (strcmp(json, "-") != 0) text_print(w, &report);
    if (*json) {
        json_t *root = report_json(w, &report);
        char *text = json_dumps(root, JSON_INDENT(1));
        json_decref(root);
        lj_status written = text ? lj_file_write(json, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "%s: JSON", path);
        free(text);
        if (written != LJ_OK) status = written;
    }
    lj_weights_report_release(&report);
    lj_weights_close(w);
    return status;
}

int lj_command_inspect(const lj_command_input *input)
{
    if (input->argument_count != 1) {
        lj_fail(LJ_ERR_INVALID, "inspect needs one file or folder, %zu arguments given", input->argument_count);
        return LJ_EXIT_USAGE;
    }
    return lj_exit(inspect(input, input->arguments[0]));
}
