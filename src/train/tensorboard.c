#define _GNU_SOURCE
#include "train/tensorboard.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A message while it is put together: more than any scalar event needs. */
typedef struct {
    uint8_t data[512];
    size_t bytes;
} message;

/* CRC-32C (Castagnoli), bit by bit: a few dozen bytes a step. */
static uint32_t crc32c(const void *data, size_t bytes)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= ((const uint8_t *)data)[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = crc32c(data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_varint(message *m, uint64_t value)
{
    do {
        m->data[m->bytes++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
}

/* Field number and wire type: 0 varint, 1 eight bytes, 2 bytes with length, 5 four bytes. */
static void put_key(message *m, unsigned field, unsigned wire)
{
    put_varint(m, field << 3 | wire);
}

static void put_fixed(message *m, unsigned field, unsigned wire, const void *value, size_t bytes)
{
    put_key(m, field, wire);
    memcpy(m->data + m->bytes, value, bytes); /* little endian, as the machines are that this runs on */
    m->bytes += bytes;
}

static void put_bytes(message *m, unsigned field, const void *data, size_t bytes)
{
    put_key(m, field, 2);
    put_varint(m, bytes);
    memcpy(m->data + m->bytes, data, bytes);
    m->bytes += bytes;
}

static void event_begin(message *m)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    m->bytes = 0;
    put_fixed(m, 1, 1, &wall, sizeof wall);
}

static lj_status record_write(lj_tensorboard *board, const message *m)
{
    uint64_t length = m->bytes;
    uint32_t length_crc = masked_crc(&length, sizeof length), data_crc = masked_crc(m->data, m->bytes);
    bool fine = fwrite(&length, sizeof length, 1, board->file) == 1 && fwrite(&length_crc, 4, 1, board->file) == 1 &&
                fwrite(m->data, m->bytes, 1, board->file) == 1 && fwrite(&data_crc, 4, 1, board->file) == 1 && fflush(board->file) == 0;
    return fine ? LJ_OK : lj_fail_errno("write", board->path);
}

lj_status lj_tensorboard_open(lj_tensorboard *board, const char *out)
{
    char host[256] = "host";
    message m;
    static const char version[] = "brain.Event:2";
    (void)gethostname(host, sizeof host - 1);
    *board = (lj_tensorboard){0};
    if (asprintf(&board->path, "%s/events.out.tfevents.%lld.%s", out, (long long)time(NULL), host) < 0)
        return board->path = NULL, lj_fail(LJ_ERR_NOMEM, "name of the event file");
    board->file = fopen(board->path, "we");
    if (!board->file) return lj_fail_errno("create", board->path);
    event_begin(&m);
    put_bytes(&m, 3, version, sizeof version - 1);
    return record_write(board, &m);
}

lj_status lj_tensorboard_scalar(lj_tensorboard *board, const char *tag, int64_t step, double value)
{
    message one = {.bytes = 0}, summary = {.bytes = 0}, event;
    float number = (float)value;
    put_bytes(&one, 1, tag, strnlen(tag, 200));
    put_fixed(&one, 2, 5, &number, sizeof number);
    put_bytes(&summary, 1, one.data, one.bytes);
    event_begin(&event);
    put_key(&event, 2, 0);
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, 5, summary.data, summary.bytes);
    return record_write(board, &event);
}

void lj_tensorboard_close(lj_tensorboard *board)
{
    if (board->file) fclose(board->file);
    free(board->path);
    *board = (lj_tensorboard){0};
}
