/* A check: a row of lj_checks[] (checks.c) and a function that looks at one thing and says what it found.
 *
 * Each check runs in a child of its own with its own time-out: it may crash, block for ever on a driver or a
 * mount, or leak; the doctor goes on. A check writes findings; the runner gathers them in the order of the
 * table, which is the order of causes: what stands higher explains what stands lower, and the first line of
 * the report is the first of the worst. */
#ifndef LJ_HOST_CHECK_H
#define LJ_HOST_CHECK_H

#include "host/host.h"

typedef enum {
    LJ_VERDICT_OK,
    LJ_VERDICT_WARN,
    LJ_VERDICT_FAIL,
    LJ_VERDICT_NOT_APPLICABLE,
    LJ_VERDICT_NOT_AVAILABLE,
    LJ_VERDICT_COUNT
} lj_verdict;

extern const char *const lj_verdict_names[LJ_VERDICT_COUNT];

typedef struct {
    lj_verdict verdict;
    char part[96];       /* "" or which of several (a variable, a package, an interface) */
    char found[1024];    /* what is there */
    char wanted[512];    /* what should be, with its number */
    char source[512];    /* where `found` was read, and where `wanted` comes from */
    char next_step[768]; /* "" when ok */
} lj_finding;

typedef struct {
    lj_finding *rows;
    size_t count, capacity;
    json_t *facts; /* merged into the report's facts: what --merge, --bundle and `image diff` compare */
    int note_fd;   /* where lj_note writes, -1: nowhere */
} lj_findings;

/* A fresh finding at the end of the list, zeroed but for the verdict. Never NULL: the last row is reused when
 * memory is short. */
lj_finding *lj_find(lj_findings *findings, lj_verdict verdict);
/* Says what is about to be touched, so that a time-out can name it. */
void lj_note(const lj_findings *findings, const char *format, ...) LJ_PRINTF(2, 3);
/* The findings as JSON rows named `name` ("name/part" for parts). New reference. */
json_t *lj_findings_json(const lj_findings *findings, const char *name);
void lj_findings_release(lj_findings *findings);

typedef struct {
    const char *name, *summary;
    void (*run)(lj_host *host, lj_findings *out);
    double timeout_s;
    bool live_only;    /* asks the running kernel or a driver: not applicable to a tree */
    const char *stuck; /* next step when it does not answer in time */
    lj_verdict stuck_verdict;
} lj_check;

extern const lj_check lj_checks[];
extern const size_t lj_check_count;

/* Runs all rows, each in its child, and gives {checks, facts}. New reference. LJ_ERR_NOMEM / LJ_ERR_IO: no
 * child could be made. */
lj_status lj_checks_run(lj_host *host, const lj_check *checks, size_t count, json_t **result);

/* check_*.c */
void lj_check_driver(lj_host *host, lj_findings *out);
void lj_check_compat_order(lj_host *host, lj_findings *out);
void lj_check_driver_libraries(lj_host *host, lj_findings *out);
void lj_check_cuda_runtimes(lj_host *host, lj_findings *out);
void lj_check_needed_libraries(lj_host *host, lj_findings *out);
void lj_check_symbol_versions(lj_host *host, lj_findings *out);
void lj_check_torch_symbols(lj_host *host, lj_findings *out);
void lj_check_kernel_log(lj_host *host, lj_findings *out);
void lj_check_devices(lj_host *host, lj_findings *out);
void lj_check_nvml(lj_host *host, lj_findings *out);
void lj_check_cuda_start(lj_host *host, lj_findings *out);
void lj_check_fabric_manager(lj_host *host, lj_findings *out);
void lj_check_container_toolkit(lj_host *host, lj_findings *out);
void lj_check_amd(lj_host *host, lj_findings *out);
void lj_check_ppu(lj_host *host, lj_findings *out);
void lj_check_patched_packages(lj_host *host, lj_findings *out);
void lj_check_package_requirements(lj_host *host, lj_findings *out);
void lj_check_package_files(lj_host *host, lj_findings *out);
void lj_check_image(lj_host *host, lj_findings *out);
void lj_check_environment(lj_host *host, lj_findings *out);
void lj_check_job(lj_host *host, lj_findings *out);
void lj_check_shared_memory(lj_host *host, lj_findings *out);
void lj_check_memory(lj_host *host, lj_findings *out);
void lj_check_cpu_quota(lj_host *host, lj_findings *out);
void lj_check_process_limits(lj_host *host, lj_findings *out);
void lj_check_cpu(lj_host *host, lj_findings *out);
void lj_check_huge_pages(lj_host *host, lj_findings *out);
void lj_check_numa(lj_host *host, lj_findings *out);
void lj_check_clock_source(lj_host *host, lj_findings *out);
void lj_check_clock_sync(lj_host *host, lj_findings *out);
void lj_check_kernel_settings(lj_host *host, lj_findings *out);
void lj_check_compiler(lj_host *host, lj_findings *out);
void lj_check_cache_folder(lj_host *host, lj_findings *out);
void lj_check_mounts(lj_host *host, lj_findings *out);
void lj_check_disk_space(lj_host *host, lj_findings *out);
void lj_check_network(lj_host *host, lj_findings *out);
void lj_check_host_name(lj_host *host, lj_findings *out);
void lj_check_rdma(lj_host *host, lj_findings *out);

#endif
