/* Interfaces: which one the job's sockets take and why; the host's own name; RDMA devices and their links. */
#define _GNU_SOURCE
#include "host/cgroup.h"
#include "host/check.h"
#include "host/nics.h"
#include "host/pattern.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *addresses(const json_t *nic, char *out, size_t capacity)
{
    return lj_json_join(json_object_get(nic, "addresses"), 3, out, capacity);
}

/* NCCL's syntax: a list of prefixes; '=' before the list asks for exact names, '^' excludes. */
static bool spec_matches(const char *spec, const char *name)
{
    bool exclude = *spec == '^', exact, hit = false;
    spec += exclude;
    exact = *spec == '=';
    spec += exact;
    while (*spec) {
        char one[64];
        size_t length = strcspn(spec, ",");
        lj_say(one, "%.*s", (int)strcspn(spec, ",:"), spec);
        if (*one && (exact ? strcmp(name, one) == 0 : strncmp(name, one, strlen(one)) == 0)) hit = true;
        spec += length + (spec[length] == ',');
    }
    return hit != exclude;
}

static bool names_nothing(const json_t *nics, const char *spec)
{
    size_t i;
    json_t *nic;
    if (*spec == '^') return false;
    json_array_foreach(nics, i, nic) if (spec_matches(spec, lj_json_text(nic, "name"))) return false;
    return true;
}

static int card_count(lj_host *host)
{
    const char *from;
    int cards = (int)lj_json_number(host->job, "cards", 0), ranks = lj_host_ranks(host, &from);
    if (cards > 0) return cards;
    return strcmp(from, "one process") == 0 ? 0 : ranks;
}

/* What the images' notes say for this number of cards: "eth0", "hpn0", "" when they say nothing. */
static const char *advised_interface(lj_host *host, int cards)
{
    json_t *rows = lj_json_at(lj_rules(host, "network"), "cards"), *row, *number;
    size_t i, k;
    json_array_foreach(rows, i, row) json_array_foreach(
        json_object_get(row, "cards"), k,
        number) if (json_integer_value(number) == cards) return lj_json_text(row, "interface");
    return "";
}

static json_t *nic_named(const json_t *nics, const char *name)
{
    size_t i;
    json_t *nic;
    json_array_foreach(nics, i, nic) if (strcmp(lj_json_text(nic, "name"), name) == 0) return nic;
    return NULL;
}

static bool usable(const json_t *nic)
{
    return json_is_true(json_object_get(nic, "up")) && !json_is_true(json_object_get(nic, "local"));
}

static bool reachable(const json_t *nic)
{
    return usable(nic) && json_array_size(json_object_get(nic, "addresses"));
}

/* The interface that is taken, and the reason in words. */
static json_t *choose(lj_host *host, json_t *nics, int cards, char *why, size_t capacity)
{
    const char *spec = lj_host_env(host, "NCCL_SOCKET_IFNAME"), *advised = advised_interface(host, cards);
    size_t i;
    json_t *nic;
    if (spec && *spec) {
        snprintf(why, capacity, "NCCL_SOCKET_IFNAME=%s", spec);
        json_array_foreach(nics, i, nic) if (spec_matches(spec, lj_json_text(nic, "name")) &&
                                             (*spec != '^' || reachable(nic))) return nic;
        return NULL;
    }
    if (*advised && (nic = nic_named(nics, advised)) && usable(nic)) {
        snprintf(why, capacity, "the images' notes for %d card(s)", cards);
        return nic;
    }
    char route[64];
    if (lj_nics_default_route(host, route, sizeof route) && (nic = nic_named(nics, route)) &&
        json_is_true(json_object_get(nic, "up"))) {
        snprintf(why, capacity, "it has the default route");
        return nic;
    }
    snprintf(why, capacity, "the first that is up, has an address and leads to other hosts");
    json_array_foreach(nics, i, nic) if (reachable(nic)) return nic;
    json_array_foreach(nics, i, nic) if (usable(nic) && !lj_host_live(host) &&
                                         !lj_host_exists(host, "/proc/net/fib_trie")) return nic;
    return NULL;
}

static void variables_judge(lj_host *host, lj_findings *out, const json_t *nics)
{
    json_t *names = lj_json_at(lj_rules(host, "network"), "interface_variables"), *name;
    size_t i, k;
    char list[256] = "";
    json_t *nic, *known = json_array();
    json_array_foreach(nics, k, nic) lj_json_append_text(known, lj_json_text(nic, "name"));
    lj_json_join(known, 10, list, sizeof list);
    json_decref(known);
    json_array_foreach(names, i, name)
    {
        const char *spec = lj_host_env(host, json_string_value(name));
        if (!spec || !*spec || strstr(spec, "mlx") || strcmp(spec, "all") == 0 || !names_nothing(nics, spec))
            continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->part, "%s", json_string_value(name));
        lj_say(f->found, "%s=%s names no interface of this host (there are: %s)", json_string_value(name),
               spec, *list ? list : "none");
        lj_say(f->wanted, "a name from the list");
        lj_say(f->source, "%s; /proc/net/dev", host->env_source);
        lj_say(f->next_step,
               "correct it: eth0 for 1, 2, 4 or 8 cards in a pod, hpn0 for the whole 16-card machine");
    }
}

