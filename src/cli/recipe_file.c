#include "cli/recipe_file.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

typedef struct {
    const char *path;
    const lj_config_key *keys;
    size_t key_count;
    lj_config *config;
} recipe_file;

static bool listed(const recipe_file *r, lj_config_key key)
{
    for (size_t i = 0; i < r->key_count; i++)
        if (r->keys[i] == key) return true;
    return false;
}

static lj_status setting_put(const recipe_file *r, const char *name, const char *value, size_t line)
{
    lj_config_key key;
    LJ_TRY(lj_fail_in(lj_config_find(name, &key), "%s: line %zu", r->path, line));
    if (!listed(r, key)) return lj_fail(LJ_ERR_INVALID, "%s: line %zu: '%s' is no setting of this command", r->path, line, name);
    if (key == LJ_CFG_config) return lj_fail(LJ_ERR_INVALID, "%s: line %zu: a recipe cannot name another recipe", r->path, line);
    return lj_fail_in(lj_config_set(r->config, key, value, LJ_FROM_FILE), "%s: line %zu", r->path, line);
}

static lj_status parser_failed(const recipe_file *r, const yaml_parser_t *parser)
{
    return lj_fail(LJ_ERR_FORMAT, "%s: line %zu: %s", r->path, parser->problem_mark.line + 1, parser->problem ? parser->problem : "not YAML");
}

static const char *event_text(const yaml_event_t *event)
{
    return (const char *)event->data.scalar.value;
}

/* One event of the mapping: a name, then its value. `name` is "" between settings. */
static lj_status event_take(const recipe_file *r, const yaml_event_t *event, int *depth, char *name, size_t capacity)
{
    size_t line = event->start_mark.line + 1;
    switch (event->type) {
    case YAML_MAPPING_START_EVENT:
        if (++*depth > 1) return lj_fail(LJ_ERR_FORMAT, "%s: line %zu: '%s' holds a mapping; settings stand side by side", r->path, line, name);
        return LJ_OK;
    case YAML_MAPPING_END_EVENT: --*depth; return LJ_OK;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_ALIAS_EVENT: return lj_fail(LJ_ERR_FORMAT, "%s: line %zu: a list or an alias; settings are single values", r->path, line);
    case YAML_SCALAR_EVENT: break;
    default: return LJ_OK;
    }
    if (*depth != 1) return lj_fail(LJ_ERR_FORMAT, "%s: line %zu: the file must be one mapping of settings", r->path, line);
    if (!*name) {
        snprintf(name, capacity, "%s", event_text(event));
        return *name ? LJ_OK : lj_fail(LJ_ERR_FORMAT, "%s: line %zu: a setting without a name", r->path, line);
    }
    LJ_TRY(setting_put(r, name, event_text(event), line));
    *name = 0;
    return LJ_OK;
}

static lj_status events_read(const recipe_file *r, yaml_parser_t *parser)
{
    char name[96] = "";
    int depth = 0;
    for (bool end = false; !end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) return parser_failed(r, parser);
        lj_status status = event_take(r, &event, &depth, name, sizeof name);
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        LJ_TRY(status);
    }
    return LJ_OK;
}

lj_status lj_recipe_file_read(const char *path, const lj_config_key *keys, size_t key_count, lj_config *config)
{
    recipe_file r = {path, keys, key_count, config};
    lj_mapped_file file;
    yaml_parser_t parser;
    LJ_TRY(lj_mapped_file_init(&file, path));
    if (!yaml_parser_initialize(&parser)) {
        lj_mapped_file_release(&file);
        return lj_fail(LJ_ERR_NOMEM, "%s", path);
    }
    yaml_parser_set_input_string(&parser, file.data, file.bytes);
    lj_status status = events_read(&r, &parser);
    yaml_parser_delete(&parser);
    lj_mapped_file_release(&file);
    return status;
}
