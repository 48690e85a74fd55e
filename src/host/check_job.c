/* The image and the job file against this system. */
#define _GNU_SOURCE
#include "base/text.h"
#include "host/cgroup.h"
#include "host/check.h"
#include "host/job.h"
#include "host/version.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    lj_host *host;
    lj_findings *out;
} context;

static lj_finding *finding(context *c, const char *part, lj_verdict verdict, const char *source)
{
    lj_finding *f = lj_find(c->out, verdict);
    lj_say(f->part, "%s", part);
    lj_say(f->source, "%s", source);
    return f;
}

/* --- image --- */

static void os_judge(context *c)
{
    char *text = lj_host_read(c->host, "/etc/os-release"), *id = text ? strstr(text, "\nID=") : NULL,
         *version = text ? strstr(text, "VERSION_ID=") : NULL, name[64] = "", number[32] = "";
    if (text && strncmp(text, "ID=", 3) == 0) id = text - 1;
    const char *want_name = lj_json_text_at(c->host->manifest, "os.name"),
               *want = lj_json_text_at(c->host->manifest, "os.version");
    if (!id || !version) return;
    lj_say(name, "%.*s", (int)strcspn(id + 4, "\"\n"), id + 4 + (id[4] == '"'));
    name[strcspn(name, "\"\n")] = 0;
    (void)lj_version_find(version, number, sizeof number);
    bool same = strcmp(name, want_name) == 0 && strcmp(number, want) == 0;
    bool inside = lj_host_in_container(c->host) || !lj_host_live(c->host);
    lj_finding *f = finding(c, "os", LJ_VERDICT_OK, "/etc/os-release");
    lj_say(f->found, "%s %s", name, *number ? number : "of unknown version");
    lj_say(f->wanted, "%s %s inside the image%s", want_name, want,
           inside ? "" : " (the host may be another)");
    if (same || !inside || !lj_host_exists(c->host, "/usr/local/lib")) return;
    if (lj_host_exists(c->host, "/proc/driver/nvidia/version") && !lj_host_in_container(c->host))
        return; /* a host's tree */
    f->verdict = LJ_VERDICT_WARN;
    lj_say(f->next_step, "this is not the image's own system: start from %s:%s",
           lj_json_text(c->host->manifest, "name"),
           json_string_value(json_array_get(json_object_get(c->host->manifest, "tags"), 0)));
}

static void vendor_judge(context *c)
{
    const char *vendor = lj_json_text(c->host->manifest, "vendor");
    bool nvidia = lj_host_exists(c->host, "/proc/driver/nvidia/version"),
         ppu =
             lj_host_exists(c->host, "/proc/driver/alixpu") || lj_host_exists(c->host, "/sys/module/alixpu");
    const char *there = nvidia ? "NVIDIA" : ppu ? "PPU" : "";
    bool wrong =
        (strcmp(vendor, "nvidia") == 0 && ppu && !nvidia) || (strcmp(vendor, "ppu") == 0 && nvidia && !ppu);
    if (!wrong) return;
    lj_finding *f = finding(c, "vendor", LJ_VERDICT_FAIL, "driver files; the image's manifest");
    lj_say(f->found, "%s cards, and an image for %s cards", there,
           strcmp(vendor, "ppu") == 0 ? "PPU" : "NVIDIA");
    lj_say(f->wanted, "an image for the cards of this host");
    lj_say(f->next_step, "take the image for %s cards (ljperf image list)", there);
}

/* The manifest's run section against what a container really got; on a bare host these are for the container
 * to come. */
static void run_judge(context *c)
{
    const char *size = lj_json_text_at(c->host->manifest, "run.shm_size"),
               *memlock = lj_json_text_at(c->host->manifest, "run.ulimits.memlock");
    json_t *ports = lj_json_at(c->host->manifest, "run.ports");
    bool container = lj_host_in_container(c->host);
    lj_finding *f = finding(c, "run", LJ_VERDICT_OK, "the image's run section");
    char list[128];
    lj_say(f->found, container ? "a container" : "not in a container: the run options apply when it starts");
    lj_say(f->wanted, "shm %s, memlock %s, devices %s, ports %s", size,
           strcmp(memlock, "-1") == 0 ? "unlimited"
           : *memlock                 ? memlock
                                      : "as is",
           lj_json_text_at(c->host->manifest, "run.devices"),
           json_array_size(ports) ? lj_json_join(ports, 8, list, sizeof list) : "none");
    if (!container) return;
    char *text = lj_host_read(c->host, "/proc/self/limits"),
         *line = text ? strstr(text, "Max locked memory") : NULL;
    if (!line || strcmp(memlock, "-1") != 0 ||
        strncmp(line + 17 + strspn(line + 17, " "), "unlimited", 9) == 0)
        return;
    f->verdict = LJ_VERDICT_WARN;
    lj_say(f->found, "the container's locked memory is limited to %.*s bytes",
           (int)strspn(line + 17 + strspn(line + 17, " "), "0123456789"), line + 17 + strspn(line + 17, " "));
    lj_say(f->next_step, "start it with --ulimit memlock=-1 (ljperf image run prints the line)");
}