static void none_found(lj_host *host, lj_findings *out, const json_t *nics)
{
    size_t i;
    json_t *nic;
    bool lo_up = false, many = lj_host_nodes(host) > 1;
    json_array_foreach(nics, i, nic) lo_up |=
        strcmp(lj_json_text(nic, "name"), "lo") == 0 && json_is_true(json_object_get(nic, "up"));
    lj_finding *f = lj_find(out, !lo_up || many ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN);
    lj_say(f->found, lo_up ? "only interfaces that lead to no other host (lo and bridges)"
                           : "no network interface is up, not even lo");
    lj_say(f->wanted, "an interface that is up and has an address");
    lj_say(f->source, "/proc/net/dev and the kernel's interface list");
    lj_say(f->next_step, lo_up ? "jobs on this host alone work; for more hosts start the container with "
                                 "--network=host, or plug an interface in"
                               : "ip link set lo up; start the container with a network (--network=host)");
}

static void chosen_judge(lj_host *host, lj_findings *out, json_t *nic, const char *why, int cards)
{
    char list[256];
    const char *name = lj_json_text(nic, "name"), *advised = advised_interface(host, cards);
    double mtu = lj_json_number(nic, "mtu", 0),
           least = lj_json_number(lj_rules(host, "network"), "mtu_least", 0);
    bool up = json_is_true(json_object_get(nic, "up")), local = json_is_true(json_object_get(nic, "local")),
         many = lj_host_nodes(host) > 1;
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->found, "%s (%s, MTU %.0f, %s) is taken: %s", name,
           *addresses(nic, list, sizeof list) ? list : "no address", mtu, up ? "up" : "down", why);
    lj_say(f->source, "/proc/net/dev, routes; %s",
           lj_json_text_at(lj_rules(host, "network"), "sources.choice"));
    lj_say(f->wanted, "an interface that is up and leads to the other hosts");
    if (!up) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->next_step, "ip link set %s up, or name another interface in NCCL_SOCKET_IFNAME", name);
    } else if (local && many) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->next_step,
               "%s leads to no other host: name the right one in NCCL_SOCKET_IFNAME (eth0, hpn0)", name);
    } else if (*advised && strcmp(advised, name) != 0 && lj_host_env(host, "NCCL_SOCKET_IFNAME")) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->wanted, "%s for %d card(s)", advised, cards);
        lj_say(f->next_step, "NCCL_SOCKET_IFNAME=%s", advised);
    } else if (mtu > 0 && mtu < least) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->wanted, "an MTU of at least %.0f", least);
        lj_say(f->next_step, "ip link set %s mtu 1500: small packets cost a processor's time", name);
    }
}

void lj_check_network(lj_host *host, lj_findings *out)
{
    json_t *nics = lj_nics_read(host);
    char why[256] = "";
    int cards = card_count(host);
    json_object_set(out->facts, "interfaces", nics);
    if (json_array_size(nics) == 0 && !lj_host_live(host)) {
        lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "no interfaces in the view");
        json_decref(nics);
        return;
    }
    variables_judge(host, out, nics);
    json_t *nic = choose(host, nics, cards, why, sizeof why);
    json_object_set_new(out->facts, "interface", json_string(nic ? lj_json_text(nic, "name") : ""));
    if (nic)
        chosen_judge(host, out, nic, why, cards);
    else if (!out->count)
        none_found(host, out, nics);
    json_decref(nics);
}

/* --- host name --- */

/* The address /etc/hosts gives to a name; false when it has none. */
static bool hosts_file(lj_host *host, const char *name, char *address, size_t capacity)
{
    char *text = lj_host_read(host, "/etc/hosts"), *save = NULL;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *inner = NULL;
        line[strcspn(line, "#")] = 0;
        char *first = strtok_r(line, " \t\r", &inner);
        for (char *word = first ? strtok_r(NULL, " \t\r", &inner) : NULL; word;
             word = strtok_r(NULL, " \t\r", &inner))
            if (strcmp(word, name) == 0 && !strchr(first, ':'))
                return snprintf(address, capacity, "%s", first) > 0;
    }
    return false;
}

