/* Normaliser and pre-tokenizer of a tokenizer.json: a table of the types, a function a row. */
#include "text/base64.h"
#include "text/tokenizer_json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char what_norm[] = "normalizer", what_pre[] = "pre_tokenizer";

/* Expression of {"Regex": e} or, with its signs escaped, of {"String": s}. */
static lj_status pattern_read(const json_t *value, const char *what, lj_text *out)
{
    const json_t *pattern = json_object_get(value, "pattern"), *regex = json_object_get(pattern, "Regex"),
                 *plain = json_is_string(pattern) ? pattern : json_object_get(pattern, "String");
    if (json_is_string(regex)) {
        lj_text_add_bytes(out, json_string_value(regex), json_string_length(regex));
    } else if (json_is_string(plain)) {
        for (const char *c = json_string_value(plain), *end = c + json_string_length(plain); c < end; c++)
            if ((unsigned char)*c >= 128 || isalnum((unsigned char)*c))
                lj_text_add_bytes(out, c, 1);
            else
                lj_text_add(out, "\\x{%02x}", (unsigned)*c);
    } else {
        return lj_fail(LJ_ERR_FORMAT, "%s: 'pattern' must be {\"Regex\": ...} or {\"String\": ...}", what);
    }
    LJ_TRY(lj_text_status(out));
    return out->length ? LJ_OK : lj_fail(LJ_ERR_FORMAT, "%s: 'pattern' is empty", what);
}

static lj_status add_form(lj_tokenizer *tokenizer, lj_norm_kind kind)
{
    return lj_normalizer_add(&tokenizer->normalizer, (lj_norm_step){.kind = kind});
}

static lj_status norm_nfc(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_form(tokenizer, LJ_NORM_NFC);
}

static lj_status norm_nfd(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_form(tokenizer, LJ_NORM_NFD);
}

static lj_status norm_nfkc(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_form(tokenizer, LJ_NORM_NFKC);
}

static lj_status norm_nfkd(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_form(tokenizer, LJ_NORM_NFKD);
}

static lj_status norm_lowercase(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_form(tokenizer, LJ_NORM_LOWERCASE);
}

static lj_status norm_strip_accents(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_form(tokenizer, LJ_NORM_STRIP_ACCENTS);
}

static lj_status norm_prepend(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_span with;
    LJ_TRY(lj_json_copy_string(tokenizer, value, what_norm, "prepend", &with));
    return lj_normalizer_add(&tokenizer->normalizer, (lj_norm_step){.kind = LJ_NORM_PREPEND, .with = with.data, .with_bytes = with.bytes});
}

static lj_status norm_replace(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_span with, what = {0};
    lj_pattern *pattern = NULL;
    LJ_TRY(lj_json_copy_string(tokenizer, value, what_norm, "content", &with));
    const json_t *given = json_object_get(value, "pattern");
    if (json_is_string(json_object_get(given, "String"))) {
        LJ_TRY(lj_json_copy_string(tokenizer, given, what_norm, "String", &what));
        if (!what.bytes) return lj_fail(LJ_ERR_FORMAT, "%s: Replace of an empty string", what_norm);
    } else {
        lj_text expression;
        lj_text_init(&expression);
        lj_status status = pattern_read(value, what_norm, &expression);
        if (status == LJ_OK) status = lj_pattern_create(expression.data, expression.length, LJ_PATTERN_HUGGING_FACE, &pattern);
        lj_text_release(&expression);
        LJ_TRY(status);
    }
    return lj_normalizer_add(&tokenizer->normalizer, (lj_norm_step){.kind = LJ_NORM_REPLACE,
                                                                    .what = what.data,
                                                                    .what_bytes = what.bytes,
                                                                    .with = with.data,
                                                                    .with_bytes = with.bytes,
                                                                    .pattern = pattern});
}

static lj_status norm_strip(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_norm_step step = {.kind = LJ_NORM_STRIP, .left = true, .right = true};
    LJ_TRY(lj_json_get_bool(value, what_norm, "strip_left", &step.left));
    LJ_TRY(lj_json_get_bool(value, what_norm, "strip_right", &step.right));
    return lj_normalizer_add(&tokenizer->normalizer, step);
}

static lj_status norm_charsmap(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_span coded;
    size_t bytes;
    LJ_TRY(lj_json_copy_string(tokenizer, value, what_norm, "precompiled_charsmap", &coded));
    char *data = lj_arena_alloc(&tokenizer->arena, coded.bytes + 4);
    if (!data) return LJ_ERR_NOMEM;
    if (!lj_base64_decode(coded, data, &bytes)) return lj_fail(LJ_ERR_FORMAT, "%s: precompiled_charsmap is not base64", what_norm);
    lj_norm_step step = {.kind = LJ_NORM_CHARSMAP};
    LJ_TRY(lj_charsmap_init(&step.charsmap, data, bytes));
    return lj_normalizer_add(&tokenizer->normalizer, step);
}

