/* Children with time-outs. A child that hangs in the kernel cannot be killed: it is left behind, never waited
 * for, and its standard streams are closed so that nobody waits for them either. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "host/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that the processor has not come round to is no stuck one: while it is runnable it gets until this long after its start. */
static const double RUNNING_GRACE_S = 1.75;

enum { NOTE_MARK = 1, MAX_CHECKS = 64, MAX_REPORT_BYTES = 8 << 20 };

const char *const lj_verdict_names[LJ_VERDICT_COUNT] = {"ok", "warn", "fail", "not applicable",
                                                        "not available"};

static lj_finding spare_row;

lj_finding *lj_find(lj_findings *findings, lj_verdict verdict)
{
    if (findings->count == findings->capacity) {
        size_t capacity = findings->capacity ? findings->capacity * 2 : 4;
        lj_finding *rows = realloc(findings->rows, capacity * sizeof *rows);
        if (!rows) return findings->count ? &findings->rows[findings->count - 1] : &spare_row;
        findings->rows = rows, findings->capacity = capacity;
    }
    lj_finding *row = &findings->rows[findings->count++];
    *row = (lj_finding){.verdict = verdict};
    return row;
}

void lj_note(const lj_findings *findings, const char *format, ...)
{
    if (findings->note_fd < 0) return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line + 1, sizeof line - 1, format, args);
    va_end(args);
    line[0] = NOTE_MARK;
    for (char *c = line + 1; *c; c++)
        if (*c == '\n') *c = ' ';
    size_t length = strlen(line);
    line[length] = '\n';
    (void)!write(findings->note_fd, line, length + 1);
}

json_t *lj_findings_json(const lj_findings *findings, const char *name)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const lj_finding *f = &findings->rows[i];
        char full[192];
        lj_say(full, *f->part ? "%s/%s" : "%s%s", name, f->part);
        json_array_append_new(
            rows, json_pack("{s:o, s:o, s:o, s:s, s:o, s:o}", "name", lj_json_string(full), "found",
                            lj_json_string(f->found), "wanted", lj_json_string(f->wanted), "verdict",
                            lj_verdict_names[f->verdict], "source", lj_json_string(f->source), "next_step",
                            lj_json_string(f->next_step)));
    }
    return rows;
}

void lj_findings_release(lj_findings *findings)
{
    free(findings->rows);
    json_decref(findings->facts);
    *findings = (lj_findings){.note_fd = -1};
}

typedef struct {
    const lj_check *check;
    pid_t pid;
    int fd; /* -1: finished */
    double started, allowed, deadline, grace;
    char *text;
    size_t used, capacity;
    bool timed_out;
} child;

static void write_all(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t done = write(fd, text, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        text += done, bytes -= (size_t)done;
    }
}

/* A check's own children (compilers, management tools) are in its process group and go with it. */
static _Noreturn void child_run(const lj_check *check, lj_host *host, int fd)
{
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3 && null >= 0; i++) dup2(null, i);
    setpgid(0, 0);
    signal(SIGPIPE, SIG_IGN);
    lj_findings findings = {.facts = json_object(), .note_fd = fd};
    lj_note(&findings, "reading the environment of the tree");
    lj_host_load_env(host);
    lj_note(&findings, "%s", check->summary);
    check->run(host, &findings);
    json_t *result =
        json_pack("{s:o, s:O}", "checks", lj_findings_json(&findings, check->name), "facts", findings.facts);
    char *text = json_dumps(result, JSON_COMPACT);
    if (text) write_all(fd, text, strlen(text));
    _exit(0);
}

static lj_status child_start(child *c, const lj_check *check, lj_host *host)
{
    int pipe_fd[2];
    *c = (child){.check = check, .fd = -1, .pid = -1};
    if (!check->run || (check->live_only && !lj_host_live(host))) return LJ_OK;
    if (pipe2(pipe_fd, O_CLOEXEC) != 0) return lj_fail_errno("pipe for check", check->name);
    pid_t pid = fork();
    if (pid < 0) {
        close(pipe_fd[0]), close(pipe_fd[1]);
        return lj_fail_errno("process for check", check->name);
    }
    if (pid == 0) child_run(check, host, pipe_fd[1]);
    setpgid(pid, pid);
    close(pipe_fd[1]);
    fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK);
    double scale = host->time_scale > 0 ? host->time_scale : 1;
    c->pid = pid, c->fd = pipe_fd[0], c->started = lj_now_s(), c->allowed = check->timeout_s * scale;
    c->deadline = c->started + c->allowed, c->grace = RUNNING_GRACE_S * scale;
    return LJ_OK;
}

