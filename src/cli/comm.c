/* The command: reads the settings and walks collectives and rounds. */
#include "cli/comm.h"

#include "base/log.h"
#include "base/machine.h"
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const comm_names[COMM_COLLECTIVES] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"};

lj_status comm_collective_find(const char *name, comm_collective *out)
{
    for (int i = 0; i < COMM_COLLECTIVES; i++)
        if (strcmp(name, comm_names[i]) == 0) return *out = (comm_collective)i, LJ_OK;
    const char *near = lj_nearest_name(name, comm_names, COMM_COLLECTIVES);
    return lj_fail(LJ_ERR_NOT_FOUND, "--collective: no collective '%s'%s%s%s", name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static lj_status plan_read(const lj_config *config, comm_plan *plan)
{
    uint64_t low = lj_config_size(config, LJ_CFG_min_bytes), high = lj_config_size(config, LJ_CFG_max_bytes);
    *plan = (comm_plan){.ranks = (int)lj_config_int(config, LJ_CFG_ranks), .processes = lj_config_bool(config, LJ_CFG_processes), .in_place = lj_config_bool(config, LJ_CFG_in_place),
                        .shared = strcmp(lj_config_string(config, LJ_CFG_buffers), "shared") == 0, .effort = lj_config_float(config, LJ_CFG_effort)};
    if (lj_config_is_set(config, LJ_CFG_threads)) {
        if (lj_config_int(config, LJ_CFG_threads)) return lj_fail(LJ_ERR_INVALID, "--threads takes no number here: --ranks says how many");
        plan->processes = false;
    }
    if (!plan->ranks) plan->ranks = lj_machine_get()->cores < 2 ? 2 : lj_machine_get()->cores < COMM_MAX_RANKS ? lj_machine_get()->cores : COMM_MAX_RANKS;
    if (plan->ranks > COMM_MAX_RANKS) return lj_fail(LJ_ERR_LIMIT, "--ranks %d: at most %d on one host", plan->ranks, COMM_MAX_RANKS);
    if (low < 8 || low > high) return lj_fail(LJ_ERR_INVALID, "--min-bytes %llu: expected 8 to --max-bytes (%llu)", (unsigned long long)low, (unsigned long long)high);
    for (uint64_t bytes = 8; bytes <= high && plan->size_count < COMM_MAX_SIZES; bytes *= 2)
        if (bytes >= low) plan->sizes[plan->size_count++] = bytes;
    if (!plan->size_count) return lj_fail(LJ_ERR_INVALID, "no power of two from --min-bytes %llu to --max-bytes %llu", (unsigned long long)low, (unsigned long long)high);
    return LJ_OK;
}

/* One round: ours, then each peer. */
static lj_status round_run(comm_result *result, const comm_peer *peers, int round)
{
    LJ_TRY(comm_run(&result->plan, result->ours[round]));
    for (int p = 0; p < result->peer_count; p++)
        if (comm_peer_run(&peers[p], &result->plan, result->peer_us[p][round]) != LJ_OK) lj_log(LJ_LOG_WARN, "%s: %s", peers[p].name, lj_error_message());
    return LJ_OK;
}

static lj_status collective_run(const lj_config *config, comm_result *result)
{
    comm_peer peers[COMM_MAX_PEERS];
    LJ_TRY(comm_peers_find(lj_config_string(config, LJ_CFG_compare), &result->plan, lj_config_string(config, LJ_CFG_python), peers, &result->peer_count));
    result->rounds = (int)lj_config_int(config, LJ_CFG_rounds);
    if (!result->rounds) result->rounds = result->peer_count ? 5 : 1;
    if (result->rounds > COMM_MAX_ROUNDS) result->rounds = COMM_MAX_ROUNDS;
    for (int p = 0; p < result->peer_count; p++) snprintf(result->peer_names[p], sizeof result->peer_names[p], "%s", peers[p].name);
    lj_status status = LJ_OK;
    for (int round = 0; round < result->rounds && status == LJ_OK; round++) status = round_run(result, peers, round);
    comm_peers_release(peers, result->peer_count);
    if (status == LJ_OK) comm_print(result);
    return status;
}

static lj_status bench(const lj_config *config)
{
    comm_plan plan;
    const char *which = lj_config_string(config, LJ_CFG_collective);
    bool all = strcmp(which, "all") == 0;
    int count = all ? COMM_COLLECTIVES : 1;
    LJ_TRY(plan_read(config, &plan));
    if (!all) LJ_TRY(comm_collective_find(which, &plan.collective));
    comm_result *results = calloc((size_t)count, sizeof *results);
    if (!results) return lj_fail(LJ_ERR_NOMEM, "results of %d collectives", count);
    lj_status status = LJ_OK;
    for (int i = 0; i < count && status == LJ_OK; i++) {
        results[i].plan = plan;
        if (all) results[i].plan.collective = (comm_collective)i;
        status = collective_run(config, &results[i]);
    }
    if (status == LJ_OK && lj_config_is_set(config, LJ_CFG_json)) status = comm_write_json(results, count, lj_config_string(config, LJ_CFG_json));
    if (status == LJ_OK && lj_config_is_set(config, LJ_CFG_svg)) status = comm_write_svg(results, count, lj_config_string(config, LJ_CFG_svg));
    for (int i = 0; i < count && status == LJ_OK; i++)
        for (int s = 0; s < results[i].plan.size_count; s++)
            if (results[i].ours[0][s].wrong) status = lj_fail(LJ_ERR_INVALID, "%s gave wrong results; see the table", comm_names[results[i].plan.collective]);
    free(results);
    return status;
}

static lj_status tune(const lj_config *config)
{
    comm_plan plan;
    LJ_TRY(plan_read(config, &plan));
    return comm_tune(&plan);
}

int lj_command_comm(const lj_command_input *input)
{
    static const struct {
        const char *name;
        lj_status (*run)(const lj_config *config);
    } actions[] = {{"bench", bench}, {"tune", tune}};
    const char *names[] = {"bench", "tune"};
    if (input->argument_count != 1) {
        lj_fail(LJ_ERR_INVALID, "comm needs one action: bench or tune");
        return LJ_EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(input->arguments[0], actions[i].name) == 0) return lj_exit(actions[i].run(input->config));
    const char *near = lj_nearest_name(input->arguments[0], names, 2);
    lj_fail(LJ_ERR_NOT_FOUND, "comm: no action '%s'%s%s%s", input->arguments[0], near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return LJ_EXIT_USAGE;
}
