/* Mounts that may be dead, room on disks, the compiler and the kernel cache. */
#define _GNU_SOURCE
#include "base/file.h"
#include "base/text.h"
#include "host/check.h"
#include "host/child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bool may_hang(const char *type)
{
    static const char *const kinds[] = {"nfs",  "cifs",   "smb",  "ceph",     "fuse", "lustre",   "gluster",
                                        "gpfs", "beegfs", "9p",   "virtiofs", "afs",  "orangefs", "pvfs2",
                                        "cpfs", "ocfs2",  "coda", "davfs",    "sshfs"};
    if (strcmp(type, "fusectl") == 0) return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(type, kinds[i], strlen(kinds[i])) == 0) return true;
    return false;
}

/* The mount table writes a blank as \040. */
static void unescape(char *text)
{
    char *to = text;
    for (char *from = text; *from; from++) {
        if (from[0] == '\\' && from[1] == '0' && from[2] && from[3]) {
            *to++ = (char)strtol((char[]){from[1], from[2], from[3], 0}, NULL, 8);
            from += 3;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
}

static int probe_mount(const char *path)
{
    struct statvfs info;
    struct stat entry;
    return statvfs(path, &info) == 0 && stat(path, &entry) == 0 ? 0 : errno;
}

/* Refusals of access are answers; these are the errors of a server that is gone. */
static bool means_dead(int error)
{
    return error == ENOTCONN || error == ESTALE || error == EIO || error == ETIMEDOUT || error == EHOSTDOWN ||
           error == EHOSTUNREACH || error == ECONNABORTED || error == ECONNREFUSED;
}

static void mount_judge(lj_findings *out, const char *path, const char *type, int answer)
{
    if (answer >= 0 && !means_dead(answer)) return;
    lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
    lj_say(f->part, "%s", path);
    if (answer < 0)
        lj_say(f->found, "dead mount: %s (%s) does not answer within 0.4 s", path, type);
    else
        lj_say(f->found, "dead mount: %s (%s): %s", path, type, strerror(answer));
    lj_say(f->wanted, "an answer to statvfs within 0.4 s");
    lj_say(f->source, "/proc/self/mounts, statvfs in a child");
    lj_say(f->next_step, "bring its server back or umount -l %s: whatever touches it hangs", path);
}

void lj_check_mounts(lj_host *host, lj_findings *out)
{
    char *text = lj_host_read(host, "/proc/self/mounts"), *save = NULL;
    size_t seen = 0;
    if (!text) text = lj_host_read(host, "/proc/mounts");
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *inner = NULL, *path;
        strtok_r(line, " ", &inner);
        path = strtok_r(NULL, " ", &inner);
        char *type = strtok_r(NULL, " ", &inner);
        if (!path || !type || !may_hang(type)) continue;
        seen++;
        unescape(path);
        lj_note(out, "mount %s (%s)", path, type);
        if (lj_host_live(host)) mount_judge(out, path, type, lj_probe(probe_mount, path, 0.4));
    }
    if (out->count) return;
    lj_finding *f = lj_find(out, lj_host_live(host) ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->found,
           lj_host_live(host) ? "%zu network or FUSE mount(s), all answer"
                              : "a file tree: its mounts are not here to be asked (%zu in its table)",
           seen);
    lj_say(f->source, "/proc/self/mounts");
}

static void disk_judge(lj_host *host, lj_findings *out, const char *path, json_t *seen)
{
    json_t *rule = lj_json_at(lj_rules(host, "limits"), "disk");
    struct statvfs info;
    struct stat entry;
    char key[32], text[32], need[32];
    lj_note(out, "room at %s", path);
    if (stat(path, &entry) != 0 || statvfs(path, &info) != 0) return;
    lj_say(key, "%llx", (unsigned long long)entry.st_dev);
    if (json_object_get(seen, key)) return;
    json_object_set_new(seen, key, json_true());
    double room = (double)info.f_bavail * (double)info.f_frsize,
           inodes = info.f_files ? (double)info.f_favail / (double)info.f_files : 1;
    bool read_only = info.f_flag & ST_RDONLY,
         few = room < lj_json_number(rule, "fail_bytes", 0) || inodes < 0.001;
    bool little = room < lj_json_number(rule, "warn_bytes", 0) || inodes < 0.02;
    lj_finding *f = lj_find(out, few && !read_only      ? LJ_VERDICT_FAIL
                                 : little && !read_only ? LJ_VERDICT_WARN
                                                        : LJ_VERDICT_OK);
    lj_say(f->part, "%s", path);
    lj_say(f->found, "%s: %s free, %.0f %% of inodes free%s", path, lj_size_format(room, text, sizeof text),
           inodes * 100, read_only ? ", read-only" : "");
    lj_say(f->wanted, "at least %s and 2 %% of inodes",
           lj_size_format(lj_json_number(rule, "warn_bytes", 0), need, sizeof need));
    lj_say(f->source, "statvfs; %s", lj_json_text(rule, "source"));
    if (f->verdict != LJ_VERDICT_OK)
        lj_say(f->next_step,
               "make room there, or send checkpoints and caches elsewhere (--out, --cache, TMPDIR)");
}

void lj_check_disk_space(lj_host *host, lj_findings *out)
{
    json_t *seen = json_object();
    char folder[LJ_PATH_BYTES];
    const char *temporary = lj_host_env(host, "TMPDIR");
    disk_judge(host, out, "/", seen);
    disk_judge(host, out, temporary ? temporary : "/tmp", seen);
    if (getcwd(folder, sizeof folder)) disk_judge(host, out, folder, seen);
    json_decref(seen);
    if (out->count) return;
    lj_finding *f = lj_find(out, LJ_VERDICT_NOT_AVAILABLE);
    lj_say(f->found, "no folder could be asked");
}

static bool compiler_in(lj_host *host, char *path, size_t capacity)
{
    const char *named = lj_host_env(host, "LJPERF_CC"), *folders = lj_host_env(host, "PATH");
    const char *names[] = {named, "gcc", "clang", "cc"};
    if (!folders) folders = "/usr/local/bin:/usr/bin:/bin";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!names[i] || !*names[i]) continue;
        for (const char *at = folders; *at;) {
            size_t length = strcspn(at, ":");
            snprintf(path, capacity, "%.*s/%s", (int)length, at, names[i]);
            if (strchr(names[i], '/')) snprintf(path, capacity, "%s", names[i]);
            if (length && lj_host_exists(host, path)) return true;
            at += length + (at[length] == ':');
        }
    }
    return false;
}

