/* Walking over a protocol buffer's fields, one message at a time. */
#ifndef LJ_TEXT_PROTOBUF_H
#define LJ_TEXT_PROTOBUF_H

#include "base/status.h"
#include "base/utf8.h"

typedef enum { LJ_PROTO_VARINT = 0, LJ_PROTO_FIXED64 = 1, LJ_PROTO_BYTES = 2, LJ_PROTO_FIXED32 = 5 } lj_proto_kind;

typedef struct {
    uint32_t number;
    lj_proto_kind kind;
    uint64_t value; /* of numbers */
    lj_span bytes;  /* of LJ_PROTO_BYTES: inside the message */
} lj_proto_field;

typedef struct {
    lj_span message;
    size_t at;
    const char *fault; /* NULL: none so far */
} lj_proto;

lj_proto lj_proto_begin(lj_span message);
/* False at the end and at the first fault; lj_proto_status tells which. */
bool lj_proto_next(lj_proto *proto, lj_proto_field *field);
/* LJ_ERR_FORMAT: offset inside the message and what is wrong there. */
lj_status lj_proto_status(const lj_proto *proto);
float lj_proto_float(const lj_proto_field *field);

#endif
