/* Pulling through skopeo: the digest is read first and the copy is made by digest, so that a tag that moves
 * meanwhile changes nothing. */
#define _GNU_SOURCE
#include "base/log.h"
#include "host/child.h"
#include "host/image/image.h"
#include "host/manifest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static lj_status skopeo_failed(const char *what, const char *reference, const lj_program_result *r,
                               const char *registry)
{
    const char *text = r->errors.data ? r->errors.data : "";
    if (strcasestr(text, "unauthorized") || strcasestr(text, "authentication required") ||
        strcasestr(text, "denied"))
        return lj_fail(LJ_ERR_INVALID, "%s %s: the registry wants a login; run: skopeo login %s", what,
                       reference, registry);
    if (strcasestr(text, "http: server gave HTTP response"))
        return lj_fail(LJ_ERR_INVALID,
                       "%s %s: the registry speaks plain HTTP; add --no-tls-verify if that is meant", what,
                       reference);
    if (strcasestr(text, "manifest unknown") || strcasestr(text, "not found"))
        return lj_fail(LJ_ERR_NOT_FOUND,
                       "%s %s: the registry has no such image or tag; see ljperf image show", what,
                       reference);
    return lj_fail(r->timed_out ? LJ_ERR_TIMEOUT : LJ_ERR_IO, "%s %s: skopeo ended with %d: %.500s", what,
                   reference, r->code, r->timed_out ? "no answer in time" : text);
}

static void registry_of(const char *reference, char *out, size_t capacity)
{
    snprintf(out, capacity, "%.*s", (int)strcspn(reference, "/"), reference);
}

/* Registries with a login: say so before the transfer starts. Is somebody logged in? */
static lj_status login_check(const json_t *manifest, const char *registry)
{
    const char *argv[] = {"skopeo", "login", "--get-login", registry, NULL};
    lj_program_options options = {.timeout_s = 10};
    lj_program_result result;
    if (!json_is_true(lj_json_at(manifest, "registry.login"))) return LJ_OK;
    LJ_TRY(lj_child_program_run(argv, &options, &result));
    bool in = result.code == 0;
    lj_program_release(&result);
    return in ? LJ_OK
              : lj_fail(LJ_ERR_INVALID,
                        "%s: image %s needs a login first; run: skopeo login %s (user and password of the "
                        "Alibaba Cloud container registry)",
                        registry, lj_json_text(manifest, "name"), registry);
}

/* Digest of what the tag names: the hash of the manifest's own bytes. */
static lj_status digest_read(const char *reference, const char *registry, bool tls, char digest[80])
{
    char source[1300];
    lj_say(source, "docker://%s", reference);
    const char *argv[] = {"skopeo",   "inspect",     tls ? "--tls-verify=true" : "--tls-verify=false",
                          "--format", "{{.Digest}}", source,
                          NULL};
    lj_program_options options = {.timeout_s = 120};
    lj_program_result result;
    LJ_TRY(lj_child_program_run(argv, &options, &result));
    lj_status status =
        result.code == 0 && result.output.data ? LJ_OK : skopeo_failed("read", reference, &result, registry);
    if (status == LJ_OK) {
        snprintf(digest, 80, "%.79s", result.output.data);
        digest[strcspn(digest, "\r\n ")] = 0;
        if (strncmp(digest, "sha256:", 7) != 0 || strlen(digest) != 71)
            status = lj_fail(LJ_ERR_FORMAT, "read %s: '%s' is no sha256 digest", reference, digest);
    }
    lj_program_release(&result);
    return status;
}

static lj_status copy_pinned(const char *reference, const char *registry, const char *digest,
                             const char *folder, const char *tag, const lj_image_options *o)
{
    char source[1400], target[LJ_PATH_BYTES + 200], plain[1200];
    lj_say(plain, "%s", reference);
    char *slash = strrchr(plain, '/'), *cut = slash ? strpbrk(slash, ":@") : NULL;
    if (cut) *cut = 0;
    lj_say(source, "docker://%s@%s", plain, digest);
    lj_say(target, "oci:%s:%s", folder, tag);
    const char *argv[] = {"skopeo",
                          "copy",
                          o->tls_verify ? "--src-tls-verify=true" : "--src-tls-verify=false",
                          "--preserve-digests",
                          source,
                          target,
                          NULL};
    lj_program_options options = {.passthrough = !o->quiet, .timeout_s = 0};
    lj_program_result result;
    LJ_TRY(lj_child_program_run(argv, &options, &result));
    lj_status status = result.code == 0 ? LJ_OK : skopeo_failed("copy", reference, &result, registry);
    lj_program_release(&result);
    return status;
}

lj_status lj_image_pull(const json_t *manifest, const lj_image_options *options, json_t **result)
{
    char reference[1200], registry[256], digest[80], folder[LJ_PATH_BYTES];
    lj_image_options by_tag = *options;
    by_tag.digest = "";
    LJ_TRY(lj_image_reference(manifest, &by_tag, reference, sizeof reference));
    registry_of(reference, registry, sizeof registry);
    LJ_TRY(login_check(manifest, registry));
    if (*options->digest) { /* asked for by digest: the tag need not point there any more */
        lj_say(digest, "%s", options->digest);
        if (strncmp(digest, "sha256:", 7) != 0 || strlen(digest) != 71)
            return lj_fail(LJ_ERR_INVALID, "--digest %s: sha256: and 64 hexadecimal digits are needed",
                           digest);
        char now[80];
        LJ_TRY(digest_read(reference, registry, options->tls_verify, now));
        if (strcmp(now, digest) != 0)
            return lj_fail(LJ_ERR_INVALID,
                           "%s: the tag now names %s, asked for was %s; take the new digest on purpose or "
                           "pull the old one from where it is kept",
                           reference, now, digest);
    } else {
        LJ_TRY(digest_read(reference, registry, options->tls_verify, digest));
    }
    if (*options->output_dir)
        lj_say(folder, "%s", options->output_dir);
    else
        lj_say(folder, "%s-%s", lj_json_text(manifest, "name"), lj_json_text(manifest, "tag"));
    lj_log(LJ_LOG_INFO, "pulling %s@%s into %s", reference, digest, folder);
    LJ_TRY(copy_pinned(reference, registry, digest, folder, lj_json_text(manifest, "tag"), options));
    *result = json_pack("{s:{s:s, s:i}, s:s, s:s, s:s}", "schema", "name", "ljperf.image.pull", "version", 1,
                        "reference", reference, "digest", digest, "folder", folder);
    return LJ_OK;
}
