#define _GNU_SOURCE
#include "host/child.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_OUTPUT = 16 << 20 };

bool lj_program_find(const char *name, char *path, size_t capacity)
{
    const char *folders = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(path, capacity, "%s", name);
        return access(name, X_OK) == 0;
    }
    if (!folders) folders = "/usr/local/bin:/usr/bin:/bin";
    while (*folders) {
        size_t length = strcspn(folders, ":");
        snprintf(path, capacity, "%.*s/%s", (int)length, folders, name);
        if (length && access(path, X_OK) == 0) return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

typedef struct {
    int in, out, error;
} streams;

static _Noreturn void program_exec(const char *path, const char *const *argv, const lj_program_options *o,
                                   const streams *s)
{
    if (s->in >= 0) dup2(s->in, 0);
    if (s->out >= 0) dup2(s->out, 1);
    if (s->error >= 0) dup2(s->error, 2);
    setpgid(0, 0);
    for (size_t i = 0; o->env && o->env[i]; i++) putenv((char *)o->env[i]);
    if (o->folder && chdir(o->folder) != 0) _exit(126);
    execv(path, (char *const *)argv);
    _exit(127);
}

static bool drain(int fd, lj_text *text)
{
    char buffer[1 << 14];
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got > 0 && text->length < MAX_OUTPUT) lj_text_add_bytes(text, buffer, (size_t)got);
    return got > 0;
}

static void collect(lj_program_result *r, int out, int error, double deadline)
{
    struct pollfd fds[2] = {{out, POLLIN, 0}, {error, POLLIN, 0}};
    lj_text *texts[2] = {&r->output, &r->errors};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        double left = deadline > 0 ? deadline - lj_now_s() : 1;
        if (left <= 0) {
            r->timed_out = true;
            return;
        }
        if (poll(fds, 2, deadline > 0 ? (int)(left * 1000) + 1 : -1) < 0 && errno != EINTR) return;
        for (int i = 0; i < 2; i++)
            if (fds[i].fd >= 0 && fds[i].revents && !drain(fds[i].fd, texts[i])) fds[i].fd = -1;
    }
}

static int wait_for(pid_t pid, lj_program_result *r, double deadline)
{
    int status = 0;
    for (;;) {
        pid_t done = waitpid(pid, &status, deadline > 0 || r->timed_out ? WNOHANG : 0);
        if (done == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (done < 0 && errno != EINTR) return 255;
        if (r->timed_out || (deadline > 0 && lj_now_s() > deadline)) {
            r->timed_out = true;
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            lj_sleep_s(0.02);
            (void)waitpid(pid, &status, WNOHANG);
            return 137;
        }
        lj_sleep_s(0.005);
    }
}

/* Standard input as an unlinked file: no writer, no dead lock. */
static int input_open(const char *text)
{
    if (!text) return open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("input", MFD_CLOEXEC);
    size_t length = strlen(text);
    if (fd >= 0 && (write(fd, text, length) != (ssize_t)length || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

lj_status lj_child_program_run(const char *const *argv, const lj_program_options *options,
                               lj_program_result *result)
{
    static const lj_program_options plain = {0};
    const lj_program_options *o = options ? options : &plain;
    char path[4096];
    int out[2] = {-1, -1}, error[2] = {-1, -1};
    if (!lj_program_find(argv[0], path, sizeof path))
        return lj_fail(LJ_ERR_NOT_FOUND, "program %s: not on PATH; install it", argv[0]);
    *result = (lj_program_result){0};
    lj_text_init(&result->output), lj_text_init(&result->errors);
    streams s = {input_open(o->input), -1, -1};
    if (!o->passthrough && (pipe2(out, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0))
        return lj_fail_errno("pipe for", argv[0]);
    s.out = out[1], s.error = o->together ? out[1] : error[1];
    pid_t pid = fork();
    if (pid < 0) return lj_fail_errno("process for", argv[0]);
    if (pid == 0) program_exec(path, argv, o, &s);
    if (s.in >= 0) close(s.in);
    double deadline = o->timeout_s > 0 ? lj_now_s() + o->timeout_s : 0;
    if (!o->passthrough) {
        close(out[1]), close(error[1]);
        collect(result, out[0], error[0], deadline);
        close(out[0]), close(error[0]);
    }
    result->code = wait_for(pid, result, deadline);
    return LJ_OK;
}

void lj_program_release(lj_program_result *result)
{
    lj_text_release(&result->output);
    lj_text_release(&result->errors);
}

int lj_probe(int (*probe)(const char *argument), const char *argument, double timeout_s)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        unsigned char value = (unsigned char)probe(argument);
        (void)!write(fds[1], &value, 1);
        _exit(0);
    }
    close(fds[1]);
    struct pollfd wait = {fds[0], POLLIN, 0};
    unsigned char value = 0;
    int answer = -1;
    if (pid > 0 && poll(&wait, 1, (int)(timeout_s * 1000)) > 0 && read(fds[0], &value, 1) == 1)
        answer = value;
    close(fds[0]);
    if (pid > 0 && answer < 0) kill(pid, SIGKILL);
    if (pid > 0) (void)waitpid(pid, NULL, WNOHANG);
    return answer;
}
