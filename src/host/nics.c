#define _GNU_SOURCE
#include "host/nics.h"

#include "host/pattern.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_local(lj_host *host, const char *name)
{
    json_t *patterns = lj_json_at(lj_rules(host, "network"), "local"), *pattern;
    size_t i;
    json_array_foreach(patterns, i, pattern) if (lj_host_pattern_find(json_string_value(pattern), name, NULL,
                                                                      0)) return true;
    return false;
}

static char *net_word(lj_host *host, const char *name, const char *file)
{
    char path[LJ_PATH_BYTES];
    lj_say(path, "/sys/class/net/%s/%s", name, file);
    return lj_host_read_word(host, path);
}

/* Names from /proc/net/dev (this namespace's), else from /sys. */
static json_t *names_read(lj_host *host)
{
    char *text = lj_host_read(host, "/proc/net/dev"), *save = NULL;
    json_t *names = json_array();
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *colon = strchr(line, ':');
        if (!colon || strchr(line, '|')) continue;
        *colon = 0;
        lj_json_append_text(names, line + strspn(line, " "));
    }
    if (text) return names;
    json_decref(names);
    return lj_host_list(host, "/sys/class/net");
}

/* Flags and MTU from the kernel, in the namespace we are in (sysfs may show another one's). */
static void live_state(const char *name, bool *up, int *mtu)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, SIOCGIFFLAGS, &request) == 0)
        *up = (request.ifr_flags & IFF_UP) && ((request.ifr_flags & IFF_RUNNING) || strcmp(name, "lo") == 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, SIOCGIFMTU, &request) == 0) *mtu = request.ifr_mtu;
    close(fd);
}

static void tree_state(lj_host *host, const char *name, bool *up, int *mtu)
{
    char *state = net_word(host, name, "operstate"), *flags = net_word(host, name, "flags"),
         *size = net_word(host, name, "mtu"), *carrier = net_word(host, name, "carrier");
    *up = !state || strcmp(state, "down") != 0;
    if (flags && !state) *up = strtol(flags, NULL, 16) & IFF_UP;
    if (carrier && strcmp(carrier, "0") == 0 && strcmp(name, "lo") != 0) *up = false;
    if (size) *mtu = atoi(size);
}

static int prefix_length(uint32_t mask)
{
    int length = 0;
    for (uint32_t m = ntohl(mask); m & 0x80000000u; m <<= 1) length++;
    return length;
}

static void live_addresses(json_t *nics)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) return;
    for (struct ifaddrs *a = list; a; a = a->ifa_next) {
        char text[64];
        size_t i;
        json_t *nic;
        if (!a->ifa_addr || !a->ifa_netmask || a->ifa_addr->sa_family != AF_INET) continue;
        struct sockaddr_in address, mask;
        memcpy(&address, a->ifa_addr, sizeof address), memcpy(&mask, a->ifa_netmask, sizeof mask);
        inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "/%d", prefix_length(mask.sin_addr.s_addr));
        json_array_foreach(nics, i, nic) if (strcmp(lj_json_text(nic, "name"), a->ifa_name) == 0)
            lj_json_append_text(json_object_get(nic, "addresses"), text);
    }
    freeifaddrs(list);
}

/* The network (host order) and prefix of an interface's rows of /proc/net/route; columns: Iface Destination
 * Gateway ... Mask. */
typedef struct {
    char name[32];
    uint32_t network, mask;
} route;

static size_t routes_read(lj_host *host, route *routes, size_t capacity)
{
    char *text = lj_host_read(host, "/proc/net/route"), *save = NULL;
    size_t count = 0;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char name[32];
        unsigned destination, mask;
        if (sscanf(line, "%31s %x %*x %*x %*d %*d %*d %x", name, &destination, &mask) != 3 ||
            count == capacity)
            continue;
        routes[count] = (route){.network = ntohl(destination), .mask = ntohl(mask)};
        lj_say(routes[count].name, "%s", name);
        count++;
    }
    return count;
}

/* A tree has no kernel to ask: local addresses stand in fib_trie ("|-- 10.0.0.2" before "/32 host LOCAL"),
 * their interface in the routes. */
static void tree_addresses(lj_host *host, json_t *nics)
{
    route routes[64];
    size_t count = routes_read(host, routes, 64), i, k;
    char *text = lj_host_read(host, "/proc/net/fib_trie"), *save = NULL, last[64] = "";
    json_t *nic, *seen = json_object();
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *leaf = strstr(line, "|-- ");
        if (leaf) lj_say(last, "%s", leaf + 4);
        struct in_addr address;
        if (!strstr(line, "/32 host LOCAL") || json_object_get(seen, last) ||
            inet_pton(AF_INET, last, &address) != 1)
            continue;
        json_object_set_new(seen, last, json_true());
        uint32_t value = ntohl(address.s_addr);
        for (k = 0; k < count; k++) {
            if (!routes[k].mask || (value & routes[k].mask) != routes[k].network) continue;
            json_array_foreach(nics, i, nic) if (strcmp(lj_json_text(nic, "name"), routes[k].name) == 0)
                json_array_append_new(json_object_get(nic, "addresses"),
                                      json_sprintf("%s/%d", last, prefix_length(htonl(routes[k].mask))));
            break;
        }
    }
    json_decref(seen);
}

json_t *lj_nics_read(lj_host *host)
{
    json_t *names = names_read(host), *nics = json_array(), *name;
    size_t i;
    json_array_foreach(names, i, name)
    {
        const char *word = json_string_value(name);
        bool up = false;
        int mtu = 0;
        if (lj_host_live(host))
            live_state(word, &up, &mtu);
        else
            tree_state(host, word, &up, &mtu);
        char *speed = net_word(host, word, "speed");
        json_array_append_new(nics, json_pack("{s:O, s:b, s:b, s:i, s:i, s:[]}", "name", name, "up", up,
                                              "local", is_local(host, word), "mtu", mtu, "speed_mbit",
                                              speed && atoi(speed) > 0 ? atoi(speed) : 0, "addresses"));
    }
    json_decref(names);
    if (lj_host_live(host))
        live_addresses(nics);
    else
        tree_addresses(host, nics);
    return nics;
}

bool lj_nics_default_route(lj_host *host, char *name, size_t capacity)
{
    route routes[64];
    size_t count = routes_read(host, routes, 64);
    for (size_t i = 0; i < count; i++)
        if (!routes[i].network && !routes[i].mask) return snprintf(name, capacity, "%s", routes[i].name) > 0;
    return false;
}

bool lj_address_parse(const char *text, uint32_t *address, int *length)
{
    char copy[64];
    struct in_addr value;
    lj_say(copy, "%s", text);
    char *slash = strchr(copy, '/');
    if (!slash) return false;
    *slash = 0;
    if (inet_pton(AF_INET, copy, &value) != 1) return false;
    *address = ntohl(value.s_addr);
    *length = atoi(slash + 1);
    return *length >= 0 && *length <= 32;
}

bool lj_address_private(uint32_t a)
{
    return a >> 24 == 10 || a >> 20 == 0xac1 || a >> 16 == 0xc0a8 || a >> 16 == 0xa9fe ||
           a >> 22 == (100u << 2 | 1);
}