static void sdk_or_cuda_judge(context *c)
{
    const char *wanted = lj_json_text_at(c->host->manifest, "requires.cuda");
    char *text = *wanted ? lj_host_read(c->host, "/usr/local/cuda/version.json") : NULL, version[48];
    char *cuda = text ? strstr(text, "\"cuda\"") : NULL, *at = cuda ? strstr(cuda, "\"version\"") : NULL;
    if (!at || !lj_version_find(at, version, sizeof version)) return;
    bool same = lj_version_compare(version, wanted) == 0;
    lj_finding *f =
        finding(c, "cuda", same ? LJ_VERDICT_OK : LJ_VERDICT_WARN, "/usr/local/cuda/version.json");
    lj_say(f->found, "CUDA %s", version);
    lj_say(f->wanted, "CUDA %s", wanted);
    if (!same) lj_say(f->next_step, "another toolkit was put over the image's: link /usr/local/cuda back");
}

void lj_check_image(lj_host *host, lj_findings *out)
{
    context c = {host, out};
    if (!host->manifest) {
        lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "no image named (--image NAME:TAG)");
        return;
    }
    vendor_judge(&c);
    os_judge(&c);
    sdk_or_cuda_judge(&c);
    run_judge(&c);
}

/* --- job --- */

static void job_shm(context *c)
{
    json_t *job = c->host->job, *rule = lj_json_at(lj_rules(c->host, "limits"), "shared_memory");
    double have = lj_json_number(job, "shm_bytes", -1), cards = lj_json_number(job, "cards", 0),
           need = lj_json_number(rule, "base_bytes", 0) + cards * lj_json_number(rule, "bytes_a_rank", 0);
    char a[32], b[32];
    bool bad = !json_is_true(json_object_get(job, "host_ipc")) && (have < 0 || (have > 0 && have < need));
    lj_finding *f = finding(c, "shared_memory", bad ? LJ_VERDICT_WARN : LJ_VERDICT_OK, "the job file");
    if (have < 0)
        lj_say(f->found, "no memory volume at /dev/shm: the container gets 64 MiB");
    else
        lj_say(f->found, have > 0 ? "/dev/shm of %s" : "/dev/shm without a limit of its own%s",
               have > 0 ? lj_size_format(have, a, sizeof a) : "");
    lj_say(f->wanted, "at least %s for %.0f rank(s)", lj_size_format(need, b, sizeof b), cards);
    if (bad)
        lj_say(f->next_step,
               "add a volume emptyDir {medium: Memory, sizeLimit: %s} mounted at /dev/shm (ljperf image k8s "
               "writes it)",
               *lj_json_text_at(c->host->manifest, "run.shm_size") ? "32Gi" : "1Gi");
}

static void job_interface(context *c)
{
    json_t *job = c->host->job, *rows = lj_json_at(lj_rules(c->host, "network"), "cards"), *row, *number;
    double cards = lj_json_number(job, "cards", 0);
    const char *have = lj_json_text_at(job, "environment.NCCL_SOCKET_IFNAME"), *want = "";
    size_t i, k;
    json_array_foreach(rows, i, row)
        json_array_foreach(json_object_get(row, "cards"), k, number) if (json_number_value(number) == cards)
            want = lj_json_text(row, "interface");
    if (!*want) return;
    bool same = strcmp(have, want) == 0;
    lj_finding *f = finding(c, "interface", same ? LJ_VERDICT_OK : LJ_VERDICT_WARN,
                            lj_json_text_at(lj_rules(c->host, "network"), "sources.choice"));
    lj_say(f->found, *have ? "NCCL_SOCKET_IFNAME=%s" : "NCCL_SOCKET_IFNAME is not set%s", have);
    lj_say(f->wanted, "NCCL_SOCKET_IFNAME=%s for %.0f card(s)", want, cards);
    if (!same) lj_say(f->next_step, "set NCCL_SOCKET_IFNAME=%s in the job's env", want);
}

