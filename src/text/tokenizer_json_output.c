/* Post-processor and decoder of a tokenizer.json. */
#include "text/tokenizer_json.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char what_post[] = "post_processor", what_decoder[] = "decoder";

/* Ids of a special token of the template. */
static lj_status template_ids(lj_tokenizer *tokenizer, const json_t *special, const char *name, lj_ids *out)
{
    const json_t *ids = json_object_get(json_object_get(special, name), "ids"), *id;
    size_t index;
    if (!json_is_array(ids)) return lj_fail(LJ_ERR_FORMAT, "%s: special token '%.80s' has no 'ids'", what_post, name);
    json_array_foreach(ids, index, id) {
        if (!json_is_integer(id) || !lj_tokenizer_token(tokenizer, (int32_t)json_integer_value(id)).data)
            return lj_fail(LJ_ERR_FORMAT, "%s: an id of special token '%.80s' is not in the vocabulary", what_post, name);
        LJ_TRY(lj_ids_add(out, (int32_t)json_integer_value(id)));
    }
    return LJ_OK;
}

/* "single": what stands before and behind the one sequence. */
static lj_status post_template(lj_tokenizer *tokenizer, const json_t *value)
{
    const json_t *single = json_object_get(value, "single"), *special = json_object_get(value, "special_tokens"), *item;
    size_t index;
    bool seen = false;
    if (!json_is_array(single)) return lj_fail(LJ_ERR_FORMAT, "%s: 'single' must be an array", what_post);
    json_array_foreach(single, index, item) {
        const json_t *token = json_object_get(item, "SpecialToken");
        const char *id = NULL;
        if (json_object_get(item, "Sequence")) {
            if (seen) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: two sequences in 'single'", what_post);
            seen = true;
            continue;
        }
        if (!json_is_object(token)) return lj_fail(LJ_ERR_FORMAT, "%s: single[%zu] is neither Sequence nor SpecialToken", what_post, index);
        LJ_TRY(lj_json_get_string(token, what_post, "id", &id));
        if (!id) return lj_fail(LJ_ERR_FORMAT, "%s: single[%zu] has no 'id'", what_post, index);
        LJ_TRY(template_ids(tokenizer, special, id, seen ? &tokenizer->suffix : &tokenizer->prefix));
    }
    return seen ? LJ_OK : lj_fail(LJ_ERR_UNSUPPORTED, "%s: no sequence in 'single'", what_post);
}

static lj_status post_nothing(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)tokenizer, (void)value;
    return LJ_OK;
}

/* ["</s>", 2] */
static lj_status pair_id(lj_tokenizer *tokenizer, const json_t *value, const char *key, lj_ids *out)
{
    const json_t *id = json_array_get(json_object_get(value, key), 1);
    if (!json_is_integer(id) || !lj_tokenizer_token(tokenizer, (int32_t)json_integer_value(id)).data)
        return lj_fail(LJ_ERR_FORMAT, "%s: '%s' must be [token, id] with an id of the vocabulary", what_post, key);
    return lj_ids_add(out, (int32_t)json_integer_value(id));
}

static lj_status post_bert(lj_tokenizer *tokenizer, const json_t *value)
{
    LJ_TRY(pair_id(tokenizer, value, "cls", &tokenizer->prefix));
    return pair_id(tokenizer, value, "sep", &tokenizer->suffix);
}

static lj_status post_sequence(lj_tokenizer *tokenizer, const json_t *value)
{
    return lj_json_each(tokenizer, value, what_post, "processors", lj_json_post_processor);
}

lj_status lj_json_post_processor(lj_tokenizer *tokenizer, const json_t *value)
{
    static const lj_json_step steps[] = {{"TemplateProcessing", post_template}, {"ByteLevel", post_nothing},   {"BertProcessing", post_bert},
                                         {"RobertaProcessing", post_bert},      {"Sequence", post_sequence}};
    if (!value || json_is_null(value)) return LJ_OK;
    return lj_json_step_read(tokenizer, value, what_post, steps, COUNT(steps));
}

