/* A rank's side of the rendezvous. */
#define _GNU_SOURCE
#include "accl/boot/boot.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

void accl_boot_session_name(uint64_t session, char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "accl-%016" PRIx64, session);
}

static uint64_t address_magic(const accl_address *address)
{
    return (uint64_t)address->sin_addr.s_addr << 16 ^ address->sin_port ^ ACCL_BOOT_MARK;
}

lj_status accl_boot_id_create(accl_boot_id *id)
{
    bool fixed;
    accl_settings settings;
    accl_boot_id made = {.mark = ACCL_BOOT_MARK};
    int listener;
    LJ_TRY(accl_settings_read(&settings));
    LJ_TRY(accl_net_fixed(&made.address, &fixed));
    made.fixed = fixed;
    made.magic = fixed ? address_magic(&made.address) : accl_random();
    if (!fixed) {
        LJ_TRY(accl_net_choose(&made.address));
        LJ_TRY(accl_net_listen(&made.address, &listener));
        LJ_TRY(accl_root_start(listener, &made.address, made.magic, settings.timeout_s));
    }
    *id = made;
    return LJ_OK;
}

void accl_boot_id_cancel(const accl_boot_id *id)
{
    accl_root_cancel(id->magic);
}

static void identity_fill(accl_identity *me, int32_t rank, int32_t device)
{
    cpu_set_t set;
    *me = (accl_identity){.rank = rank, .device = device, .pid = getpid(), .start_time = accl_process_start(), .pid_namespace = accl_process_namespace(),
                          .process = accl_process_name(), .heap_key = accl_heap_key(), .probe = accl_process_probe()};
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    for (int i = 0; i < ACCL_MASK_WORDS * 64 && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) me->processors[i / 64] |= (uint64_t)1 << i % 64;
}

static bool refused_only_for_now(lj_status status, bool connected)
{
    return connected ? status == LJ_ERR_PEER : status == LJ_ERR_IO;
}

/* One attempt: connect, say hello, hear the session. *connected tells how far it came. */
static lj_status greet_once(const accl_boot_id *id, uint32_t ranks, int32_t rank, double deadline, const atomic_int *stop, uint64_t *session, bool *connected)
{
    accl_boot_hello hello = {.mark = ACCL_BOOT_MARK, .magic = id->magic, .host = accl_boot_host(), .version = ACCL_BOOT_VERSION, .ranks = ranks, .rank = rank};
    accl_boot_answer answer;
    int fd;
    *connected = false;
    LJ_TRY(accl_net_connect(&id->address, deadline, &fd));
    *connected = true;
    lj_status status = accl_net_send(fd, &hello, sizeof hello, deadline, stop);
    if (status == LJ_OK) status = accl_net_receive(fd, &answer, sizeof answer, deadline, stop);
    close(fd);
    if (status != LJ_OK) return status;
    answer.text[sizeof answer.text - 1] = '\0';
    if (!answer.session) return lj_fail(LJ_ERR_INVALID, "%s", answer.text);
    *session = answer.session;
    return LJ_OK;
}

/* Nobody there yet (a fixed address before rank 0 listens), or still the listener of an earlier set-up, which hangs up: try again. An id
 * that is not fixed was listened at before anybody had it, so a refusal soon means that its owner is gone. */
static lj_status greet(const accl_boot_id *id, uint32_t ranks, int32_t rank, double deadline, const atomic_int *stop, uint64_t *session)
{
    double give_up = id->fixed ? deadline : lj_now_s() + 2;
    if (give_up > deadline) give_up = deadline;
    for (double pause = 0.0005;; pause = pause < 0.05 ? pause * 2 : pause) {
        bool connected;
        lj_status status = greet_once(id, ranks, rank, deadline, stop, session, &connected);
        if (status == LJ_OK || !refused_only_for_now(status, connected)) return status;
        if (lj_now_s() + pause > give_up)
            return lj_fail_in(status, id->fixed ? "rank %d waited for rank 0 to listen" : "rank %d: the process that made the id is gone, or the id was used already", rank);
        if (stop && atomic_load(stop)) return lj_fail(LJ_ERR_INTERRUPTED, "set-up aborted");
        lj_sleep_s(pause);
    }
}

