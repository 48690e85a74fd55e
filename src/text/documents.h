/* Documents of the files people have: .txt .md .text (one document), .jsonl .ndjson (one a line: "text", or "messages", or "prompt" and
 * "completion"), the same with .gz or .zst behind, and folders of them. */
#ifndef LJ_TEXT_DOCUMENTS_H
#define LJ_TEXT_DOCUMENTS_H

#include "base/memory.h"
#include "base/utf8.h"

#include <jansson.h>

typedef enum { LJ_DOCUMENT_TEXT, LJ_DOCUMENT_PAIR, LJ_DOCUMENT_CHAT } lj_document_kind;

/* Valid only during the call it is handed to. */
typedef struct {
    lj_document_kind kind;
    lj_span text;               /* of a text */
    lj_span prompt, completion; /* of a pair */
    const json_t *messages;     /* of a chat: an array */
    const json_t *record;       /* the line's object, NULL: a whole file */
    uint64_t line;              /* 1 .. in its file; 0: a whole file */
} lj_document;

typedef lj_status (*lj_document_fn)(void *user, const lj_document *document);

typedef struct {
    const char *path;
    uint64_t bytes;    /* on disk */
    bool lines;        /* jsonl */
    bool compressed;   /* must be read from its beginning */
} lj_document_file;

/* The files behind `paths`: each itself, folders by what is in them (any depth, by name, hidden ones and links to folders left out).
 * LJ_ERR_UNSUPPORTED: a file named by the caller whose kind is not known (in folders such files are passed over and counted in *passed).
 * LJ_ERR_NOT_FOUND: nothing at all. Entries live in the arena. */
lj_status lj_document_files(const char *const *paths, size_t count, lj_arena *arena, lj_document_file **out, size_t *out_count, size_t *passed);

/* Hands each document of the file to fn, in order. Of an uncompressed jsonl only the lines that begin in bytes [from, to) (to 0: all; then
 * lines are counted from the first). LJ_ERR_FORMAT names file and line; fn's failure ends the reading and is passed on with both. */
lj_status lj_documents_read(const lj_document_file *file, uint64_t from, uint64_t to, lj_document_fn fn, void *user);

#endif