static void job_driver(context *c)
{
    json_t *labels = json_object_get(c->host->job, "labels"),
           *requires = json_object_get(c->host->manifest, "requires");
    const char *have = lj_json_text(labels, "alibabacloud.com/gpu-driver-version"),
               *minimum = lj_json_text_at(requires, "driver.minimum");
    bool acs = *lj_json_text(labels, "alibabacloud.com/compute-class") ||
               strcmp(lj_json_text(c->host->manifest, "vendor"), "ppu") == 0;
    if (!acs || !*minimum) return;
    bool low = *have && lj_version_compare(have, minimum) < 0;
    lj_finding *f = finding(c, "driver_version",
                            low     ? LJ_VERDICT_FAIL
                            : *have ? LJ_VERDICT_OK
                                    : LJ_VERDICT_WARN,
                            lj_json_text_at(requires, "driver.source"));
    lj_say(f->found,
           *have ? "alibabacloud.com/gpu-driver-version: %s"
                 : "no label alibabacloud.com/gpu-driver-version%s",
           have);
    lj_say(f->wanted, "driver >= %s", minimum);
    if (f->verdict != LJ_VERDICT_OK)
        lj_say(f->next_step, "set the label to %s",
               *lj_json_text_at(requires, "driver.advised") ? lj_json_text_at(requires, "driver.advised")
                                                            : minimum);
    const char *class_name = lj_json_text(labels, "alibabacloud.com/compute-class");
    double cards = lj_json_number(c->host->job, "cards", 0);
    if (cards != 16 || strcmp(class_name, "gpu-hpn") == 0) return;
    f = finding(c, "compute_class", LJ_VERDICT_WARN, "ACS compute classes");
    lj_say(f->found,
           *class_name ? "alibabacloud.com/compute-class: %s for 16 cards"
                       : "no compute class for 16 cards%s",
           class_name);
    lj_say(f->wanted, "gpu-hpn");
    lj_say(f->next_step, "set alibabacloud.com/compute-class: gpu-hpn");
}

static void job_image(context *c)
{
    const char *image = lj_json_text(c->host->job, "image"), *name = lj_json_text(c->host->manifest, "name");
    lj_finding *f = finding(c, "image", LJ_VERDICT_OK, "the job file");
    lj_say(f->found, "%s, %.0f card(s) (%s) in each of %.0f pod(s)", *image ? image : "no image",
           lj_json_number(c->host->job, "cards", 0), lj_json_text(c->host->job, "resource"),
           lj_json_number(c->host->job, "nodes", 1));
    if (!*image) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->next_step, "name an image");
    } else if (*name && !strstr(image, name)) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->wanted, "%s", name);
        lj_say(f->next_step, "the job runs another image than --image names");
    }
    const char *resource = lj_json_text(c->host->job, "resource"),
               *wanted = lj_json_text_at(c->host->manifest, "kubernetes.resource");
    if (!*wanted || strcmp(resource, wanted) == 0) return;
    f = finding(c, "resource", LJ_VERDICT_FAIL, "the job file; the image's manifest");
    lj_say(f->found, *resource ? "cards are asked for as %s" : "no cards are asked for%s", resource);
    lj_say(f->wanted, "%s", wanted);
    lj_say(f->next_step, "resources.limits: {%s: N}", wanted);
}

static void job_cpu(context *c)
{
    double cpu = lj_json_number(c->host->job, "cpu", -1);
    const char *threads = lj_json_text_at(c->host->job, "environment.OMP_NUM_THREADS");
    double cards = lj_json_number(c->host->job, "cards", 0),
           ask = strtod(*threads ? threads : "0", NULL) * (cards > 0 ? cards : 1);
    if (cpu <= 0 || ask <= cpu) return;
    lj_finding *f = finding(c, "cpu", LJ_VERDICT_WARN, "the job file");
    lj_say(f->found, "OMP_NUM_THREADS=%s for %.0f rank(s) on a limit of %.1f processors", threads,
           cards > 0 ? cards : 1, cpu);
    lj_say(f->wanted, "at most %.0f threads in all", cpu);
    lj_say(f->next_step, "OMP_NUM_THREADS=%d",
           (int)(cpu / (cards > 0 ? cards : 1)) > 0 ? (int)(cpu / (cards > 0 ? cards : 1)) : 1);
}

void lj_check_job(lj_host *host, lj_findings *out)
{
    context c = {host, out};
    if (!host->job) {
        lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "no job file (--job FILE)");
        return;
    }
    job_image(&c);
    job_driver(&c);
    job_shm(&c);
    job_interface(&c);
    job_cpu(&c);
}
