/* Network interfaces of the view. */
#ifndef LJ_HOST_NICS_H
#define LJ_HOST_NICS_H

#include "host/host.h"

/* Array of {name, up, local, mtu, speed_mbit, addresses: ["10.0.0.2/24", ...]} in the kernel's order;
 * `local`: leads to no other host (lo, bridges; data/rules/network.yaml). A live view asks the kernel's own
 * namespace, a tree its /proc/net and /sys/class/net. New reference. */
json_t *lj_nics_read(lj_host *host);
/* Interface of the default route; false when there is none. */
bool lj_nics_default_route(lj_host *host, char *name, size_t capacity);
/* "10.1.2.3/24" -> network and prefix length; false when it is no such text. */
bool lj_address_parse(const char *text, uint32_t *address, int *length);
/* 10/8, 172.16/12, 192.168/16, 169.254/16, 100.64/10: addresses that are not routed between sites. */
bool lj_address_private(uint32_t address);

#endif
