#include "train/recipe.h"

#include "base/log.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    lj_config_key key;
    size_t offset;
    bool free_on_resume;
} field_row;

/* The one list: FIXED fields decide the numbers, FREE ones may change on resume. */
#define RECIPE(FIXED, FREE)                                                                                                      \
    FIXED(model), FIXED(data), FIXED(eval_data), FIXED(tokenizer), FIXED(chat_format), FREE(out), FIXED(dtype), FIXED(schedule), FREE(steps),         \
        FIXED(batch), FIXED(seq), FIXED(accum), FREE(threads), FIXED(seed), FIXED(warmup), FREE(eval_every), FREE(save_every),   \
        FREE(keep), FREE(recompute), FIXED(epochs), FIXED(lr), FIXED(min_lr), FIXED(decay_fraction), FIXED(weight_decay), FIXED(beta1),           \
        FIXED(beta2), FIXED(adam_eps), FIXED(clip), FIXED(eval_fraction), FIXED(max_loss_jump), FIXED(shuffle), FIXED(decay), FIXED(compile),  \
        FIXED(allow_missing), FIXED(random_weights)
#define FIXED_ROW(name) {LJ_CFG_##name, offsetof(lj_recipe, name), false}
#define FREE_ROW(name) {LJ_CFG_##name, offsetof(lj_recipe, name), true}
#define KEY(name) LJ_CFG_##name
static const field_row fields[] = {RECIPE(FIXED_ROW, FREE_ROW)};
const lj_config_key lj_recipe_keys[] = {RECIPE(KEY, KEY)};
enum { FIELDS = sizeof fields / sizeof *fields };
const size_t lj_recipe_key_count = FIELDS;

void lj_recipe_from_config(const lj_config *config, lj_recipe *recipe)
{
    for (int i = 0; i < FIELDS; i++) {
        char *at = (char *)recipe + fields[i].offset;
        lj_config_key key = fields[i].key;
        switch (lj_config_rows[key].type) {
        case LJ_CONFIG_INT: *(int64_t *)at = lj_config_int(config, key); break;
        case LJ_CONFIG_FLOAT: *(double *)at = lj_config_float(config, key); break;
        case LJ_CONFIG_BOOL: *(bool *)at = lj_config_bool(config, key); break;
        default: *(const char **)at = lj_config_string(config, key); break;
        }
    }
}

static json_t *field_json(const lj_recipe *recipe, const field_row *field)
{
    const char *at = (const char *)recipe + field->offset;
    switch (lj_config_rows[field->key].type) {
    case LJ_CONFIG_INT: return json_integer(*(const int64_t *)at);
    case LJ_CONFIG_FLOAT: return json_real(*(const double *)at);
    case LJ_CONFIG_BOOL: return json_boolean(*(const bool *)at);
    default: return json_string(*(const char *const *)at);
    }
}

json_t *lj_recipe_to_json(const lj_recipe *recipe)
{
    json_t *root = json_object();
    for (int i = 0; i < FIELDS; i++)
        if (json_object_set_new(root, lj_config_rows[fields[i].key].name, field_json(recipe, &fields[i])) != 0) return json_decref(root), NULL;
    return root;
}

static char *shown(const json_t *value)
{
    return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
}

static lj_status difference(const field_row *field, const json_t *then, const json_t *now)
{
    const char *name = lj_config_rows[field->key].name;
    char *a = shown(then), *b = shown(now);
    lj_status status = LJ_OK;
    if (field->free_on_resume)
        lj_log(LJ_LOG_INFO, "note: %s was %s, is now %s", name, a ? a : "?", b ? b : "?");
    else
        status = lj_fail(LJ_ERR_INVALID, "the checkpoint was made with %s %s, asked for is %s; resume with the same, or start anew in another --out",
                         name, a ? a : "?", b ? b : "?");
    free(a);
    free(b);
    return status;
}

lj_status lj_recipe_compare(const lj_recipe *recipe, const json_t *saved)
{
    lj_status status = LJ_OK;
    for (int i = 0; i < FIELDS && status == LJ_OK; i++) {
        const json_t *then = json_object_get(saved, lj_config_rows[fields[i].key].name);
        json_t *now = field_json(recipe, &fields[i]);
        if (!then || !now)
            status = lj_fail(LJ_ERR_FORMAT, "the checkpoint's recipe lacks %s", lj_config_rows[fields[i].key].name);
        else if (!json_equal(then, now))
            status = difference(&fields[i], then, now);
        json_decref(now);
    }
    return status;
}
