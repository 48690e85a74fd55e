/* jsonl, gz and zst: the first byte chooses the kind; every document that comes out is looked at. */
#include "support.h"

#include "text/chat.h"
#include "text/documents.h"

static lj_status look(void *user, const lj_document *document)
{
    lj_chat_message *messages;
    size_t count, *sum = user;
    const lj_span spans[] = {document->text, document->prompt, document->completion};
    for (size_t s = 0; s < 3; s++)
        for (size_t i = 0; i < spans[s].bytes; i++) *sum += (uint8_t)spans[s].data[i];
    if (document->messages && lj_chat_messages(document->messages, &messages, &count) == LJ_OK) lj_free(messages);
    return *sum > (size_t)64 << 20 ? LJ_ERR_LIMIT : LJ_OK; /* a bomb is cut short */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const lj_document_file kinds[] = {{.path = "a.jsonl", .lines = true},
                                             {.path = "a.jsonl.gz", .lines = true, .compressed = true},
                                             {.path = "a.txt.zst", .compressed = true}};
    size_t sum = 0;
    if (bytes == 0) return 0;
    lj_document_file file = kinds[data[0] % 3];
    file.bytes = bytes - 1;
    fuzz_file_set(file.path, data + 1, bytes - 1);
    (void)lj_documents_read(&file, 0, 0, look, &sum);
    fuzz_files_clear();
    return 0;
}
