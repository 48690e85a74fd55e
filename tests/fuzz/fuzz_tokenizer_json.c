/* tokenizer.json: read it; what reads encodes, decodes and streams a short text, and its exact kinds give it back. */
#include "support.h"

#include "base/memory.h"
#include "text/tokenizer.h"

static const char sample[] = "Hi  it's 12 \xc3\xa9\xe4\xbd\xa0 <s> \xff\xe6\xad\n";

static void use(const lj_tokenizer *tokenizer)
{
    lj_ids ids = {0};
    lj_text text;
    lj_decode_stream stream;
    lj_text_init(&text);
    if (lj_tokenizer_encode(tokenizer, sample, sizeof sample - 1, (lj_encode_options){true, true}, &ids) == LJ_OK) {
        for (size_t i = 0; i < ids.count; i++) fuzz_expect(lj_tokenizer_token(tokenizer, ids.data[i]).data != NULL, "an id has a string");
        lj_decode_stream_init(&stream, tokenizer, false);
        for (size_t i = 0; i < ids.count; i++) (void)lj_decode_stream_add(&stream, ids.data[i], &text);
        (void)lj_decode_stream_end(&stream, &text);
        fuzz_expect(lj_utf8_valid_prefix(text.data ? text.data : "", text.length) == text.length, "a stream is valid UTF-8");
    }
    lj_text_release(&text);
    lj_ids_release(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lj_tokenizer *tokenizer;
    if (lj_tokenizer_create_json("fuzz.json", (const char *)data, bytes, &tokenizer) == LJ_OK) {
        use(tokenizer);
        lj_tokenizer_destroy(tokenizer);
    }
    return 0;
}