/* False when the child has said all. */
static bool child_read(child *c)
{
    char buffer[1 << 14];
    for (;;) {
        ssize_t got = read(c->fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == EAGAIN;
        if (got == 0 || c->used + (size_t)got > MAX_REPORT_BYTES) return false;
        if (c->used + (size_t)got + 1 > c->capacity) {
            size_t capacity = (c->used + (size_t)got) * 2 + 1;
            char *grown = realloc(c->text, capacity);
            if (!grown) return false;
            c->text = grown, c->capacity = capacity;
        }
        memcpy(c->text + c->used, buffer, (size_t)got);
        c->used += (size_t)got;
        c->text[c->used] = 0;
    }
}

static void child_end(child *c, bool kill_it)
{
    if (kill_it) {
        kill(-c->pid, SIGKILL);
        kill(c->pid, SIGKILL);
    }
    close(c->fd);
    c->fd = -1;
    if (waitpid(c->pid, NULL, WNOHANG) == 0 && !kill_it) waitpid(c->pid, NULL, 0);
}

/* State letter of a process: 'R' runs or waits for a processor, 'S' and 'D' wait for something. */
static char process_state(pid_t pid)
{
    char path[64], text[512], *end;
    lj_say(path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    if (got <= 0) return '?';
    text[got] = 0;
    end = strrchr(text, ')');
    return end && end[1] ? end[2] : '?';
}

static bool deadline_over(child *c, double now)
{
    if (now < c->deadline) return false;
    if (process_state(c->pid) != 'R' || now >= c->started + c->grace) return true;
    c->deadline = now + 0.05;
    return false;
}

static void children_wait(child *children, size_t count)
{
    for (;;) {
        struct pollfd fds[MAX_CHECKS];
        size_t index[MAX_CHECKS], open_count = 0;
        double now = lj_now_s(), next = now + 10;
        for (size_t i = 0; i < count; i++) {
            if (children[i].fd < 0) continue;
            fds[open_count] = (struct pollfd){children[i].fd, POLLIN, 0}, index[open_count++] = i;
            if (children[i].deadline < next) next = children[i].deadline;
        }
        if (!open_count) return;
        int wait_ms = next > now ? (int)((next - now) * 1000) + 1 : 0;
        (void)poll(fds, open_count, wait_ms);
        now = lj_now_s();
        for (size_t k = 0; k < open_count; k++) {
            child *c = &children[index[k]];
            if (fds[k].revents && !child_read(c)) {
                child_end(c, false);
            } else if (deadline_over(c, now)) {
                c->timed_out = true;
                child_end(c, true);
            }
        }
    }
}

/* The last note's text, "" without one; *body = what follows the notes. */
static const char *notes_skip(child *c, const char **body)
{
    char *at = c->text ? c->text : "", *note = "";
    while (*at == NOTE_MARK) {
        char *end = strchr(at, '\n');
        if (!end) break;
        *end = 0, note = at + 1, at = end + 1;
    }
    *body = at;
    return note;
}

static void child_findings(child *c, const lj_host *host, json_t *checks, json_t *facts)
{
    const char *body, *note = notes_skip(c, &body);
    json_t *result = c->timed_out ? NULL : json_loads(body, 0, NULL);
    if (result) {
        json_array_extend(checks, json_object_get(result, "checks"));
        json_object_update_missing(facts, json_object_get(result, "facts"));
        json_decref(result);
        return;
    }
    lj_findings own = {.note_fd = -1};
    if (c->pid < 0) {
        lj_finding *f = lj_find(&own, LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "asks the running system; %s is a file tree", host->root);
    } else if (c->timed_out) {
        lj_finding *f = lj_find(&own, c->check->stuck_verdict);
        lj_say(f->found, "no answer within %.1f s: %s", c->allowed, note);
        lj_say(f->wanted, "an answer within %.1f s", c->allowed);
        lj_say(f->source, "the check's own time-out, in a child of its own");
        lj_say(f->next_step, "%s",
               c->check->stuck ? c->check->stuck : "see what it was reading; run ljperf doctor again");
    } else {
        lj_finding *f = lj_find(&own, LJ_VERDICT_NOT_AVAILABLE);
        lj_say(f->found, "the check's process ended without an answer: %s", note);
        lj_say(f->next_step, "look for a crash of ljperf in the kernel log");
    }
    json_t *rows = lj_findings_json(&own, c->check->name);
    json_array_extend(checks, rows);
    json_decref(rows);
    lj_findings_release(&own);
}

lj_status lj_checks_run(lj_host *host, const lj_check *checks, size_t count, json_t **result)
{
    child children[MAX_CHECKS];
    lj_status status = LJ_OK;
    size_t started = 0;
    if (count > MAX_CHECKS) count = MAX_CHECKS;
    for (; started < count && status == LJ_OK; started++)
        status = child_start(&children[started], &checks[started], host);
    if (status != LJ_OK) started--;
    children_wait(children, started);
    json_t *list = json_array(), *facts = json_object();
    for (size_t i = 0; i < started; i++) {
        child_findings(&children[i], host, list, facts);
        free(children[i].text);
    }
    json_t *both = json_pack("{s:o, s:o}", "checks", list, "facts", facts);
    if (status == LJ_OK)
        *result = both;
    else
        json_decref(both);
    return status;
}
