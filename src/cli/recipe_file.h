/* Settings from a recipe file: one mapping of names to values, YAML or JSON (which is YAML). */
#ifndef LJ_CLI_RECIPE_FILE_H
#define LJ_CLI_RECIPE_FILE_H

#include "base/config.h"

/* Sets what the mapping names, under flags and variables. `keys` are those the command takes. LJ_ERR_FORMAT with line; LJ_ERR_NOT_FOUND
 * names an unknown setting and the nearest. */
lj_status lj_recipe_file_read(const char *path, const lj_config_key *keys, size_t key_count, lj_config *config);

#endif
