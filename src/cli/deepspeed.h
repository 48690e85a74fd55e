/* Settings from DeepSpeed files: a preset's own as defaults, --deepspeed FILE as the user's word. */
#ifndef LJ_CLI_DEEPSPEED_H
#define LJ_CLI_DEEPSPEED_H

#include "base/config.h"

/* Lays the preset's ds_config.json under the flags (they override it silently), or --deepspeed FILE beside them: a flag that says
 * otherwise is LJ_ERR_INVALID naming every such pair. Keys without effect on one rank are listed in a note. */
lj_status lj_deepspeed_settings(lj_config *config);

#endif
