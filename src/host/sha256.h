/* SHA-256 (FIPS 180-4): what RECORD files and image digests are written in. */
#ifndef LJ_HOST_SHA256_H
#define LJ_HOST_SHA256_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} lj_sha256;

void lj_sha256_begin(lj_sha256 *hash);
void lj_sha256_add(lj_sha256 *hash, const void *data, size_t bytes);
void lj_sha256_end(lj_sha256 *hash, uint8_t digest[32]);
/* 64 hexadecimal digits and the end. */
void lj_sha256_hex(const void *data, size_t bytes, char out[65]);
/* base64url without padding, as RECORD has it (43 characters). */
lj_status lj_sha256_file_base64(const char *path, char *out, size_t capacity);

#endif
