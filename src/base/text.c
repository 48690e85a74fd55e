#include "base/text.h"

#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lj_text_init(lj_text *text)
{
    *text = (lj_text){0};
}

void lj_text_release(lj_text *text)
{
    lj_free(text->data);
    *text = (lj_text){0};
}

static bool reserve(lj_text *text, size_t more)
{
    if (text->failed) return false;
    size_t need = text->length + more + 1;
    if (need <= text->capacity) return true;
    size_t capacity = need * 2 < 256 ? 256 : need * 2;
    void *grown;
    if (lj_alloc("text", capacity, &grown) != LJ_OK) return !(text->failed = true);
    if (text->length) memcpy(grown, text->data, text->length);
    ((char *)grown)[text->length] = 0;
    lj_free(text->data);
    text->data = grown, text->capacity = capacity;
    return true;
}

void lj_text_add(lj_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void lj_text_add_bytes(lj_text *text, const void *bytes, size_t count)
{
    if (!reserve(text, count)) return;
    if (count) memcpy(text->data + text->length, bytes, count);
    text->length += count;
    text->data[text->length] = 0;
}

lj_status lj_text_status(const lj_text *text)
{
    return text->failed ? lj_fail(LJ_ERR_NOMEM, "text: could not grow past %zu bytes", text->capacity) : LJ_OK;
}

typedef struct {
    const char *name;
    double factor;
} size_unit;

static const size_unit size_units[] = {
    {"", 1},         {"B", 1},          {"K", 1e3},         {"KB", 1e3},        {"M", 1e6},
    {"MB", 1e6},     {"G", 1e9},        {"GB", 1e9},        {"T", 1e12},        {"TB", 1e12},
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},   {"TiB", 1099511627776.0},
};

lj_status lj_size_parse(const char *text, uint64_t *bytes)
{
    char *end;
    double value = strtod(text, &end);
    while (*end == ' ') end++;
    if (end == text || !(value >= 0)) return lj_fail(LJ_ERR_INVALID, "'%s' is not a size; write 2.6GiB, 800M or bytes", text);
    for (size_t i = 0; i < sizeof size_units / sizeof *size_units; i++) {
        if (strcmp(end, size_units[i].name) != 0) continue;
        double total = value * size_units[i].factor;
        if (total >= 9e18) break;
        *bytes = (uint64_t)llround(total);
        return LJ_OK;
    }
    return lj_fail(LJ_ERR_INVALID, "'%s' is not a size; write 2.6GiB, 800M or bytes", text);
}

const char *lj_size_format(double bytes, char *buffer, size_t capacity)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit < 4) bytes /= 1024, unit++;
    snprintf(buffer, capacity, unit ? "%.2f %s" : "%.0f %s", bytes, names[unit]);
    return buffer;
}

const char *lj_si_format(double value, char *buffer, size_t capacity)
{
    static const char *const names[] = {"", "k", "M", "G", "T", "P"};
    size_t unit = 0;
    while (fabs(value) >= 1000 && unit < 5) value /= 1000, unit++;
    snprintf(buffer, capacity, "%.4g %s", value, names[unit]);
    return buffer;
}
