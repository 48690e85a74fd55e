/* Whole files: mapped for reading, written atomically. */
#ifndef LJ_BASE_FILE_H
#define LJ_BASE_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Read-only view of a file. An empty file gives data = "" and bytes = 0. */
typedef struct {
    const uint8_t *data;
    size_t bytes;
    void *mapping; /* NULL: nothing to unmap */
} lj_mapped_file;

lj_status lj_mapped_file_init(lj_mapped_file *file, const char *path);
void lj_mapped_file_release(lj_mapped_file *file);

/* Writes path.tmp.PID, fsyncs, renames, fsyncs the folder: the file is complete or as it was. "-" is standard output. */
lj_status lj_file_write(const char *path, const void *data, size_t bytes);

/* The same piecewise: begin, write any number of times, then commit or abort. One thread. */
typedef struct {
    int fd;
    char *path, *temporary;
    uint64_t written;
} lj_file_writer;
lj_status lj_file_writer_begin(lj_file_writer *writer, const char *path);
lj_status lj_file_writer_write(lj_file_writer *writer, const void *data, size_t bytes);
/* At an offset of the file, any thread; does not move where _write goes on. */
lj_status lj_file_writer_write_at(lj_file_writer *writer, uint64_t offset, const void *data, size_t bytes);
lj_status lj_file_writer_commit(lj_file_writer *writer); /* releases the writer, also on failure */
void lj_file_writer_abort(lj_file_writer *writer);

/* Creates the folder and its parents, mode 0755 (or `mode` for the last). */
lj_status lj_folder_create(const char *path, unsigned mode);
/* $XDG_CACHE_HOME/ljperf or ~/.cache/ljperf; LJPERF_CACHE overrides. Written to buffer. */
lj_status lj_cache_folder(char *buffer, size_t capacity);

#endif
