#include "text/gguf_pre.h"

#include <string.h>

/* Where a model's own expression says (?i:'s|...), these say ASCII letters of both cases, as the writers of GGUF files run it. */
#define SUFFIXES "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_AND(digits) SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
/* Letters without a-z, then letters without A-Z: how cases are told apart there. */
#define CASED(suffix, digits)                                                                                                    \
    "[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]*[^\\P{L}A-Z]+" suffix "|[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]+[^\\P{L}A-Z]*" suffix "|" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define SYMBOL_WORDS                                                                                                             \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define NOT_PUNCTUATION " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

static const lj_gguf_pre rows[] = {
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
    {"smollm|starcoder|refact|command-r|codeshell|exaone|minerva-7b|mellum2", {"\\p{N}", GPT2}, false, false},
    {"gpt-2|phi-2|jina-es|jina-de|gigachat|jina-v2-es|jina-v2-de|a.x-4.0|mellum|modern-bert|mpt|olmo|jais|trillion|granite-docling|exaone4",
     {GPT2},
     false,
     false},
    {"llama3|llama-v3|llama-bpe|falcon3|falcon-h1|pixtral|midm-2.0|lfm2|jina-v5-nano", {WORDS_AND("\\p{N}{1,3}")}, true, true},
    {"dbrx|smaug-bpe|glm4|chatglm-bpe", {WORDS_AND("\\p{N}{1,3}")}, false, false},
    {"qwen2|deepseek-r1-qwen|kormo|f2llmv2|stablelm2|hunyuan|solar-open|megrez|grok-2", {WORDS_AND("\\p{N}")}, false, false},
    {"qwen35",
     {SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES},
     false,
     false},
    {"minicpm5", {"\\p{N}{1,3}", WORDS_AND("\\p{N}+")}, true, false},
    {"laguna", {"[^\\n]+|[\\n]+", WORDS_AND("\\p{N}")}, false, false},
    {"ufakzeka", {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES}, false, false},
    {"seed-coder",
     {SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES},
     false,
     false},
    {"bailingmoe|bailingmoe2|llada-moe",
     {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|"
      "\\s+"},
     false,
     false},
    {"tekken", {CASED("", "\\p{N}")}, true, true},
    {"gpt-4o|llama4|kanana2|talkie|minimax-m2", {CASED(SUFFIXES "?", "\\p{N}{1,3}")}, false, false},
    {"deepseek-v3|hunyuan-dense|hy_v4|joyai-llm", {"\\p{N}{1,3}", CJK, SYMBOL_WORDS}, false, false},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}"}, false, false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false},
    {"poro-chat|bloom|gpt3-finnish", {NOT_PUNCTUATION}, false, false},
    {"viking", {NOT_PUNCTUATION, "\\p{N}"}, false, false},
};

enum { ROWS = sizeof rows / sizeof *rows, NAMES = 128, NAME_BYTES = 32 };

/* Copies the next of "a|b|c" at *at; false at the end. */
static bool next_name(const char **at, char name[NAME_BYTES])
{
    size_t length = strcspn(*at, "|");
    if (!length) return false;
    size_t kept = length < NAME_BYTES ? length : NAME_BYTES - 1;
    memcpy(name, *at, kept);
    name[kept] = 0;
    *at += length + ((*at)[length] == '|');
    return true;
}

lj_status lj_gguf_pre_find(const char *name, const lj_gguf_pre **out)
{
    char known[NAMES][NAME_BYTES];
    const char *names[NAMES];
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (const char *at = rows[i].names; count < NAMES && next_name(&at, known[count]); count++) {
            if (strcmp(known[count], name) == 0) return *out = &rows[i], LJ_OK;
            names[count] = known[count];
        }
    const char *near = lj_nearest_name(name, names, count);
    return lj_fail(LJ_ERR_UNSUPPORTED,
                   "tokenizer.ggml.pre = '%s' is not known (nearest: %s); use the model's tokenizer.json, which says how it cuts words", name,
                   near ? near : "none");
}
