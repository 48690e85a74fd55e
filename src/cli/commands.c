/* The table of commands: adding one is a file beside this and a row here. */
#include "cli/command.h"
#include "cli/commands.h"

static const lj_config_key convert_keys[] = {LJ_CFG_save_dtype, LJ_CFG_shard_size, LJ_CFG_overwrite};

const lj_command lj_commands[] = {
    {"version", "", "versions, machine and what was found on it", NULL, NULL, 0, lj_command_version},
    {"inspect", "MODEL", "tensors, metadata and numbers of a model file or folder", NULL, NULL, 0, lj_command_inspect},
    {"convert", "MODEL FOLDER", "a GGUF, safetensors file or folder as a Hugging Face folder", NULL, LJ_KEYS(convert_keys), lj_command_convert},
};

const size_t lj_command_count = sizeof lj_commands / sizeof *lj_commands;