void lj_check_compiler(lj_host *host, lj_findings *out)
{
    char path[LJ_PATH_BYTES];
    bool there = compiler_in(host, path, sizeof path),
         tree = lj_host_exists(host, "/bin/sh") || lj_host_exists(host, "/usr/bin/env");
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->source, "PATH, LJPERF_CC");
    lj_say(f->wanted, "gcc or clang that compiles a small program");
    if (!there) {
        f->verdict = tree ? LJ_VERDICT_WARN : LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, tree ? "no C compiler (gcc, clang, cc)" : "no programs in the view");
        if (tree) lj_say(f->next_step, "install gcc, or bring packed kernels (ljperf cache build)");
        return;
    }
    lj_say(f->found, "%s", path);
    if (!lj_host_live(host)) return;
    lj_note(out, "%s", path);
    const char *argv[] = {path, "-x", "c", "-fsyntax-only", "-", NULL};
    lj_program_options options = {
        .input = "#include <stddef.h>\n#include <math.h>\nsize_t ok(double x) { return (size_t)exp(x); }\n",
        .timeout_s = 0.8,
        .together = true};
    lj_program_result result;
    if (lj_child_program_run(argv, &options, &result) != LJ_OK) return;
    if (result.code != 0) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->found, "%s does not compile a small program: %.200s", path,
               result.timed_out     ? "no answer within 0.8 s"
               : result.output.data ? result.output.data
                                    : "no message");
        lj_say(f->next_step, "install the C library's headers (libc6-dev), or name another compiler (--cc)");
    }
    lj_program_release(&result);
}

void lj_check_cache_folder(lj_host *host, lj_findings *out)
{
    char folder[LJ_PATH_BYTES], file[LJ_PATH_BYTES + 32];
    (void)host;
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    if (lj_cache_folder(folder, sizeof folder) != LJ_OK) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->found, "no folder for compiled kernels: %s", lj_error_message());
        lj_say(f->next_step, "set --cache DIR or HOME");
        return;
    }
    lj_note(out, "cache folder %s", folder);
    lj_say(f->found, "%s", folder);
    lj_say(f->source, "LJPERF_CACHE, XDG_CACHE_HOME, HOME");
    lj_say(f->wanted, "a folder that can be written");
    lj_say(file, "%s/.probe.%d", folder, (int)getpid());
    if (lj_folder_create(folder, 0700) == LJ_OK && lj_file_write(file, "x", 1) == LJ_OK) {
        unlink(file);
        return;
    }
    f->verdict = LJ_VERDICT_WARN;
    lj_say(f->found, "%s cannot be written: %s", folder, lj_error_message());
    lj_say(f->next_step, "set --cache to a folder of yours: without it every run compiles again");
}
