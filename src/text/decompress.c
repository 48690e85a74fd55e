#include "text/decompress.h"

#include "base/file.h"
#include "base/memory.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { BLOCK = 1 << 18 };

static lj_status gz_failed(const char *path, const z_stream *z, int code, size_t at)
{
    return lj_fail(LJ_ERR_FORMAT, "%s: damaged gzip data near byte %zu: %s", path, at, z->msg ? z->msg : code == Z_BUF_ERROR ? "cut short" : "unknown");
}

/* Members follow each other; what follows the last one must be nothing, or zero padding. */
static lj_status gz_member(z_stream *z, const char *path, const lj_mapped_file *map, size_t *at, char *block, lj_bytes_fn fn, void *user)
{
    int code = Z_OK;
    while (code != Z_STREAM_END) {
        size_t left = map->bytes - *at;
        z->next_in = (Bytef *)(map->data + *at);
        z->avail_in = (uInt)(left < BLOCK ? left : BLOCK);
        z->next_out = (Bytef *)block, z->avail_out = BLOCK;
        uInt given = z->avail_in;
        code = inflate(z, Z_NO_FLUSH);
        *at += given - z->avail_in;
        size_t made = BLOCK - z->avail_out;
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return gz_failed(path, z, code, *at);
        if (code == Z_BUF_ERROR && made == 0 && *at == map->bytes) return gz_failed(path, z, code, *at);
        if (made) LJ_TRY(fn(user, block, made));
        if (code == Z_OK && made == 0 && *at == map->bytes) return gz_failed(path, z, Z_BUF_ERROR, *at);
    }
    return LJ_OK;
}

static bool only_zeros(const lj_mapped_file *map, size_t at)
{
    while (at < map->bytes && map->data[at] == 0) at++;
    return at == map->bytes;
}

static lj_status gz_read(const char *path, const lj_mapped_file *map, char *block, lj_bytes_fn fn, void *user)
{
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK) return lj_fail(LJ_ERR_NOMEM, "%s: gzip working memory", path);
    lj_status status = LJ_OK;
    for (size_t at = 0; status == LJ_OK && !only_zeros(map, at);) {
        status = gz_member(&z, path, map, &at, block, fn, user);
        if (status == LJ_OK && inflateReset(&z) != Z_OK) status = gz_failed(path, &z, Z_DATA_ERROR, at);
    }
    inflateEnd(&z);
    return status;
}

static lj_status zst_read(const char *path, const lj_mapped_file *map, char *block, lj_bytes_fn fn, void *user)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!context) return lj_fail(LJ_ERR_NOMEM, "%s: zstd working memory", path);
    ZSTD_inBuffer in = {map->data, map->bytes, 0};
    lj_status status = LJ_OK;
    size_t open = 0; /* bytes that the present frame still expects; 0 between frames */
    for (bool more = true; status == LJ_OK && more;) {
        ZSTD_outBuffer out = {block, BLOCK, 0};
        size_t before = in.pos;
        open = ZSTD_decompressStream(context, &out, &in);
        if (ZSTD_isError(open))
            status = lj_fail(LJ_ERR_FORMAT, "%s: damaged zstd data near byte %zu: %s", path, in.pos, ZSTD_getErrorName(open));
        else if (out.pos)
            status = fn(user, block, out.pos);
        more = in.pos < in.size || out.pos == BLOCK || in.pos > before;
        if (in.pos == in.size && out.pos < BLOCK) more = false;
    }
    if (status == LJ_OK && open != 0) status = lj_fail(LJ_ERR_FORMAT, "%s: zstd data is cut short at byte %zu", path, in.size);
    ZSTD_freeDCtx(context);
    return status;
}

lj_status lj_decompress(const char *path, lj_bytes_fn fn, void *user)
{
    static const unsigned char gz[2] = {0x1f, 0x8b}, zst[4] = {0x28, 0xb5, 0x2f, 0xfd};
    lj_mapped_file map;
    void *block;
    LJ_TRY(lj_mapped_file_init(&map, path));
    lj_status status = lj_alloc("text.decompress", BLOCK, &block);
    if (status == LJ_OK) {
        if (map.bytes >= 2 && memcmp(map.data, gz, 2) == 0)
            status = gz_read(path, &map, block, fn, user);
        else if (map.bytes >= 4 && (memcmp(map.data, zst, 4) == 0 || (map.data[0] & 0xf0) == 0x50))
            status = zst_read(path, &map, block, fn, user);
        else
            status = lj_fail(LJ_ERR_FORMAT, "%s: begins neither as gzip (1f 8b) nor as zstd (28 b5 2f fd)", path);
        lj_free(block);
    }
    lj_mapped_file_release(&map);
    return status;
}