static lj_status views_receive(int fd, uint32_t rank, double deadline, const atomic_int *stop, accl_boot_result *result)
{
    const accl_identity *table = result->table;
    for (uint32_t p = 0; p < result->ranks; p++) {
        uint32_t first = p;
        uint64_t word;
        int heap;
        if (table[p].process == table[rank].process) continue;
        for (uint32_t i = p; i-- > 0;)
            if (table[i].process == table[p].process) first = i;
        if (first == p) LJ_TRY(accl_net_receive_fd(fd, &word, sizeof word, deadline, stop, &heap));
        else heap = -1;
        /* later ranks of the same process find the view by its key */
        lj_status status = accl_heap_view_get(table[first].heap_key, heap, table[first].heap_bytes, &result->views[p]);
        if (heap >= 0) close(heap);
        LJ_TRY(status);
    }
    return LJ_OK;
}

static lj_status table_receive(int fd, uint32_t rank, double deadline, const atomic_int *stop, accl_boot_result *result)
{
    accl_boot_answer answer;
    uint64_t word;
    int segment;
    LJ_TRY(accl_net_receive(fd, &answer, sizeof answer, deadline, stop));
    answer.text[sizeof answer.text - 1] = '\0';
    if (!answer.session) return lj_fail(LJ_ERR_TIMEOUT, "%s", answer.text);
    LJ_TRY(accl_net_receive(fd, result->table, result->ranks * sizeof *result->table, deadline, stop));
    LJ_TRY(accl_net_receive_fd(fd, &word, sizeof word, deadline, stop, &segment));
    lj_status status = accl_segment_map(&result->segment, segment, result->ranks, answer.session);
    close(segment);
    LJ_TRY(status);
    return views_receive(fd, rank, deadline, stop, result);
}

static lj_status enter(uint64_t session, uint32_t ranks, int32_t rank, int32_t device, double deadline, const atomic_int *stop, accl_boot_result *result)
{
    accl_boot_entry entry = {.session = session};
    char name[64];
    int fd, heap;
    size_t heap_bytes;
    LJ_TRY(accl_heap_share(&heap, &heap_bytes));
    identity_fill(&entry.identity, rank, device);
    entry.identity.heap_bytes = heap_bytes;
    result->ranks = ranks;
    result->table = calloc(ranks, sizeof *result->table);
    result->views = calloc(ranks, sizeof *result->views);
    if (!result->table || !result->views) return lj_fail(LJ_ERR_NOMEM, "table of %u ranks", ranks);
    accl_boot_session_name(session, name, sizeof name);
    LJ_TRY(accl_net_local_connect(name, &fd));
    lj_status status = accl_net_send_fd(fd, &entry, sizeof entry, heap);
    if (status == LJ_OK) status = table_receive(fd, (uint32_t)rank, deadline + 5, stop, result); /* the root's own time-out has the better words */
    close(fd);
    return status;
}

static lj_status root_start_fixed(const accl_boot_id *id, double timeout_s)
{
    accl_address address = id->address;
    int listener;
    accl_root_finish_at(&address);
    LJ_TRY(accl_net_listen(&address, &listener));
    return accl_root_start(listener, &address, id->magic, timeout_s);
}

lj_status accl_boot_join(const accl_boot_id *id, uint32_t ranks, int32_t rank, int32_t device, const accl_settings *settings, const atomic_int *stop, accl_boot_result *result)
{
    double deadline = lj_now_s() + settings->timeout_s;
    uint64_t session;
    *result = (accl_boot_result){0};
    if (id->mark != ACCL_BOOT_MARK) return lj_fail(LJ_ERR_INVALID, "the unique id is not one of ncclGetUniqueId's");
    if (id->fixed && rank == 0) LJ_TRY(root_start_fixed(id, settings->timeout_s));
    lj_status status = greet(id, ranks, rank, deadline, stop, &session);
    if (status == LJ_OK) status = enter(session, ranks, rank, device, deadline, stop, result);
    if (status == LJ_OK) accl_root_finish(id->magic);
    else {
        if (id->fixed && rank == 0) accl_root_cancel(id->magic);
        accl_boot_result_release(result);
    }
    return status;
}

void accl_boot_result_release(accl_boot_result *result)
{
    if (result->views)
        for (uint32_t i = 0; i < result->ranks; i++) accl_heap_view_put(result->views[i]);
    accl_segment_unmap(&result->segment);
    free(result->views);
    free(result->table);
    *result = (accl_boot_result){0};
}
