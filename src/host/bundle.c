/* The support bundle: a tar file of texts, each through the redactor. What may hold secrets by its nature
 * (home folders, key files) is never opened. */
#define _GNU_SOURCE
#include "base/file.h"
#include "host/doctor.h"
#include "host/python.h"
#include "host/redact.h"
#include "host/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 512, MAX_TEXT = 512 << 10 };

/* ustar, texts only. */
static void tar_header(char block[BLOCK], const char *name, size_t bytes)
{
    memset(block, 0, BLOCK);
    snprintf(block, 100, "%s", name);
    memcpy(block + 100, "0000600", 7), memcpy(block + 108, "0000000", 7), memcpy(block + 116, "0000000", 7);
    snprintf(block + 124, 12, "%011zo", bytes);
    snprintf(block + 136, 12, "%011llo", (unsigned long long)time(NULL));
    memset(block + 148, ' ', 8);
    block[156] = '0';
    memcpy(block + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
}

static void tar_add(lj_text *tar, const char *name, const char *text)
{
    char block[BLOCK], full[100];
    size_t bytes = strlen(text), rest = bytes % BLOCK;
    lj_say(full, "ljperf-bundle/%s", name);
    tar_header(block, full, bytes);
    lj_text_add_bytes(tar, block, BLOCK);
    lj_text_add_bytes(tar, text, bytes);
    memset(block, 0, BLOCK);
    if (rest) lj_text_add_bytes(tar, block, BLOCK - rest);
}

typedef struct {
    lj_host host;
    const json_t *rules;
    lj_text tar;
    size_t removed;
} bundle;

/* Values of secret variables go wherever they stand, also in files that quote them. */
static void scrub_known(bundle *b, char *text)
{
    const char *name;
    json_t *value;
    json_object_foreach(b->host.env, name, value)
    {
        const char *secret = json_string_value(value);
        if (!secret || strlen(secret) < 5 || !lj_secret_name(b->rules, name)) continue;
        for (char *at = text; (at = strstr(at, secret)); b->removed++) memset(at, '*', strlen(secret));
    }
}

static void add_text(bundle *b, const char *name, const char *text)
{
    lj_text clean;
    char *copy = strndup(text, MAX_TEXT);
    if (!copy) return;
    scrub_known(b, copy);
    lj_text_init(&clean);
    b->removed += lj_redact(b->rules, copy, &clean);
    tar_add(&b->tar, name, clean.data ? clean.data : "");
    lj_text_release(&clean);
    free(copy);
}

static void add_json(bundle *b, const char *name, const json_t *value)
{
    json_t *clean = lj_redact_json(b->rules, value);
    char *text = json_dumps(clean, JSON_INDENT(1));
    if (text) scrub_known(b, text), tar_add(&b->tar, name, text);
    free(text);
    json_decref(clean);
}

static void add_environment(bundle *b)
{
    lj_text text;
    const char *name;
    json_t *value;
    lj_text_init(&text);
    json_object_foreach(b->host.env, name, value) lj_text_add(
        &text, "%s=%s\n", name, lj_secret_name(b->rules, name) ? "[removed]" : json_string_value(value));
    add_text(b, "environment.txt", text.data ? text.data : "");
    lj_text_release(&text);
}

static void add_files(bundle *b)
{
    static const char *const files[] = {"/proc/version",
                                        "/proc/cmdline",
                                        "/proc/meminfo",
                                        "/proc/self/mounts",
                                        "/proc/mounts",
                                        "/proc/self/cgroup",
                                        "/proc/self/limits",
                                        "/proc/modules",
                                        "/proc/net/dev",
                                        "/proc/net/route",
                                        "/proc/driver/nvidia/version",
                                        "/proc/driver/alixpu/version",
                                        "/etc/os-release",
                                        "/etc/hosts",
                                        "/etc/environment",
                                        "/etc/fstab",
                                        "/etc/docker/daemon.json",
                                        "/etc/containerd/config.toml",
                                        "/etc/pip.conf",
                                        "/etc/ld.so.conf",
                                        "/etc/resolv.conf",
                                        "/etc/nccl.conf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text = lj_host_read(&b->host, files[i]), name[96];
        if (!text) continue;
        lj_say(name, "files%s", files[i]);
        add_text(b, name, text);
    }
}

static void add_packages(bundle *b)
{
    json_t *packages = lj_python_packages(&b->host), *package;
    lj_text text;
    size_t i;
    lj_text_init(&text);
    json_array_foreach(packages, i, package)
        lj_text_add(&text, "%s %s %s\n", lj_json_text(package, "name"), lj_json_text(package, "version"),
                    lj_json_text(package, "site"));
    add_text(b, "python_packages.txt", text.data ? text.data : "");
    lj_text_release(&text);
    json_decref(packages);
}

static lj_status add_job(bundle *b, const char *path)
{
    json_t *documents;
    LJ_TRY(lj_yaml_load_all(path, &documents));
    add_json(b, "job.json", documents);
    json_decref(documents);
    return LJ_OK;
}

static void add_report(bundle *b, const json_t *report)
{
    lj_text text;
    lj_text_init(&text);
    lj_doctor_print(&text, report, true);
    add_text(b, "report.txt", text.data ? text.data : "");
    add_json(b, "report.json", report);
    lj_text_release(&text);
}

lj_status lj_doctor_bundle(const lj_doctor_options *options, const json_t *report, const char *path)
{
    static const char end[2 * BLOCK];
    bundle b = {0};
    lj_text_init(&b.tar);
    lj_status status = lj_host_init(&b.host, options->root, options->data_dir);
    if (status == LJ_OK) {
        lj_host_load_env(&b.host);
        b.rules = lj_rules(&b.host, "secrets");
        add_report(&b, report);
        add_environment(&b);
        add_files(&b);
        add_packages(&b);
        if (options->job && *options->job) status = add_job(&b, options->job);
        lj_text_add_bytes(&b.tar, end, sizeof end);
    }
    if (status == LJ_OK) status = lj_text_status(&b.tar);
    if (status == LJ_OK) status = lj_file_write(path, b.tar.data, b.tar.length);
    lj_text_release(&b.tar);
    lj_host_release(&b.host);
    return status;
}
