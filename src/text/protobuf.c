#include "text/protobuf.h"

#include <string.h>

lj_proto lj_proto_begin(lj_span message)
{
    return (lj_proto){.message = message};
}

static bool fail(lj_proto *proto, const char *fault)
{
    proto->fault = fault;
    return false;
}

static bool varint(lj_proto *proto, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (proto->at == proto->message.bytes) return fail(proto, "a number runs past the end");
        unsigned char byte = (unsigned char)proto->message.data[proto->at++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return fail(proto, "a number has more than ten bytes");
}

static bool fixed(lj_proto *proto, size_t bytes, uint64_t *value)
{
    if (proto->message.bytes - proto->at < bytes) return fail(proto, "a fixed number runs past the end");
    *value = 0;
    for (size_t i = 0; i < bytes; i++) *value |= (uint64_t)(unsigned char)proto->message.data[proto->at + i] << (8 * i);
    proto->at += bytes;
    return true;
}

bool lj_proto_next(lj_proto *proto, lj_proto_field *field)
{
    uint64_t key, length;
    if (proto->fault || proto->at == proto->message.bytes || !varint(proto, &key)) return false;
    *field = (lj_proto_field){.number = (uint32_t)(key >> 3), .kind = (lj_proto_kind)(key & 7)};
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) return fail(proto, "a field number out of range");
    switch (field->kind) {
    case LJ_PROTO_VARINT: return varint(proto, &field->value);
    case LJ_PROTO_FIXED64: return fixed(proto, 8, &field->value);
    case LJ_PROTO_FIXED32: return fixed(proto, 4, &field->value);
    case LJ_PROTO_BYTES: break;
    default: return fail(proto, "an unknown kind of field");
    }
    if (!varint(proto, &length)) return false;
    if (length > proto->message.bytes - proto->at) return fail(proto, "a string runs past the end");
    field->bytes = (lj_span){proto->message.data + proto->at, (size_t)length};
    proto->at += (size_t)length;
    return true;
}

lj_status lj_proto_status(const lj_proto *proto)
{
    if (!proto->fault) return LJ_OK;
    return lj_fail(LJ_ERR_FORMAT, "offset %zu of %zu bytes: %s", proto->at, proto->message.bytes, proto->fault);
}

float lj_proto_float(const lj_proto_field *field)
{
    uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