static bool resolver(const lj_findings *out, const char *name, char *address, size_t capacity)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    lj_note(out, "resolving %s", name);
    if (getaddrinfo(name, NULL, &hints, &found) != 0) return false;
    bool good = getnameinfo(found->ai_addr, found->ai_addrlen, address, (socklen_t)capacity, NULL, 0,
                            NI_NUMERICHOST) == 0;
    freeaddrinfo(found);
    return good;
}

void lj_check_host_name(lj_host *host, lj_findings *out)
{
    char own[256] = "", address[64] = "";
    char *word = lj_host_read_word(host, "/proc/sys/kernel/hostname");
    if (!word) word = lj_host_read_word(host, "/etc/hostname");
    lj_say(own, "%s", word ? word : "");
    if (lj_host_live(host)) (void)gethostname(own, sizeof own - 1);
    json_object_set_new(out->facts, "host_name", lj_json_string(own));
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->source, "/etc/hosts%s", lj_host_live(host) ? " and the resolver" : "");
    lj_say(f->wanted, "an address that other hosts can reach");
    bool known = *own && (hosts_file(host, own, address, sizeof address) ||
                          (lj_host_live(host) && resolver(out, own, address, sizeof address)));
    if (!*own) {
        f->verdict = LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, "no host name in the view");
    } else if (!known) {
        f->verdict = lj_host_live(host) || lj_host_exists(host, "/etc/hosts") ? LJ_VERDICT_WARN
                                                                              : LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, "the host's name %s leads to no address", own);
        lj_say(f->next_step, "add a line with its address and name to /etc/hosts, or name the interface "
                             "(GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME)");
    } else if (strncmp(address, "127.", 4) == 0) {
        f->verdict = lj_host_nodes(host) > 1 ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN;
        lj_say(f->found,
               "the host's name %s leads to %s: ranks would tell their peers an address that leads back to "
               "the peer itself",
               own, address);
        lj_say(
            f->next_step,
            "put the real address before %s in /etc/hosts, or set GLOO_SOCKET_IFNAME / NCCL_SOCKET_IFNAME%s",
            own, lj_host_nodes(host) > 1 ? "" : " (matters only for jobs on several hosts)");
    } else {
        lj_say(f->found, "%s leads to %s", own, address);
    }
}

/* --- RDMA --- */

static char *port_word(lj_host *host, const char *port, const char *name)
{
    char path[LJ_PATH_BYTES];
    lj_say(path, "%s/%s", port, name);
    return lj_host_read_word(host, path);
}

static json_t *port_row(lj_host *host, const char *path)
{
    char device[128], *state = port_word(host, path, "state"), *phys = port_word(host, path, "phys_state"),
                      *rate = port_word(host, path, "rate"), *layer = port_word(host, path, "link_layer");
    const char *start = path + strlen("/sys/class/infiniband/");
    lj_say(device, "%.*s", (int)strcspn(start, "/"), start);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b}", "device", lj_json_string(device), "port",
                     lj_json_string(strrchr(path, '/') + 1), "state", lj_json_string(state ? state : "?"),
                     "rate", lj_json_string(rate ? rate : "?"), "link", lj_json_string(layer ? layer : "?"),
                     "active", state && strstr(state, "ACTIVE") && (!phys || strstr(phys, "LinkUp")));
}

static void port_judge(lj_findings *out, const json_t *row, bool others_active)
{
    if (json_is_true(json_object_get(row, "active"))) return;
    lj_finding *f = lj_find(out, others_active ? LJ_VERDICT_WARN : LJ_VERDICT_FAIL);
    lj_say(f->part, "%s", lj_json_text(row, "device"));
    lj_say(f->found, "RDMA device %s port %s: %s (%s)", lj_json_text(row, "device"),
           lj_json_text(row, "port"), lj_json_text(row, "state"), lj_json_text(row, "link"));
    lj_say(f->wanted, "4: ACTIVE");
    lj_say(f->source, "/sys/class/infiniband/*/ports");
    lj_say(f->next_step,
           strstr(lj_json_text(row, "state"), "INIT")
               ? "the link is up but no subnet manager has set it: start opensm or ask the fabric's operator"
               : "check cable, transceiver and switch port; leave the device out with NCCL_IB_HCA=^%s until "
                 "then",
           lj_json_text(row, "device"));
}

static void rates_judge(lj_findings *out, const json_t *ports)
{
    size_t i;
    json_t *row, *first = NULL;
    json_array_foreach(ports, i, row)
    {
        if (!json_is_true(json_object_get(row, "active"))) continue;
        if (!first) first = row;
        if (strcmp(lj_json_text(row, "rate"), lj_json_text(first, "rate")) == 0) continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
        lj_say(f->part, "%s", lj_json_text(row, "device"));
        lj_say(f->found, "RDMA links of different rates: %s %s, %s %s", lj_json_text(first, "device"),
               lj_json_text(first, "rate"), lj_json_text(row, "device"), lj_json_text(row, "rate"));
        lj_say(f->wanted, "one rate for all links that a job uses");
        lj_say(f->source, "/sys/class/infiniband/*/ports/*/rate");
        lj_say(f->next_step,
               "the slowest link sets the pace: check cable and port, or name the fast ones in NCCL_IB_HCA");
        return;
    }
}

