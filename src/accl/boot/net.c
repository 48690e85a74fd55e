#define _GNU_SOURCE
#include "accl/boot/net.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *accl_net_text(const accl_address *address, char *buffer, size_t capacity)
{
    char ip[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &address->sin_addr, ip, sizeof ip);
    snprintf(buffer, capacity, "%s:%u", ip, ntohs(address->sin_port));
    return buffer;
}

/* Lower is better. Bridges of containers and virtual machines often have one private address on every host. */
static int interface_rank(const struct ifaddrs *i)
{
    static const char *const virtual[] = {"docker", "virbr", "br-", "veth", "lxc", "lxd", "cni", "podman", "flannel", "cali", "tun", "tap"};
    if (i->ifa_flags & IFF_LOOPBACK) return 0;
    for (size_t v = 0; v < sizeof virtual / sizeof *virtual; v++)
        if (strncmp(i->ifa_name, virtual[v], strlen(virtual[v])) == 0) return 2;
    return 1;
}

static bool name_in_list(const char *name, const char *list, bool exact)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n && strncmp(name, list, n) == 0 && (!exact || name[n] == '\0')) return true;
        list += n + (list[n] == ',');
    }
    return false;
}

static bool interface_allowed(const char *name)
{
    const char *list = getenv("NCCL_SOCKET_IFNAME");
    if (!list || !*list) return true;
    bool except = *list == '^';
    list += except;
    bool exact = *list == '=';
    list += exact;
    return name_in_list(name, list, exact) != except;
}

static bool interface_usable(const struct ifaddrs *i, lj_text *looked)
{
    if (!interface_allowed(i->ifa_name)) {
        lj_text_add(looked, "%s%s (excluded by NCCL_SOCKET_IFNAME)", looked->length ? ", " : "", i->ifa_name);
        return false;
    }
    if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP) return true;
    /* every interface has a packet row; others only repeat it */
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_PACKET) return false;
    if (!(i->ifa_flags & IFF_UP)) lj_text_add(looked, "%s%s (down)", looked->length ? ", " : "", i->ifa_name);
    return false;
}

lj_status accl_net_choose(accl_address *address)
{
    struct ifaddrs *list, *best = NULL;
    lj_text looked;
    if (getifaddrs(&list) != 0) return lj_fail_errno("list", "network interfaces");
    lj_text_init(&looked);
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (!interface_usable(i, &looked)) continue;
        if (!best || interface_rank(i) < interface_rank(best)) best = i;
        else lj_text_add(&looked, "%s%s (not needed)", looked.length ? ", " : "", i->ifa_name);
    }
    lj_status status = LJ_OK;
    if (best) {
        memcpy(address, best->ifa_addr, sizeof *address);
        address->sin_port = 0;
        lj_log(LJ_LOG_DEBUG, "accl: interface %s; skipped: %s", best->ifa_name, looked.length ? looked.data : "none");
    } else
        status = lj_fail(LJ_ERR_NOT_FOUND, "no interface found, looked at: %s; bring one up (ip link set lo up) or set NCCL_SOCKET_IFNAME",
                         looked.length ? looked.data : "none (no interface has an IPv4 address)");
    lj_text_release(&looked);
    freeifaddrs(list);
    return status;
}

lj_status accl_net_fixed(accl_address *address, bool *set)
{
    const char *text = getenv("NCCL_COMM_ID"), *colon = text ? strrchr(text, ':') : NULL;
    *set = text && *text;
    if (!*set) return LJ_OK;
    char host[256], *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    if (!colon || *end || port < 1 || port > 65535 || (size_t)(colon - text) >= sizeof host)
        return lj_fail(LJ_ERR_INVALID, "NCCL_COMM_ID=%s: expected address:port", text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    int failed = getaddrinfo(host, NULL, &hints, &found);
    if (failed) return lj_fail(LJ_ERR_NOT_FOUND, "NCCL_COMM_ID=%s: %s", text, gai_strerror(failed));
    memcpy(address, found->ai_addr, sizeof *address);
    address->sin_port = htons((uint16_t)port);
    freeaddrinfo(found);
    return LJ_OK;
}

static lj_status port_range(unsigned *low, unsigned *high)
{
    const char *text = getenv("ACCL_PORT_RANGE");
    *low = *high = 0;
    if (!text || !*text) return LJ_OK;
    char end;
    if (sscanf(text, "%u-%u%c", low, high, &end) != 2 || *low < 1 || *high > 65535 || *low > *high)
        return lj_fail(LJ_ERR_INVALID, "ACCL_PORT_RANGE=%s: expected low-high, such as 50000-50031", text);
    return LJ_OK;
}

static int listen_at(const accl_address *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* connections of an earlier set-up may linger */
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) == 0 && listen(fd, 1024) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static lj_status listen_failed(const accl_address *address, unsigned low, unsigned high)
{
    char text[64];
    int error = errno;
    accl_net_text(address, text, sizeof text);
    if (low) return lj_fail(LJ_ERR_IO, "no free port in ACCL_PORT_RANGE %u-%u at %s: the last one: %s; widen the range", low, high, text, strerror(error));
    if (error == EADDRINUSE) return lj_fail(LJ_ERR_IO, "%s: port in use by another process; choose another NCCL_COMM_ID", text);
    return lj_fail(LJ_ERR_IO, "listen at %s: %s", text, strerror(error));
}

lj_status accl_net_listen(accl_address *address, int *fd)
{
    unsigned low = 0, high = 0;
    if (address->sin_port == 0) LJ_TRY(port_range(&low, &high));
    unsigned span = high - low + 1, start = (unsigned)getpid() % span;
    for (unsigned i = 0; i < span; i++) {
        if (low) address->sin_port = htons((uint16_t)(low + (start + i) % span));
        int made = listen_at(address);
        if (made < 0) continue;
        socklen_t length = sizeof *address;
        getsockname(made, (struct sockaddr *)address, &length);
        *fd = made;
        return LJ_OK;
    }
    return listen_failed(address, low, high);
}

static lj_status connect_failed(int fd, const accl_address *address, int error)
{
    accl_address local = {.sin_family = AF_INET};
    socklen_t length = sizeof local;
    char here[64], there[64];
    getsockname(fd, (struct sockaddr *)&local, &length);
    close(fd);
    return lj_fail(error == ETIMEDOUT ? LJ_ERR_TIMEOUT : LJ_ERR_IO, "connect from %s to %s: %s", accl_net_text(&local, here, sizeof here),
                   accl_net_text(address, there, sizeof there), strerror(error));
}

lj_status accl_net_connect(const accl_address *address, double deadline, int *fd)
{
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, error = 0;
    socklen_t length = sizeof error;
    if (made < 0) return lj_fail_errno("open", "socket");
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(made, (const struct sockaddr *)address, sizeof *address) != 0) {
        if (errno != EINPROGRESS) return connect_failed(made, address, errno);
        double left = deadline - lj_now_s();
        struct pollfd wait = {.fd = made, .events = POLLOUT};
        if (poll(&wait, 1, left > 0 ? (int)(left < 1e6 ? left * 1000 : 1e9) : 0) <= 0) return connect_failed(made, address, ETIMEDOUT);
        getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error) return connect_failed(made, address, error);
    }
    *fd = made;
    return LJ_OK;
}