static lj_status norm_sequence(lj_tokenizer *tokenizer, const json_t *value)
{
    return lj_json_each(tokenizer, value, what_norm, "normalizers", lj_json_normalizer);
}

lj_status lj_json_normalizer(lj_tokenizer *tokenizer, const json_t *value)
{
    static const lj_json_step steps[] = {{"NFC", norm_nfc},
                                         {"NFD", norm_nfd},
                                         {"NFKC", norm_nfkc},
                                         {"NFKD", norm_nfkd},
                                         {"Lowercase", norm_lowercase},
                                         {"StripAccents", norm_strip_accents},
                                         {"Prepend", norm_prepend},
                                         {"Replace", norm_replace},
                                         {"Strip", norm_strip},
                                         {"Precompiled", norm_charsmap},
                                         {"Sequence", norm_sequence}};
    if (!value || json_is_null(value)) return LJ_OK;
    return lj_json_step_read(tokenizer, value, what_norm, steps, COUNT(steps));
}

static lj_status add_split(lj_tokenizer *tokenizer, const char *expression, lj_split_behavior behavior, bool invert)
{
    return lj_pretokenizer_add_split(&tokenizer->pretokenizer, expression, strlen(expression), LJ_PATTERN_HUGGING_FACE, behavior, invert);
}

static lj_status behavior_read(const json_t *value, lj_split_behavior *behavior)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = NULL;
    LJ_TRY(lj_json_get_string(value, what_pre, "behavior", &name));
    for (size_t i = 0; name && i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return *behavior = (lj_split_behavior)i, LJ_OK;
    return name ? lj_fail(LJ_ERR_UNSUPPORTED, "%s: behavior '%s' is not known", what_pre, name) : LJ_OK;
}

static lj_status pre_split(lj_tokenizer *tokenizer, const json_t *value)
{
    bool invert = false;
    lj_split_behavior behavior = LJ_SPLIT_ISOLATED;
    lj_text expression;
    LJ_TRY(behavior_read(value, &behavior));
    LJ_TRY(lj_json_get_bool(value, what_pre, "invert", &invert));
    lj_text_init(&expression);
    lj_status status = pattern_read(value, what_pre, &expression);
    if (status == LJ_OK)
        status = lj_pretokenizer_add_split(&tokenizer->pretokenizer, expression.data, expression.length, LJ_PATTERN_HUGGING_FACE, behavior, invert);
    lj_text_release(&expression);
    return status;
}

