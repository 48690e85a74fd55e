/* The table of commands: adding one is a file beside this and a row here. */
#include "cli/command.h"
#include "cli/commands.h"

static const lj_config_key doctor_keys[] = {LJ_CFG_root,     LJ_CFG_image, LJ_CFG_job,   LJ_CFG_all,            LJ_CFG_bundle, LJ_CFG_watch,
                                            LJ_CFG_interval, LJ_CFG_hosts, LJ_CFG_merge, LJ_CFG_remote_command, LJ_CFG_ranks,  LJ_CFG_data_dir};
static const lj_config_key image_keys[] = {LJ_CFG_data_dir,       LJ_CFG_root,     LJ_CFG_image,    LJ_CFG_all,           LJ_CFG_registry, LJ_CFG_region,     LJ_CFG_registry_host, LJ_CFG_digest,
                                           LJ_CFG_tls_verify,     LJ_CFG_output_dir, LJ_CFG_engine, LJ_CFG_execute,       LJ_CFG_cards,    LJ_CFG_nodes,      LJ_CFG_shm_size,      LJ_CFG_kind,
                                           LJ_CFG_compute_class, LJ_CFG_card_model, LJ_CFG_driver_version, LJ_CFG_job_name, LJ_CFG_language, LJ_CFG_flavour, LJ_CFG_only, LJ_CFG_python};

const lj_command lj_commands[] = {
    {"version", "", "versions, machine and what was found on it", NULL, NULL, 0, lj_command_version},
    {"doctor", "[--merge A.json B.json ...]", "is this host, container or tree fit for the job?",
     "Runs every check in a child with a time-out of its own (under 2 s in all). The first line is the verdict with its cause, then what matters.\n"
     "Exit: 0 no check failed (warnings included), 1 some failed, 2 usage.",
     LJ_KEYS(doctor_keys), lj_command_doctor},
    {"image", "ACTION [IMAGE] [-- COMMAND ...]", "what is in an image, does it fit this host, how is it started?",
     "actions: list; show IMAGE; check IMAGE (this host or --root); pull IMAGE; run IMAGE [-- COMMAND]; k8s IMAGE [-- COMMAND];\n"
     "         diff IMAGE IMAGE; notes IMAGE; lint DIR|TAR; test (component tests)\n"
     "IMAGE is a name, name:tag, a full reference, or the path of a manifest.",
     LJ_KEYS(image_keys), lj_command_image},
};

const size_t lj_command_count = sizeof lj_commands / sizeof *lj_commands;