static lj_status add_replacement(lj_tokenizer *tokenizer, lj_span what, lj_span with)
{
    lj_decode_rule *rule = &tokenizer->decode;
    if (rule->replacements == COUNT(rule->what)) return lj_fail(LJ_ERR_LIMIT, "%s: more than %zu replacements", what_decoder, COUNT(rule->what));
    if (memchr(what.data, 0, what.bytes) || memchr(with.data, 0, with.bytes) || !what.bytes)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: a replacement of or by zero bytes", what_decoder);
    rule->what[rule->replacements] = what.data;
    rule->with[rule->replacements++] = with.data;
    return LJ_OK;
}

static lj_status decode_byte_level(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    tokenizer->decode.byte_chars = true;
    return LJ_OK;
}

static lj_status decode_byte_fallback(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    tokenizer->decode.byte_tokens = true;
    return LJ_OK;
}

static lj_status decode_fuse(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    tokenizer->decode.fused = true;
    return LJ_OK;
}

static lj_status decode_replace(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_span what, with;
    const json_t *pattern = json_object_get(value, "pattern");
    if (!json_is_string(json_object_get(pattern, "String")))
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: Replace of an expression is not known here, of a string is", what_decoder);
    LJ_TRY(lj_json_copy_string(tokenizer, pattern, what_decoder, "String", &what));
    LJ_TRY(lj_json_copy_string(tokenizer, value, what_decoder, "content", &with));
    return add_replacement(tokenizer, what, with);
}

/* Leading spaces of the whole; of each token, or at the end, nobody asks for it. */
static lj_status decode_strip(lj_tokenizer *tokenizer, const json_t *value)
{
    int64_t start = 0, stop = 0;
    const char *content = " ";
    LJ_TRY(lj_json_get_int(value, what_decoder, "start", &start));
    LJ_TRY(lj_json_get_int(value, what_decoder, "stop", &stop));
    LJ_TRY(lj_json_get_string(value, what_decoder, "content", &content));
    if (!tokenizer->decode.fused || stop != 0 || start < 0 || start > 1024 || strcmp(content, " ") != 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: Strip of '%s' (%lld, %lld) is known behind Fuse and for leading spaces only", what_decoder, content,
                       (long long)start, (long long)stop);
    tokenizer->decode.strip += (size_t)start;
    return LJ_OK;
}

static lj_status decode_metaspace(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_span mark = {"\xe2\x96\x81", 3};
    const char *scheme = NULL;
    bool prefix = true;
    if (lj_json_has(value, "replacement")) LJ_TRY(lj_json_copy_string(tokenizer, value, what_decoder, "replacement", &mark));
    LJ_TRY(lj_json_get_bool(value, what_decoder, "add_prefix_space", &prefix));
    LJ_TRY(lj_json_get_string(value, what_decoder, "prepend_scheme", &scheme));
    if (scheme) prefix = strcmp(scheme, "never") != 0;
    tokenizer->decode.strip += prefix;
    return add_replacement(tokenizer, mark, (lj_span){" ", 1});
}

static lj_status decode_sequence(lj_tokenizer *tokenizer, const json_t *value);

static lj_status decoder_read(lj_tokenizer *tokenizer, const json_t *value)
{
    static const lj_json_step steps[] = {{"ByteLevel", decode_byte_level}, {"ByteFallback", decode_byte_fallback}, {"Fuse", decode_fuse},
                                         {"Replace", decode_replace},      {"Strip", decode_strip},                {"Metaspace", decode_metaspace},
                                         {"Sequence", decode_sequence}};
    return lj_json_step_read(tokenizer, value, what_decoder, steps, COUNT(steps));
}

static lj_status decode_sequence(lj_tokenizer *tokenizer, const json_t *value)
{
    return lj_json_each(tokenizer, value, what_decoder, "decoders", decoder_read);
}

lj_status lj_json_decoder(lj_tokenizer *tokenizer, const json_t *value)
{
    if (value && !json_is_null(value)) return decoder_read(tokenizer, value);
    tokenizer->decode.join_by_space = true;
    return LJ_OK;
}