/* The bytes become stand-ins only when another step looks at them; else words reach the merges as bytes. */
static lj_status pre_byte_level(lj_tokenizer *tokenizer, const json_t *value)
{
    bool prefix = true, expression = true;
    LJ_TRY(lj_json_get_bool(value, what_pre, "add_prefix_space", &prefix));
    LJ_TRY(lj_json_get_bool(value, what_pre, "use_regex", &expression));
    if (tokenizer->bpe.byte_level) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: ByteLevel twice", what_pre);
    tokenizer->bpe.byte_level = true;
    if (prefix) LJ_TRY(lj_pretokenizer_add(&tokenizer->pretokenizer, (lj_pretokenize_step){.kind = LJ_STEP_PREFIX_SPACE}));
    if (!expression) return LJ_OK;
    return add_split(tokenizer, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", LJ_SPLIT_ISOLATED, false);
}

static lj_status pre_digits(lj_tokenizer *tokenizer, const json_t *value)
{
    bool individual = false;
    LJ_TRY(lj_json_get_bool(value, what_pre, "individual_digits", &individual));
    return add_split(tokenizer, "\\p{N}", individual ? LJ_SPLIT_ISOLATED : LJ_SPLIT_CONTIGUOUS, false);
}

/* The Punctuation step knows an older Unicode than the expressions do: these are none to it, and two that have left the category are. */
#define LATER_PUNCTUATION                                                                                                        \
    "[\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b4e}-\\x{1b4f}\\x{1b7d}-\\x{1b7f}\\x{2e43}-\\x{2e4f}\\x{2e52}-\\x{2e5d}\\x{10d6e}\\x{10ead}"       \
    "\\x{10f55}-\\x{10f59}\\x{10f86}-\\x{10f89}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}\\x{1144b}-\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}"       \
    "\\x{11660}-\\x{1166c}\\x{116b9}\\x{1183b}\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11a46}\\x{11a9a}-\\x{11a9c}\\x{11a9e}-\\x{11aa2}"     \
    "\\x{11b00}-\\x{11b09}\\x{11be1}\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}\\x{11f43}-\\x{11f4f}\\x{11fff}"              \
    "\\x{12ff1}-\\x{12ff2}\\x{16d6d}-\\x{16d6f}\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e5ff}\\x{1e95e}-\\x{1e95f}]"
/* What the Whitespace step calls a word character: joiners too, but no Latin-1 fractions. */
#define RUST_WORD "\\p{Alphabetic}\\p{L}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"

static lj_status pre_punctuation(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_split_behavior behavior = LJ_SPLIT_ISOLATED;
    LJ_TRY(behavior_read(value, &behavior));
    return add_split(tokenizer, "(?!" LATER_PUNCTUATION ")[\\p{P}$+<=>\\^`|~]|[\\x{166d}\\x{111c9}]", behavior, false);
}

static lj_status pre_whitespace(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_split(tokenizer, "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+", LJ_SPLIT_REMOVED, true);
}

static lj_status pre_whitespace_split(lj_tokenizer *tokenizer, const json_t *value)
{
    (void)value;
    return add_split(tokenizer, "\\s", LJ_SPLIT_REMOVED, false);
}

static lj_status pre_delimiter(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_span text;
    char expression[16];
    uint32_t code;
    LJ_TRY(lj_json_copy_string(tokenizer, value, what_pre, "delimiter", &text));
    if (!text.bytes || lj_utf8_decode(text.data, text.bytes, &code) != text.bytes)
        return lj_fail(LJ_ERR_FORMAT, "%s: 'delimiter' must be one character", what_pre);
    snprintf(expression, sizeof expression, "\\x{%x}", code);
    return add_split(tokenizer, expression, LJ_SPLIT_REMOVED, false);
}

/* "prepend_scheme", or the older "add_prefix_space". */
static lj_status scheme_read(const json_t *value, lj_mark_scheme *scheme)
{
    static const char *const names[] = {"always", "first", "never"};
    const char *name = NULL;
    bool prefix = true;
    LJ_TRY(lj_json_get_bool(value, what_pre, "add_prefix_space", &prefix));
    *scheme = prefix ? LJ_MARK_ALWAYS : LJ_MARK_NEVER;
    LJ_TRY(lj_json_get_string(value, what_pre, "prepend_scheme", &name));
    for (size_t i = 0; name && i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return *scheme = (lj_mark_scheme)i, LJ_OK;
    return name ? lj_fail(LJ_ERR_UNSUPPORTED, "%s: prepend_scheme '%s' is not known", what_pre, name) : LJ_OK;
}

static lj_status pre_metaspace(lj_tokenizer *tokenizer, const json_t *value)
{
    lj_span mark = {"\xe2\x96\x81", 3};
    lj_pretokenize_step step = {.kind = LJ_STEP_MARK, .cut = true};
    uint32_t code;
    if (lj_json_has(value, "replacement")) LJ_TRY(lj_json_copy_string(tokenizer, value, what_pre, "replacement", &mark));
    if (!mark.bytes || lj_utf8_decode(mark.data, mark.bytes, &code) != mark.bytes)
        return lj_fail(LJ_ERR_FORMAT, "%s: 'replacement' must be one character", what_pre);
    memcpy(step.mark, mark.data, mark.bytes);
    step.mark_bytes = mark.bytes;
    LJ_TRY(scheme_read(value, &step.scheme));
    LJ_TRY(lj_json_get_bool(value, what_pre, "split", &step.cut));
    return lj_pretokenizer_add(&tokenizer->pretokenizer, step);
}

/* A step after ByteLevel sees stand-ins. */
static lj_status pre_next(lj_tokenizer *tokenizer, const json_t *value)
{
    if (tokenizer->bpe.byte_level && !tokenizer->unmap) {
        tokenizer->unmap = true;
        LJ_TRY(lj_pretokenizer_add(&tokenizer->pretokenizer, (lj_pretokenize_step){.kind = LJ_STEP_BYTE_CHARS}));
    }
    return lj_json_pretokenizer(tokenizer, value);
}

static lj_status pre_sequence(lj_tokenizer *tokenizer, const json_t *value)
{
    return lj_json_each(tokenizer, value, what_pre, "pretokenizers", pre_next);
}

lj_status lj_json_pretokenizer(lj_tokenizer *tokenizer, const json_t *value)
{
    static const lj_json_step steps[] = {{"ByteLevel", pre_byte_level},
                                         {"Split", pre_split},
                                         {"Digits", pre_digits},
                                         {"Punctuation", pre_punctuation},
                                         {"Whitespace", pre_whitespace},
                                         {"WhitespaceSplit", pre_whitespace_split},
                                         {"CharDelimiterSplit", pre_delimiter},
                                         {"Metaspace", pre_metaspace},
                                         {"Sequence", pre_sequence}};
    if (!value || json_is_null(value)) return LJ_OK;
    return lj_json_step_read(tokenizer, value, what_pre, steps, COUNT(steps));
}
