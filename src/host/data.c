/* The view's beginning: data files, rules, environment; and the JSON helpers everybody uses. */
#define _GNU_SOURCE
#include "host/host.h"
#include "host/yaml.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static const char *const rule_files[] = {"nvidia", "gpus",         "cuda_errors", "environment", "kernel_log",
                                         "limits", "accelerators", "secrets",     "network",     "conflicts"};

static const char *data_place(const char *data_dir, int index)
{
    const char *const places[] = {data_dir, LJ_DATA_DIR, LJ_SOURCE_DATA_DIR};
    return places[index];
}
enum { DATA_PLACES = 3 };

lj_status lj_data_path(const char *data_dir, const char *name, char *out, size_t capacity)
{
    for (int i = 0; i < DATA_PLACES; i++) {
        const char *place = data_place(data_dir, i);
        if (!place || !*place) continue;
        snprintf(out, capacity, "%s/%s", place, name);
        if (access(out, R_OK) == 0) return LJ_OK;
    }
    return lj_fail(
        LJ_ERR_NOT_FOUND, "data file %s: looked in %s%s%s and %s; install ljperf or give --data-dir", name,
        data_dir ? data_dir : "", data_dir && *data_dir ? ", " : "", LJ_DATA_DIR, LJ_SOURCE_DATA_DIR);
}

static bool has_ending(const char *text, const char *ending)
{
    size_t a = strlen(text), b = strlen(ending);
    return a > b && strcmp(text + a - b, ending) == 0;
}

json_t *lj_data_list(const char *data_dir, const char *folder)
{
    json_t *seen = json_object(), *list = json_array(), *path;
    const char *name;
    for (int i = 0; i < DATA_PLACES; i++) {
        char where[LJ_PATH_BYTES];
        const char *place = data_place(data_dir, i);
        if (!place || !*place) continue;
        lj_say(where, "%s/%s", place, folder);
        lj_host plain = {.root = ""};
        json_t *names = lj_host_list(&plain, where), *entry;
        size_t k;
        json_array_foreach(names, k, entry)
        {
            const char *file = json_string_value(entry);
            if (!has_ending(file, ".yaml") || json_object_get(seen, file)) continue;
            json_object_set_new(seen, file, json_sprintf("%s/%s", where, file));
        }
        json_decref(names);
    }
    json_object_foreach(seen, name, path) json_array_append(list, path);
    json_decref(seen);
    return list;
}

json_t *lj_rules(const lj_host *host, const char *stem)
{
    return json_object_get(host->rules, stem);
}

lj_status lj_host_init(lj_host *host, const char *root, const char *data_dir)
{
    *host =
        (lj_host){.root = root && strcmp(root, "/") != 0 ? root : "", .data_dir = data_dir ? data_dir : ""};
    lj_arena_init(&host->arena, "host view");
    host->rules = json_object();
    host->env = json_object();
    host->env_source = "";
    if (*host->root) {
        char *copy = lj_arena_strdup(&host->arena, host->root);
        if (!copy) return LJ_ERR_NOMEM;
        for (size_t length = strlen(copy); length && copy[length - 1] == '/';) copy[--length] = 0;
        host->root = copy;
    }
    for (size_t i = 0; i < sizeof rule_files / sizeof *rule_files; i++) {
        char name[64], path[LJ_PATH_BYTES];
        json_t *content;
        lj_say(name, "rules/%s.yaml", rule_files[i]);
        LJ_TRY(lj_data_path(host->data_dir, name, path, sizeof path));
        LJ_TRY(lj_yaml_load(path, &content));
        json_object_set_new(host->rules, rule_files[i], content);
    }
    return LJ_OK;
}

void lj_host_release(lj_host *host)
{
    json_decref(host->rules);
    json_decref(host->env);
    json_decref(host->manifest);
    json_decref(host->job);
    lj_arena_release(&host->arena);
    *host = (lj_host){0};
}

static void env_add(json_t *env, const char *entry)
{
    const char *equals = strchr(entry, '=');
    if (!equals || equals == entry) return;
    char name[256];
    lj_say(name, "%.*s", (int)(equals - entry), entry);
    if (json_object_get(env, name)) return;
    json_object_set_new_nocheck(env, name, lj_json_string(equals + 1));
}

