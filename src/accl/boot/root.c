/* The rendezvous: a thread that gathers the ranks of one communicator, makes their shared segment, hands everything out and ends.
 *
 * A rank comes twice: over TCP, where it shows the id's magic and is told the session's random name, and over the unix socket of
 * that name, which can carry file descriptors. So a stray or stale connection never gets past its first message. */
#define _GNU_SOURCE
#include "accl/boot/boot.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct accl_root {
    uint64_t magic, session;
    accl_address address;
    double timeout_s, deadline; /* the deadline counts from the first rank */
    int listener, local, wake;
    uint32_t ranks, admitted, joined; /* ranks: 0 until the first one names it */
    bool *is_admitted;
    int *sockets, *heaps; /* of joined ranks, else -1 */
    accl_identity *table;
    pthread_t thread;
    struct accl_root *next;
} accl_root;

static struct {
    pthread_mutex_t lock;
    accl_root *first;
} roots = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void close_if(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void root_free(accl_root *root)
{
    for (uint32_t i = 0; i < root->ranks; i++) {
        close_if(&root->sockets[i]);
        close_if(&root->heaps[i]);
    }
    close_if(&root->listener);
    close_if(&root->local);
    close_if(&root->wake);
    free(root->is_admitted);
    free(root->sockets);
    free(root->heaps);
    free(root->table);
    free(root);
}

static lj_status root_size(accl_root *root, uint32_t ranks)
{
    root->is_admitted = calloc(ranks, sizeof *root->is_admitted);
    root->sockets = malloc(ranks * sizeof *root->sockets);
    root->heaps = malloc(ranks * sizeof *root->heaps);
    root->table = calloc(ranks, sizeof *root->table);
    if (!root->is_admitted || !root->sockets || !root->heaps || !root->table)
        return lj_fail(LJ_ERR_NOMEM, "table of %u ranks", ranks);
    for (uint32_t i = 0; i < ranks; i++) root->sockets[i] = root->heaps[i] = -1;
    root->ranks = ranks;
    root->deadline = lj_now_s() + root->timeout_s;
    return LJ_OK;
}

/* True when rank `r` has joined and its connection still stands. */
static bool still_there(accl_root *root, int32_t r)
{
    char byte;
    if (root->sockets[r] < 0) return false;
    ssize_t n = recv(root->sockets[r], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void forget(accl_root *root, int32_t r)
{
    if (root->sockets[r] < 0) return;
    close_if(&root->sockets[r]);
    close_if(&root->heaps[r]);
    root->is_admitted[r] = false;
    root->joined--;
    root->admitted--;
}

static lj_status hello_check(accl_root *root, const accl_boot_hello *hello)
{
    if (hello->host != accl_boot_host())
        return lj_fail(LJ_ERR_UNSUPPORTED, "rank %d is on another host: the host engine serves the ranks of one; use ACCL_ENGINE=vendor across hosts", hello->rank);
    if (hello->version != ACCL_BOOT_VERSION)
        return lj_fail(LJ_ERR_INVALID, "rank %d speaks version %u of the rendezvous, %d here: use one library on all ranks", hello->rank, hello->version, ACCL_BOOT_VERSION);
    if (hello->ranks < 1 || hello->ranks > ACCL_MAX_RANKS || hello->rank < 0 || (uint32_t)hello->rank >= hello->ranks)
        return lj_fail(LJ_ERR_INVALID, "rank %d of %u is out of range", hello->rank, hello->ranks);
    if (!root->ranks) LJ_TRY(root_size(root, hello->ranks));
    if (hello->ranks != root->ranks)
        return lj_fail(LJ_ERR_INVALID, "rank %d says there are %u ranks, others say %u", hello->rank, hello->ranks, root->ranks);
    if (root->is_admitted[hello->rank] && root->sockets[hello->rank] >= 0 && !still_there(root, hello->rank)) forget(root, hello->rank);
    if (root->is_admitted[hello->rank] && root->sockets[hello->rank] >= 0)
        return lj_fail(LJ_ERR_INVALID, "rank %d came twice: each rank of a communicator needs its own number", hello->rank);
    return LJ_OK;
}

static void admit(accl_root *root)
{
    accl_boot_hello hello;
    accl_boot_answer answer = {0};
    int fd = accept4(root->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return;
    double soon = lj_now_s() + 1;
    bool ours = accl_net_receive(fd, &hello, sizeof hello, soon, NULL) == LJ_OK && hello.mark == ACCL_BOOT_MARK && hello.magic == root->magic;
    if (!ours) lj_log(LJ_LOG_INFO, "accl: a connection without this rendezvous's magic was turned away");
    else if (hello_check(root, &hello) != LJ_OK) {
        snprintf(answer.text, sizeof answer.text, "%s", lj_error_message());
        accl_net_send(fd, &answer, sizeof answer, soon, NULL);
    } else {
        answer.session = root->session;
        if (accl_net_send(fd, &answer, sizeof answer, soon, NULL) == LJ_OK && !root->is_admitted[hello.rank]) {
            root->is_admitted[hello.rank] = true;
            root->admitted++;
        }
    }
    close(fd);
}

static void join_one(accl_root *root)
{
    accl_boot_entry entry;
    int heap = -1, fd = accept4(root->local, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return;
    lj_status status = accl_net_receive_fd(fd, &entry, sizeof entry, lj_now_s() + 5, NULL, &heap);
    int32_t rank = entry.identity.rank;
    bool twice = status == LJ_OK && entry.session == root->session && rank >= 0 && (uint32_t)rank < root->ranks && root->sockets[rank] >= 0;
    if (twice) {
        accl_boot_answer answer = {0};
        snprintf(answer.text, sizeof answer.text, "rank %d came twice: each rank of a communicator needs its own number", rank);
        accl_net_send(fd, &answer, sizeof answer, lj_now_s() + 1, NULL);
    }
    if (twice || status != LJ_OK || heap < 0 || entry.session != root->session || rank < 0 || (uint32_t)rank >= root->ranks) {
        close_if(&heap);
        close(fd);
        return;
    }
    if (!root->is_admitted[rank]) {
        root->is_admitted[rank] = true;
        root->admitted++;
    }
    root->sockets[rank] = fd;
    root->heaps[rank] = heap;
    root->table[rank] = entry.identity;
    root->joined++;
}

static void refuse_all(accl_root *root, const char *text)
{
    accl_boot_answer answer = {0};
    snprintf(answer.text, sizeof answer.text, "%s", text);
    for (uint32_t i = 0; i < root->ranks; i++)
        if (root->sockets[i] >= 0) accl_net_send(root->sockets[i], &answer, sizeof answer, lj_now_s() + 1, NULL);
}

static void refuse_late(accl_root *root)
{
    lj_text text;
    lj_text_init(&text);
    lj_text_add(&text, "%u of %u ranks came within %g s; missing:", root->joined, root->ranks, root->timeout_s);
    for (uint32_t i = 0; i < root->ranks && text.length < 300; i++)
        if (root->sockets[i] < 0) lj_text_add(&text, " %u", i);
    lj_text_add(&text, "; start them, or raise ACCL_TIMEOUT");
    refuse_all(root, text.data ? text.data : "not all ranks came");
    lj_text_release(&text);
}

/* Whether `to` needs the heap of `p`: another process, first of its ranks. join.c walks the same list. */
static bool heap_needed(const accl_identity *table, uint32_t p, uint32_t to)
{
    if (table[p].process == table[to].process) return false;
    for (uint32_t i = 0; i < p; i++)
        if (table[i].process == table[p].process) return false;
    return true;
}

static lj_status hand_out_to(accl_root *root, uint32_t to, int segment)
{
    accl_boot_answer answer = {.session = root->session};
    double soon = lj_now_s() + 30;
    int fd = root->sockets[to];
    LJ_TRY(accl_net_send(fd, &answer, sizeof answer, soon, NULL));
    LJ_TRY(accl_net_send(fd, root->table, root->ranks * sizeof *root->table, soon, NULL));
    LJ_TRY(accl_net_send_fd(fd, &root->session, sizeof root->session, segment));
    for (uint32_t p = 0; p < root->ranks; p++)
        if (heap_needed(root->table, p, to)) LJ_TRY(accl_net_send_fd(fd, &root->session, sizeof root->session, root->heaps[p]));
    return LJ_OK;
}

static void hand_out(accl_root *root)
{
    int segment;
    close_if(&root->listener); /* a rank that comes now belongs to the next set-up, and will find its listener */
    if (accl_segment_create(root->ranks, root->session, &segment) != LJ_OK) {
        refuse_all(root, lj_error_message());
        return;
    }
    for (uint32_t i = 0; i < root->ranks; i++)
        if (hand_out_to(root, i, segment) != LJ_OK) lj_log(LJ_LOG_WARN, "accl: rank %u left during the set-up: %s", i, lj_error_message());
    close(segment);
}

static void drop_dead(accl_root *root, const struct pollfd *watched, const int32_t *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (watched[i].revents && !still_there(root, ranks[i])) forget(root, ranks[i]);
}

/* One round of waiting; false when the rendezvous is to end. */
static bool root_turn(accl_root *root)
{
    uint32_t count = 3;
    struct pollfd *watched = calloc(3 + root->ranks, sizeof *watched);
    int32_t *ranks = calloc(3 + root->ranks, sizeof *ranks);
    bool go_on = watched && ranks;
    if (go_on) {
        watched[0] = (struct pollfd){.fd = root->wake, .events = POLLIN};
        watched[1] = (struct pollfd){.fd = root->listener, .events = POLLIN};
        watched[2] = (struct pollfd){.fd = root->local, .events = POLLIN};
        for (uint32_t i = 0; i < root->ranks; i++)
            if (root->sockets[i] >= 0) {
                watched[count] = (struct pollfd){.fd = root->sockets[i], .events = POLLIN};
                ranks[count++] = (int32_t)i;
            }
        double left = root->ranks ? root->deadline - lj_now_s() : 1e6;
        int found = poll(watched, count, left <= 0 ? 0 : left > 1e6 / 1000 ? 1000000 : (int)(left * 1000) + 1);
        go_on = !watched[0].revents && (found != 0 || left > 0 || !root->ranks);
        if (found > 0 && go_on) {
            drop_dead(root, watched + 3, ranks + 3, count - 3);
            if (watched[1].revents) admit(root);
            if (watched[2].revents) join_one(root);
        } else if (!go_on && !watched[0].revents) refuse_late(root);
    }
    free(watched);
    free(ranks);
    return go_on;
}

/* The end of the thread: unless somebody waits for it, it takes its rendezvous along. */
static void root_leave(accl_root *root)
{
    pthread_mutex_lock(&roots.lock);
    accl_root **at = &roots.first;
    while (*at && *at != root) at = &(*at)->next;
    bool unclaimed = *at == root;
    if (unclaimed) {
        *at = root->next;
        pthread_detach(root->thread);
    }
    pthread_mutex_unlock(&roots.lock);
    if (unclaimed) root_free(root);
    else close_if(&root->listener);
}

static void *root_run(void *argument)
{
    accl_root *root = argument;
    while (root_turn(root))
        if (root->ranks && root->joined == root->ranks) {
            hand_out(root);
            break;
        }
    root_leave(root);
    return NULL;
}

/* A forked child has the list but not the threads, and must not hold the sockets open. */
static void roots_forget_in_child(void)
{
    pthread_mutex_init(&roots.lock, NULL);
    while (roots.first) {
        accl_root *next = roots.first->next;
        root_free(roots.first);
        roots.first = next;
    }
}

static void lock_before_fork(void)
{
    pthread_mutex_lock(&roots.lock);
}
static void unlock_in_parent(void)
{
    pthread_mutex_unlock(&roots.lock);
}
static void fork_hooks(void)
{
    pthread_atfork(lock_before_fork, unlock_in_parent, roots_forget_in_child);
}

lj_status accl_root_start(int listener, const accl_address *address, uint64_t magic, double timeout_s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    accl_root *root = calloc(1, sizeof *root);
    char name[64];
    pthread_once(&once, fork_hooks);
    if (!root) {
        close(listener);
        return lj_fail(LJ_ERR_NOMEM, "rendezvous: %zu bytes", sizeof *root);
    }
    *root = (accl_root){.magic = magic, .session = accl_random(), .address = *address, .timeout_s = timeout_s, .listener = listener, .local = -1,
                        .wake = eventfd(0, EFD_CLOEXEC)};
    accl_boot_session_name(root->session, name, sizeof name);
    lj_status status = root->wake < 0 ? lj_fail_errno("open", "eventfd") : accl_net_local_listen(name, &root->local);
    if (status == LJ_OK) {
        pthread_mutex_lock(&roots.lock);
        int failed = pthread_create(&root->thread, NULL, root_run, root);
        if (failed) status = lj_fail(LJ_ERR_NOMEM, "thread of the rendezvous: %s", strerror(failed));
        else {
            root->next = roots.first;
            roots.first = root;
        }
        pthread_mutex_unlock(&roots.lock);
    }
    if (status != LJ_OK) root_free(root);
    return status;
}

static bool same_place(const accl_root *root, const accl_address *address)
{
    return root->address.sin_port == address->sin_port && root->address.sin_addr.s_addr == address->sin_addr.s_addr;
}

/* Takes a rendezvous out of the list, waits for its thread and frees it: the first that matches `magic`, or `address` where given. */
static bool root_end(uint64_t magic, const accl_address *address, bool cancel)
{
    pthread_mutex_lock(&roots.lock);
    accl_root **at = &roots.first;
    while (*at && (address ? !same_place(*at, address) : (*at)->magic != magic)) at = &(*at)->next;
    accl_root *root = *at;
    if (root) *at = root->next;
    pthread_mutex_unlock(&roots.lock);
    if (!root) return false;
    uint64_t one = 1;
    if (cancel && write(root->wake, &one, sizeof one) != sizeof one) lj_log(LJ_LOG_WARN, "accl: cannot wake the rendezvous: %s", strerror(errno));
    pthread_join(root->thread, NULL);
    root_free(root);
    return true;
}

void accl_root_finish(uint64_t magic)
{
    root_end(magic, NULL, false);
}

void accl_root_finish_at(const accl_address *address)
{
    while (root_end(0, address, false)) continue;
}

void accl_root_cancel(uint64_t magic)
{
    root_end(magic, NULL, true);
}
