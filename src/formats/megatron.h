/* Megatron-LM's indexed data sets: PREFIX.bin (token values) and PREFIX.idx (MMIDIDX version 1).
 *
 * The index: "MMIDIDX\0\0"; u64 version 1; u8 element code; u64 sequences; u64 document marks; i32 length of each sequence; i64 byte offset
 * of each in .bin; i64 document marks (0 .. sequences: where documents begin, and the end); i8 mode of each sequence, when there are any.
 * All little endian. */
#ifndef LJ_FORMATS_MEGATRON_H
#define LJ_FORMATS_MEGATRON_H

#include "base/file.h"
#include "base/memory.h"

/* Element codes of the file. */
typedef enum {
    LJ_MEGATRON_U8 = 1,
    LJ_MEGATRON_I8,
    LJ_MEGATRON_I16,
    LJ_MEGATRON_I32,
    LJ_MEGATRON_I64,
    LJ_MEGATRON_F64,
    LJ_MEGATRON_F32,
    LJ_MEGATRON_U16
} lj_megatron_type;

size_t lj_megatron_type_bytes(lj_megatron_type type); /* 0: no such code */
const char *lj_megatron_type_name(lj_megatron_type type);
/* What Megatron picks for a vocabulary: u16 under 65500 entries, else i32. */
lj_megatron_type lj_megatron_type_for(size_t vocabulary);

/* An open set; everything in it was checked. Read-only: any number of threads. */
typedef struct {
    lj_mapped_file bin, idx;
    lj_megatron_type type;
    uint64_t sequence_count, document_count, token_count;
    const uint8_t *lengths, *offsets, *documents, *modes; /* inside idx, unaligned; modes NULL: none */
    char *path; /* of the .idx, for messages */
} lj_megatron;

/* `prefix` with or without .bin or .idx. LJ_ERR_FORMAT: file, offset, expected and found. */
lj_status lj_megatron_open(const char *prefix, lj_megatron **out);
void lj_megatron_close(lj_megatron *set); /* NULL is allowed */

uint64_t lj_megatron_length(const lj_megatron *set, uint64_t sequence); /* tokens */
int lj_megatron_mode(const lj_megatron *set, uint64_t sequence);        /* 0 when there are none */
/* First sequence of a document; document == document_count gives the end. */
uint64_t lj_megatron_document(const lj_megatron *set, uint64_t document);
/* Tokens [first, first + count) of a sequence. LJ_ERR_FORMAT: a value that is no token id (negative, fractional, beyond 2^31). */
lj_status lj_megatron_read(const lj_megatron *set, uint64_t sequence, uint64_t first, uint64_t count, int32_t *out);

/* Writing: both files appear complete, the .bin first, or not at all. One thread. */
typedef struct lj_megatron_writer lj_megatron_writer;
lj_status lj_megatron_writer_begin(const char *prefix, lj_megatron_type type, bool with_modes, lj_megatron_writer **out);
/* One sequence; a token that the type cannot hold is LJ_ERR_INVALID with token and type. */
lj_status lj_megatron_writer_add(lj_megatron_writer *writer, const int32_t *tokens, size_t count, int mode);
/* The sequences since the last call are one document. */
lj_status lj_megatron_writer_end_document(lj_megatron_writer *writer);
/* Releases the writer, also on failure. A last document that was not ended is ended. */
lj_status lj_megatron_writer_commit(lj_megatron_writer *writer);
void lj_megatron_writer_abort(lj_megatron_writer *writer); /* NULL is allowed */

#endif