/* NUL-separated, so not through lj_host_read. */
static bool env_from_proc(lj_host *host, const char *path)
{
    char full[2 * LJ_PATH_BYTES], buffer[1 << 16];
    int fd = open(lj_host_path(host, path, full, sizeof full), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, buffer, sizeof buffer - 1);
    close(fd);
    if (got <= 0) return false;
    buffer[got] = 0;
    bool lines = memchr(buffer, 0, (size_t)got) == NULL; /* a hand-made fixture may use lines */
    for (ssize_t i = 0; lines && i < got; i++)
        if (buffer[i] == '\n') buffer[i] = 0;
    for (char *at = buffer; at < buffer + got; at += strlen(at) + 1) env_add(host->env, at);
    return true;
}

static void env_from_lines(lj_host *host, const char *path)
{
    char *text = lj_host_read(host, path), *save = NULL;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        line += strspn(line, " \t");
        if (strncmp(line, "export ", 7) == 0) line += 7;
        size_t length = strlen(line);
        char *equals = strchr(line, '=');
        if (*line == '#' || !equals) continue;
        if (length && equals[1] == '"' && line[length - 1] == '"')
            line[length - 1] = 0, memmove(equals + 1, equals + 2, strlen(equals + 2) + 1);
        env_add(host->env, line);
    }
}

/* DIR/rootfs beside DIR/config.json is an OCI bundle; a bare tree may carry config.json of an image
 * (config.Env) too. */
static void env_from_oci(lj_host *host)
{
    char path[2 * LJ_PATH_BYTES], rootfs[2 * LJ_PATH_BYTES];
    struct stat info;
    lj_say(path, "%s/config.json", host->root);
    json_t *config = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? json_load_file(path, 0, NULL) : NULL,
           *entry;
    if (!config) return;
    json_t *list = lj_json_at(config, "process.env");
    if (!list) list = lj_json_at(config, "config.Env");
    size_t i;
    json_array_foreach(list, i, entry) if (json_is_string(entry))
        env_add(host->env, json_string_value(entry));
    json_decref(config);
    host->env_source = "config.json";
    lj_say(rootfs, "%s/rootfs", host->root);
    if (stat(rootfs, &info) == 0 && S_ISDIR(info.st_mode)) host->root = lj_arena_strdup(&host->arena, rootfs);
}

void lj_host_load_env(lj_host *host)
{
    if (lj_host_live(host)) {
        for (char **e = environ; *e; e++) env_add(host->env, *e);
        host->env_source = "environment of this process";
        return;
    }
    env_from_oci(host);
    if (env_from_proc(host, "/proc/self/environ") || env_from_proc(host, "/proc/1/environ"))
        host->env_source = "/proc/*/environ";
    if (!*host->env_source) host->env_source = "/etc/environment";
    env_from_lines(host, "/etc/environment");
}

const char *lj_host_env(const lj_host *host, const char *name)
{
    return json_string_value(json_object_get(host->env, name));
}

const char *lj_json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double lj_json_number(const json_t *object, const char *key, double otherwise)
{
    json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

json_t *lj_json_at(const json_t *object, const char *path)
{
    const json_t *at = object;
    while (at && *path) {
        char key[128];
        size_t length = strcspn(path, ".");
        lj_say(key, "%.*s", (int)length, path);
        at = json_object_get(at, key);
        path += length + (path[length] == '.');
    }
    return (json_t *)at;
}

const char *lj_json_text_at(const json_t *object, const char *path)
{
    const char *text = json_string_value(lj_json_at(object, path));
    return text ? text : "";
}

json_t *lj_json_string(const char *text)
{
    json_t *string = json_string(text);
    if (string) return string;
    char *copy = strdup(text);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    string = json_string(copy ? copy : "");
    free(copy);
    return string;
}

void lj_json_append_text(json_t *array, const char *text)
{
    json_array_append_new(array, lj_json_string(text));
}

bool lj_json_holds(const json_t *array, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item) if (json_is_string(item) &&
                                           strcmp(json_string_value(item), text) == 0) return true;
    return false;
}

const char *lj_json_join(const json_t *array, size_t max, char *out, size_t capacity)
{
    size_t i, used = 0, count = json_array_size(array);
    json_t *item;
    if (capacity) *out = 0;
    json_array_foreach(array, i, item)
    {
        if (i == max || used + 1 >= capacity) break;
        used += (size_t)snprintf(out + used, capacity - used, "%s%s", i ? ", " : "",
                                 json_is_string(item) ? json_string_value(item) : "?");
    }
    if (i < count && used < capacity) snprintf(out + used, capacity - used, " and %zu more", count - i);
    return out;
}
