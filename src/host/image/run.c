/* The command that starts an image: what differs between docker, podman and nerdctl is a row of a table. */
#define _GNU_SOURCE
#include "host/child.h"
#include "host/image/image.h"
#include "host/manifest.h"

#include <stdarg.h>

#include <string.h>
#include <unistd.h>

typedef struct {
    const char *name;
    bool shm_beside_host_ipc; /* takes --shm-size together with --ipc=host; podman refuses that */
    bool cdi;                 /* cards as CDI names (--device nvidia.com/gpu=0), else --gpus */
} engine;

static const engine engines[] = {{"docker", true, false}, {"podman", false, true}, {"nerdctl", true, false}};
enum { ENGINES = sizeof engines / sizeof *engines };

static const engine *engine_find(const char *name)
{
    char path[LJ_PATH_BYTES];
    for (size_t i = 0; i < ENGINES; i++)
        if (*name ? strcmp(engines[i].name, name) == 0 : lj_program_find(engines[i].name, path, sizeof path))
            return &engines[i];
    return NULL;
}

lj_status lj_image_reference(const json_t *manifest, const lj_image_options *o, char *out, size_t capacity)
{
    char full[1024];
    LJ_TRY(lj_manifest_reference(manifest, o->registry, o->region, full, sizeof full));
    const char *path = strchr(full, '/');
    if (*o->registry_host && path)
        snprintf(out, capacity, "%s%s", o->registry_host, path);
    else
        snprintf(out, capacity, "%s", full);
    if (*o->digest) {
        char *tag = strrchr(out, ':'), *slash = strrchr(out, '/');
        if (tag && tag > slash) *tag = 0;
        size_t used = strlen(out);
        snprintf(out + used, capacity - used, "@%s", o->digest);
    }
    return LJ_OK;
}

static void word(json_t *words, const char *format, ...) LJ_PRINTF(2, 3);
static void word(json_t *words, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lj_json_append_text(words, text);
}

static void nvidia_words(json_t *words, const engine *e, int cards)
{
    if (e->cdi && cards > 0) {
        for (int i = 0; i < cards; i++) word(words, "--device=nvidia.com/gpu=%d", i);
    } else if (e->cdi) {
        word(words, "--device=nvidia.com/gpu=all");
    } else {
        word(words, "--gpus");
        if (cards > 0)
            word(words, "%d", cards);
        else
            word(words, "all");
    }
}

static void ppu_words(json_t *words, const engine *e, int cards)
{
    (void)e;
    lj_host here = {.root = ""};
    json_t *found = lj_host_glob(&here, "/dev/alixpu_ppu*"), *path;
    size_t i;
    word(words, "--device=/dev/alixpu"), word(words, "--device=/dev/alixpu_ctl");
    if (cards <= 0) json_array_foreach(found, i, path) word(words, "--device=%s", json_string_value(path));
    if (cards <= 0 && json_array_size(found) == 0) cards = 16;
    for (int k = 0; k < cards; k++) word(words, "--device=/dev/alixpu_ppu%d", k);
    json_decref(found);
}

static void amd_words(json_t *words, const engine *e, int cards)
{
    (void)e, (void)cards;
    word(words, "--device=/dev/kfd"), word(words, "--device=/dev/dri"), word(words, "--group-add=video"),
        word(words, "--security-opt=seccomp=unconfined");
}

static const struct {
    const char *name;
    void (*words)(json_t *, const engine *, int);
} devices[] = {{"nvidia", nvidia_words}, {"ppu", ppu_words}, {"amd", amd_words}};

static void memory_words(json_t *words, const json_t *m, const lj_image_options *o, const engine *e)
{
    const char *size = *o->shm_size ? o->shm_size : lj_json_text_at(m, "run.shm_size"),
               *ipc = lj_json_text_at(m, "run.ipc"), *name;
    json_t *value;
    bool host = strcmp(ipc, "host") == 0 && !*o->shm_size; /* a size of one's own wants a private /dev/shm */
    if (host && e->shm_beside_host_ipc)
        word(words, "--ipc=host");
    else
        word(words, "--ipc=private");
    word(words, "--shm-size=%s", size);
    json_object_foreach(lj_json_at(m, "run.ulimits"), name, value)
        word(words, "--ulimit=%s=%s%s%s", name, json_string_value(value),
             strchr(json_string_value(value), ':') ? "" : ":",
             strchr(json_string_value(value), ':') ? "" : json_string_value(value));
}

static void network_words(json_t *words, const json_t *m, const lj_image_options *o)
{
    json_t *ports = lj_json_at(m, "run.ports"), *port, *value;
    size_t i;
    const char *interface = lj_manifest_interface(m, o->cards), *name;
    bool rdma = access("/dev/infiniband", F_OK) == 0;
    if (o->nodes > 1) word(words, "--network=host");
    if (o->nodes <= 1)
        json_array_foreach(ports, i, port)
            word(words, "--publish=%lld:%lld", (long long)json_integer_value(port),
                 (long long)json_integer_value(port));
    if (rdma) word(words, "--device=/dev/infiniband"), word(words, "--cap-add=IPC_LOCK");
    if (*interface && o->nodes > 1) word(words, "--env=NCCL_SOCKET_IFNAME=%s", interface);
    json_object_foreach(lj_json_at(m, "run.environment"), name, value)
        word(words, "--env=%s=%s", name, json_string_value(value));
}

lj_status lj_image_run_words(const json_t *m, const lj_image_options *o, json_t **words)
{
    char reference[1200];
    const engine *e = engine_find(o->engine);
    if (!e)
        return lj_fail(LJ_ERR_NOT_FOUND, "no container engine: looked for docker, podman and nerdctl on "
                                         "PATH; install one or name it with --engine to see its line");
    LJ_TRY(lj_image_reference(m, o, reference, sizeof reference));
    json_t *list = json_array();
    word(list, "%s", e->name), word(list, "run"), word(list, "--rm");
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) word(list, "--interactive"), word(list, "--tty");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strcmp(devices[i].name, lj_json_text_at(m, "run.devices")) == 0)
            devices[i].words(list, e, o->cards);
    memory_words(list, m, o, e);
    network_words(list, m, o);
    word(list, "%s", reference);
    for (size_t i = 0; i < o->command_count; i++) word(list, "%s", o->command[i]);
    *words = list;
    return LJ_OK;
}

void lj_image_words_print(const json_t *words, lj_text *out)
{
    size_t i;
    json_t *one;
    json_array_foreach(words, i, one)
    {
        const char *text = json_string_value(one);
        bool plain =
            *text &&
            strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@+%") ==
                strlen(text);
        lj_text_add(out, "%s", i ? " " : "");
        if (plain) {
            lj_text_add(out, "%s", text);
            continue;
        }
        lj_text_add(out, "'");
        for (; *text; text++) lj_text_add(out, *text == '\'' ? "'\\''" : "%c", *text);
        lj_text_add(out, "'");
    }
    lj_text_add(out, "\n");
}