static void hca_judge(lj_host *host, lj_findings *out, const json_t *ports)
{
    const char *spec = lj_host_env(host, "NCCL_IB_HCA");
    size_t i;
    json_t *row;
    if (!spec || !*spec || *spec == '^' || json_array_size(ports) == 0) return;
    json_array_foreach(ports, i, row) if (spec_matches(spec, lj_json_text(row, "device"))) return;
    lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
    lj_say(f->part, "NCCL_IB_HCA");
    lj_say(f->found, "NCCL_IB_HCA=%s names no RDMA device of this host (the first is %s)", spec,
           lj_json_text(json_array_get(ports, 0), "device"));
    lj_say(f->wanted, "names of /sys/class/infiniband");
    lj_say(f->source, "%s; /sys/class/infiniband", host->env_source);
    lj_say(f->next_step, "correct NCCL_IB_HCA or unset it");
}

static bool module_loaded(lj_host *host, const char *name)
{
    char *text = lj_host_read(host, "/proc/modules"), key[96], path[128];
    lj_say(key, "%s ", name);
    char *at = text ? strstr(text, key) : NULL;
    lj_say(path, "/sys/module/%s", name);
    return (at && (at == text || at[-1] == '\n')) || lj_host_exists(host, path);
}

static void rdma_extras(lj_host *host, lj_findings *out)
{
    json_t *verbs = lj_host_glob(host, "/dev/infiniband/uverbs*");
    bool dev = lj_host_live(host) || lj_host_exists(host, "/dev/null") ||
               lj_host_exists(host, "/dev/infiniband") || lj_host_exists(host, "/dev/nvidiactl");
    if (dev && json_array_size(verbs) == 0) {
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->part, "uverbs");
        lj_say(f->found, "RDMA devices are there, but no /dev/infiniband/uverbs*");
        lj_say(f->wanted, "one uverbs file for each device");
        lj_say(f->source, "/dev/infiniband");
        lj_say(f->next_step, "start the container with --device=/dev/infiniband (host: modprobe ib_uverbs)");
    }
    json_decref(verbs);
    const struct {
        const char *driver, *peer;
    } pairs[] = {{"nvidia", "nvidia_peermem"}, {"alixpu", "alixpu_peermem"}};
    for (size_t i = 0; i < 2; i++) {
        if (!lj_host_exists(host, "/proc/modules") || !module_loaded(host, pairs[i].driver) ||
            module_loaded(host, pairs[i].peer) || module_loaded(host, "nv_peer_mem"))
            continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
        lj_say(f->part, "peer_memory");
        lj_say(f->found, "RDMA devices and %s cards, but the module %s is not loaded", pairs[i].driver,
               pairs[i].peer);
        lj_say(f->wanted, "%s, or a kernel and driver with DMA-BUF", pairs[i].peer);
        lj_say(f->source, "/proc/modules");
        lj_say(f->next_step,
               "modprobe %s: without it data between hosts goes through host memory ('bad address' when "
               "memory is registered)",
               pairs[i].peer);
    }
}

void lj_check_rdma(lj_host *host, lj_findings *out)
{
    json_t *paths = lj_host_glob(host, "/sys/class/infiniband/*/ports/*"), *path, *ports = json_array(), *row;
    size_t i, active = 0;
    json_array_foreach(paths, i, path)
    {
        lj_note(out, "%s", json_string_value(path));
        json_array_append_new(ports, port_row(host, json_string_value(path)));
    }
    json_array_foreach(ports, i, row) active += json_is_true(json_object_get(row, "active"));
    json_object_set(out->facts, "rdma", ports);
    if (json_array_size(ports) == 0) {
        lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "no RDMA devices");
        lj_say(f->source, "/sys/class/infiniband");
    } else {
        json_array_foreach(ports, i, row) port_judge(out, row, active > 0);
        rates_judge(out, ports);
        hca_judge(host, out, ports);
        rdma_extras(host, out);
        if (!out->count) {
            row = json_array_get(ports, 0);
            lj_finding *f = lj_find(out, LJ_VERDICT_OK);
            lj_say(f->found, "%zu RDMA port(s) active, %s %s", active, lj_json_text(row, "device"),
                   lj_json_text(row, "rate"));
            lj_say(f->source, "/sys/class/infiniband");
        }
    }
    json_decref(paths);
    json_decref(ports);
}
