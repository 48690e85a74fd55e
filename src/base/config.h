/* Settings: one table (config.def), one parser for flags and environment, one printer for help and run records. */
#ifndef LJ_BASE_CONFIG_H
#define LJ_BASE_CONFIG_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum { LJ_CONFIG_INT, LJ_CONFIG_FLOAT, LJ_CONFIG_SIZE, LJ_CONFIG_BOOL, LJ_CONFIG_STRING, LJ_CONFIG_CHOICE } lj_config_type;

typedef struct {
    const char *name;
    lj_config_type type;
    const char *initial; /* as text; "" = unset */
    double low, high;
    const char *choices;
    const char *help;
} lj_config_row;

typedef enum {
#define CONFIG(name, ...) LJ_CFG_##name,
#include "base/config.def"
#undef CONFIG
    LJ_CFG_COUNT
} lj_config_key;

extern const lj_config_row lj_config_rows[LJ_CFG_COUNT];

typedef enum { LJ_FROM_DEFAULT, LJ_FROM_PRESET, LJ_FROM_FILE, LJ_FROM_ENVIRONMENT, LJ_FROM_FLAG } lj_config_source;

/* Values of one run. Copyable by lj_config_copy only. One thread writes, then any reads. */
typedef struct {
    char *text[LJ_CFG_COUNT]; /* NULL: default */
    lj_config_source source[LJ_CFG_COUNT];
} lj_config;

void lj_config_init(lj_config *config);
void lj_config_release(lj_config *config);

/* Sets one value after checking type, bounds and choices; the message has the name, the value and what is allowed. A weaker
 * source never overrides a stronger one (flag > environment > file > preset > default). */
lj_status lj_config_set(lj_config *config, lj_config_key key, const char *value, lj_config_source source);
/* Key of a name in flag or variable spelling ("save-every", "save_every"); LJ_ERR_NOT_FOUND with a near name. */
lj_status lj_config_find(const char *name, lj_config_key *key);
/* Reads every LJPERF_* variable; an unknown one is an error with the nearest name. */
lj_status lj_config_read_environment(lj_config *config);
/* Parses arguments of a command that takes `keys`; what is no flag goes to positional (capacity `max`), "--" ends the flags.
 * --name VALUE, --name=VALUE, --bool, --no-bool. */
lj_status lj_config_read_flags(lj_config *config, const lj_config_key *keys, size_t key_count, int argc, char **argv,
                               const char **positional, size_t max, size_t *positional_count);

bool lj_config_is_set(const lj_config *config, lj_config_key key); /* by anything but the default */
int64_t lj_config_int(const lj_config *config, lj_config_key key);
double lj_config_float(const lj_config *config, lj_config_key key);
uint64_t lj_config_size(const lj_config *config, lj_config_key key); /* bytes */
bool lj_config_bool(const lj_config *config, lj_config_key key);
const char *lj_config_string(const lj_config *config, lj_config_key key); /* "" = unset */

/* One help line a key: "  --batch N        what it is (default 4)". */
void lj_config_help(lj_text *out, const lj_config_key *keys, size_t count);

#endif
