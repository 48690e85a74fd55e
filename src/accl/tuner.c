#define _GNU_SOURCE
#include "accl/tuner.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELDS = 10, FIELDS_NEEDED = 4 };

void accl_tuner_release(accl_tuner *tuner)
{
    free(tuner->rows);
    *tuner = (accl_tuner){0};
}

static size_t split(char *line, char **fields)
{
    size_t count = 0;
    for (char *at = line; at && count < FIELDS;) {
        char *field = strsep(&at, ",");
        while (*field == ' ' || *field == '\t') field++;
        for (char *end = field + strlen(field); end > field && strchr(" \t\r", end[-1]); end--) end[-1] = '\0';
        fields[count++] = field;
    }
    return count;
}

static bool number(const char *text, long long *value)
{
    char *end;
    *value = strtoll(text, &end, 10);
    return *text && !*end && *value >= -1;
}

static int kind_find(const char *name)
{
    static const char *const names[] = {[ACCL_ALL_REDUCE] = "allreduce", [ACCL_ALL_GATHER] = "allgather", [ACCL_REDUCE_SCATTER] = "reducescatter", [ACCL_BROADCAST] = "broadcast", [ACCL_REDUCE] = "reduce"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0) return (int)i;
    return -1;
}

static lj_status row_parse(const char *name, size_t line_number, char *line, accl_tuner_row *row)
{
    char *fields[FIELDS];
    long long low, high, ranks = -1;
    size_t count = split(line, fields);
    if (count < FIELDS_NEEDED) return lj_fail(LJ_ERR_FORMAT, "%s:%zu: %zu fields, at least %d needed (collective,min_bytes,max_bytes,algorithm,...)", name, line_number, count, FIELDS_NEEDED);
    row->kind = kind_find(fields[0]);
    if (row->kind < 0) return lj_fail(LJ_ERR_FORMAT, "%s:%zu: no collective '%s'", name, line_number, fields[0]);
    if (!number(fields[1], &low) || !number(fields[2], &high)) return lj_fail(LJ_ERR_FORMAT, "%s:%zu: '%s' .. '%s' is not a range of bytes", name, line_number, fields[1], fields[2]);
    if (count > 7 && !number(fields[7], &ranks)) return lj_fail(LJ_ERR_FORMAT, "%s:%zu: '%s' is not a number of ranks", name, line_number, fields[7]);
    row->low = low < 0 ? 0 : (uint64_t)low;
    row->high = high < 0 ? UINT64_MAX : (uint64_t)high;
    row->ranks = (long)ranks;
    snprintf(row->algorithm, sizeof row->algorithm, "%s", fields[3]);
    return LJ_OK;
}

static lj_status tuner_add(accl_tuner *tuner, const accl_tuner_row *row)
{
    accl_tuner_row *grown = realloc(tuner->rows, (tuner->count + 1) * sizeof *grown);
    if (!grown) return lj_fail(LJ_ERR_NOMEM, "tuner file: %zu lines", tuner->count + 1);
    grown[tuner->count++] = *row;
    tuner->rows = grown;
    return LJ_OK;
}

lj_status accl_tuner_parse(accl_tuner *tuner, const char *name, const char *text)
{
    char *copy = strdup(text), *at = copy;
    lj_status status = copy ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "%s: %zu bytes", name, strlen(text));
    for (size_t line_number = 1; at && status == LJ_OK; line_number++) {
        char *line = strsep(&at, "\n");
        accl_tuner_row row = {0};
        line += strspn(line, " \t\r");
        /* the example's header line names the columns */
        if (!*line || *line == '#' || strncasecmp(line, "colltype", 8) == 0) continue;
        status = row_parse(name, line_number, line, &row);
        if (status == LJ_OK) status = tuner_add(tuner, &row);
    }
    free(copy);
    if (status != LJ_OK) accl_tuner_release(tuner);
    return status;
}

lj_status accl_tuner_read(accl_tuner *tuner)
{
    const char *path = getenv("NCCL_TUNER_CONFIG_FILE");
    lj_mapped_file file;
    if (!path || !*path) return LJ_OK;
    LJ_TRY(lj_mapped_file_init(&file, path));
    char *text = strndup((const char *)file.data, file.bytes);
    lj_mapped_file_release(&file);
    if (!text) return lj_fail(LJ_ERR_NOMEM, "%s: %zu bytes", path, file.bytes);
    lj_status status = accl_tuner_parse(tuner, path, text);
    free(text);
    return status;
}

const char *accl_tuner_find(const accl_tuner *tuner, accl_kind kind, size_t bytes, uint32_t ranks)
{
    for (size_t i = 0; i < tuner->count; i++) {
        const accl_tuner_row *row = &tuner->rows[i];
        if (row->kind == (int)kind && bytes >= row->low && bytes <= row->high && (row->ranks < 0 || row->ranks == (long)ranks)) return row->algorithm;
    }
    return NULL;
}