static socklen_t local_name(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strlen(name);
    if (n > sizeof address->sun_path - 1) n = sizeof address->sun_path - 1;
    memcpy(address->sun_path + 1, name, n); /* a leading zero: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

lj_status accl_net_local_listen(const char *name, int *fd)
{
    struct sockaddr_un address;
    socklen_t length = local_name(name, &address);
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return lj_fail_errno("open", "unix socket");
    if (bind(made, (struct sockaddr *)&address, length) == 0 && listen(made, 1024) == 0) return *fd = made, LJ_OK;
    lj_fail_errno("listen at unix socket", name);
    close(made);
    return LJ_ERR_IO;
}

lj_status accl_net_local_connect(const char *name, int *fd)
{
    struct sockaddr_un address;
    socklen_t length = local_name(name, &address);
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return lj_fail_errno("open", "unix socket");
    if (connect(made, (struct sockaddr *)&address, length) == 0) return *fd = made, LJ_OK;
    lj_fail_errno("connect to unix socket", name);
    close(made);
    return LJ_ERR_IO;
}

/* Waits until fd is ready, in slices so that *stop is seen. */
static lj_status ready_wait(int fd, short events, double deadline, const atomic_int *stop)
{
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = events};
        double left = deadline - lj_now_s();
        if (stop && atomic_load(stop)) return lj_fail(LJ_ERR_INTERRUPTED, "set-up aborted");
        if (left <= 0) return lj_fail(LJ_ERR_TIMEOUT, "no answer from the rendezvous in time");
        int found = poll(&wait, 1, left < 0.05 ? (int)(left * 1000) + 1 : 50);
        if (found > 0) return LJ_OK;
        if (found < 0 && errno != EINTR) return lj_fail_errno("poll", "socket");
    }
}

static bool again(void)
{
    return errno == EAGAIN || errno == EINTR;
}

lj_status accl_net_send(int fd, const void *data, size_t bytes, double deadline, const atomic_int *stop)
{
    for (const char *at = data; bytes;) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && !again()) return lj_fail(LJ_ERR_PEER, "send to the rendezvous: %s", strerror(errno));
        if (n < 0) LJ_TRY(ready_wait(fd, POLLOUT, deadline, stop));
        else at += n, bytes -= (size_t)n;
    }
    return LJ_OK;
}

lj_status accl_net_receive(int fd, void *data, size_t bytes, double deadline, const atomic_int *stop)
{
    for (char *at = data; bytes;) {
        ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
        if (n == 0) return lj_fail(LJ_ERR_PEER, "the other end of the rendezvous closed the connection");
        if (n < 0 && !again()) return lj_fail(LJ_ERR_PEER, "receive from the rendezvous: %s", strerror(errno));
        if (n < 0) LJ_TRY(ready_wait(fd, POLLIN, deadline, stop));
        else at += n, bytes -= (size_t)n;
    }
    return LJ_OK;
}

lj_status accl_net_send_fd(int socket, const void *data, size_t bytes, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    ssize_t n;
    do n = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)bytes) return lj_fail(LJ_ERR_PEER, "pass a file over the rendezvous: %s", n < 0 ? strerror(errno) : "cut short");
    return LJ_OK;
}

lj_status accl_net_receive_fd(int socket, void *data, size_t bytes, double deadline, const atomic_int *stop, int *fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    LJ_TRY(ready_wait(socket, POLLIN, deadline, stop));
    ssize_t n;
    do n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return lj_fail(LJ_ERR_PEER, "the rendezvous closed the connection");
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    *fd = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(c), sizeof *fd);
    if ((size_t)n < bytes) LJ_TRY(accl_net_receive(socket, (char *)data + n, bytes - (size_t)n, deadline, stop));
    return LJ_OK;
}
