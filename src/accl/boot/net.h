/* Sockets of the rendezvous: which interface, which port, and transfers that end by a deadline. */
#ifndef ACCL_BOOT_NET_H
#define ACCL_BOOT_NET_H

#include "base/status.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct sockaddr_in accl_address;

/* The address to listen at: the interface that NCCL_SOCKET_IFNAME allows ("eth,ib" prefixes, "=eth0" exactly, "^docker" all but), else
 * loopback, then real interfaces, bridges and containers' last: all ranks are on this host. The message lists what was looked at. */
lj_status accl_net_choose(accl_address *address);
/* NCCL_COMM_ID ("10.0.0.1:29500", "localhost:29500"). *set = false when the variable is unset. */
lj_status accl_net_fixed(accl_address *address, bool *set);
/* Listens at address; port 0: within ACCL_PORT_RANGE ("50000-50031") or any. The port is written back. */
lj_status accl_net_listen(accl_address *address, int *fd);
/* Connects; on failure the message names both ends. */
lj_status accl_net_connect(const accl_address *address, double deadline, int *fd);
/* Abstract unix socket of a name; visible inside this network namespace only and gone with its owner. */
lj_status accl_net_local_listen(const char *name, int *fd);
lj_status accl_net_local_connect(const char *name, int *fd);

/* Whole transfers. LJ_ERR_TIMEOUT at the deadline (lj_now_s), LJ_ERR_INTERRUPTED when *stop is set, LJ_ERR_PEER when the other end closed. */
lj_status accl_net_send(int fd, const void *data, size_t bytes, double deadline, const atomic_int *stop);
lj_status accl_net_receive(int fd, void *data, size_t bytes, double deadline, const atomic_int *stop);
/* The same with one file descriptor riding along (unix sockets). */
lj_status accl_net_send_fd(int socket, const void *data, size_t bytes, int fd);
lj_status accl_net_receive_fd(int socket, void *data, size_t bytes, double deadline, const atomic_int *stop, int *fd);

const char *accl_net_text(const accl_address *address, char *buffer, size_t capacity);

#endif
