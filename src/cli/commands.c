/* The table of commands: adding one is a file beside this and a row here. */
#include "cli/command.h"
#include "cli/commands.h"

static const lj_config_key doctor_keys[] = {LJ_CFG_root,     LJ_CFG_image, LJ_CFG_job,   LJ_CFG_all,            LJ_CFG_bundle, LJ_CFG_watch,
                                            LJ_CFG_interval, LJ_CFG_hosts, LJ_CFG_merge, LJ_CFG_remote_command, LJ_CFG_ranks,  LJ_CFG_data_dir};

const lj_command lj_commands[] = {
    {"version", "", "versions, machine and what was found on it", NULL, NULL, 0, lj_command_version},
    {"doctor", "[--merge A.json B.json ...]", "is this host, container or tree fit for the job?",
     "Runs every check in a child with a time-out of its own (under 2 s in all). The first line is the verdict with its cause, then what matters.\n"
     "Exit: 0 no check failed (warnings included), 1 some failed, 2 usage.",
     LJ_KEYS(doctor_keys), lj_command_doctor},
};

const size_t lj_command_count = sizeof lj_commands / sizeof *lj_commands;
