/* Loading, saving, random weights: which element lies where, what a missing tensor does (cases 19 and 20). */
#include "support/testing.h"

#include "formats/hf_config.h"
#include "formats/safetensors.h"
#include "model/params.h"

#include <math.h>
#include <stdlib.h>

static lj_model_config tiny(bool tied)
{
    lj_model_config c;
    lj_model_config_init(&c, LJ_FAMILY_LLAMA);
    c.vocab_size = 50, c.hidden_size = 24, c.intermediate_size = 20, c.num_hidden_layers = 2, c.num_attention_heads = 4, c.num_key_value_heads = 2;
    c.head_dim = 6, c.tie_word_embeddings = tied, c.eos_count = 0, c.bos_token_id = -1;
    return c;
}

static void layout_covers_every_weight_once(void **state)
{
    (void)state;
    lj_model_config c = tiny(false);
    lj_param_layout layout;
    assert_ok(lj_layout_init(&layout, &c, lj_model_whole(&c)));
    char *seen = calloc((size_t)layout.total_elements, 1);
    int64_t covered = 0;
    for (size_t i = 0; i < layout.slot_count; i++)
        for (int64_t k = 0; k < layout.slots[i].count; k++, covered++) assert_int_equal(seen[lj_slot_offset(&layout, &layout.slots[i]) + k]++, 0);
    assert_int_equal(covered, lj_model_parameter_count(&c));
    assert_int_equal(layout.parameter_count, covered);
    for (size_t i = 0; i < layout.param_count; i++) {
        assert_int_equal(layout.params[i].offset % LJ_PARAM_ALIGN, 0);
        assert_int_equal(layout.params[i].offset < layout.decay_elements, layout.params[i].rank == 2);
    }
    assert_int_equal(lj_layout_find(&layout, LJ_PARAM_QKV, 1)->shape[0], 48);
    assert_int_equal(lj_layout_slot(&layout, "model.layers.1.self_attn.v_proj.weight")->first, 36 * 24);
    free(seen);
    lj_layout_release(&layout);
}

static void random_weights_have_their_distribution(void **state)
{
    (void)state;
    lj_model_config c = tiny(true);
    c.vocab_size = 4000;
    lj_param_layout whole, part;
    assert_ok(lj_layout_init(&whole, &c, lj_model_whole(&c)));
    assert_ok(lj_layout_init(&part, &c, (lj_model_part){1, false, false}));
    float *a = malloc((size_t)whole.total_elements * 4), *b = malloc((size_t)part.total_elements * 4);
    lj_params_random(&whole, 3, LJ_F32, a);
    lj_params_random(&part, 3, LJ_F32, b);
    const lj_weight_slot *embed = lj_layout_slot(&whole, "model.embed_tokens.weight");
    double mean = 0, square = 0, fourth = 0;
    for (int64_t i = 0; i < embed->count; i++) {
        double x = a[lj_slot_offset(&whole, embed) + i] / 0.02;
        mean += x, square += x * x, fourth += x * x * x * x;
    }
    double n = (double)embed->count;
    assert_true(fabs(mean / n) < 0.01 && fabs(square / n - 1) < 0.02 && fabs(fourth / n - 3) < 0.1);
    const lj_weight_slot *slots[] = {lj_layout_slot(&whole, "model.layers.0.mlp.up_proj.weight"), lj_layout_slot(&part, "model.layers.0.mlp.up_proj.weight")};
    assert_memory_equal(a + lj_slot_offset(&whole, slots[0]), b + lj_slot_offset(&part, slots[1]), (size_t)slots[0]->count * 4);
    const lj_weight_slot *norm = lj_layout_slot(&whole, "model.norm.weight");
    for (int64_t i = 0; i < norm->count; i++) assert_true(a[lj_slot_offset(&whole, norm) + i] == 1.0f);
    free(a);
    free(b);
    lj_layout_release(&whole);
    lj_layout_release(&part);
}

/* A file with all weights of the config but those named in `without` (separated by blanks). */
static void file_write(const char *folder, const lj_model_config *c, const char *without, bool head_too)
{
    char path[400];
    lj_safetensors_writer *writer;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_ok(lj_hf_config_write(folder, c));
    assert_ok(lj_safetensors_writer_create(path, &writer));
    lj_model_config untied = *c;
    untied.tie_word_embeddings = c->tie_word_embeddings && !head_too;
    static float zeros[50 * 24 + 24 * 48];
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < lj_model_weight_count(&untied); i++) {
            lj_model_weight w;
            lj_model_weight_get(&untied, i, &w);
            if (strstr(without, w.name)) continue;
            size_t bytes = (size_t)(w.shape[0] * (w.rank == 2 ? w.shape[1] : 1)) * 4;
            if (pass == 0) assert_ok(lj_safetensors_writer_tensor(writer, w.name, LJ_F32, w.rank, w.shape));
            if (pass == 1) assert_ok(lj_safetensors_writer_write(writer, zeros, bytes));
        }
    assert_ok(lj_safetensors_writer_commit(writer));
}

static lj_status load(const char *folder, const lj_model_config *c, bool allow_missing)
{
    char path[400];
    lj_weights *weights;
    lj_param_layout layout;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_ok(lj_layout_init(&layout, c, lj_model_whole(c)));
    float *flat = malloc((size_t)layout.total_elements * 4);
    assert_ok(lj_weights_open(path, &weights));
    lj_status status = lj_params_load(&layout, weights, allow_missing, 1, LJ_F32, flat);
    lj_weights_close(weights);
    free(flat);
    lj_layout_release(&layout);
    return status;
}

static void tied_weights_are_found_under_either_name_19(void **state)
{
    (void)state;
    char folder[256];
    test_folder_create(folder, sizeof folder);
    lj_model_config c = tiny(true);
    file_write(folder, &c, "model.embed_tokens.weight", true); /* only the head */
    assert_ok(load(folder, &c, false));
    file_write(folder, &c, "", false); /* only the embedding */
    assert_ok(load(folder, &c, false));
    file_write(folder, &c, "model.embed_tokens.weight lm_head.weight", false);
    assert_fails(load(folder, &c, false), LJ_ERR_NOT_FOUND, "model.embed_tokens.weight");
    assert_fails(load(folder, &c, true), LJ_ERR_NOT_FOUND, "lm_head.weight");
    test_folder_remove(folder);
}

static void missing_weights_are_refused_unless_allowed_20(void **state)
{
    (void)state;
    char folder[256];
    test_folder_create(folder, sizeof folder);
    lj_model_config c = tiny(false);
    file_write(folder, &c, "model.layers.1.mlp.down_proj.weight", false);
    assert_fails(load(folder, &c, false), LJ_ERR_NOT_FOUND, "model.layers.1.mlp.down_proj.weight");
    assert_ok(load(folder, &c, true));
    test_folder_remove(folder);
}

static void saved_shards_read_back(void **state)
{
    (void)state;
    char folder[256];
    test_folder_create(folder, sizeof folder);
    lj_model_config c = tiny(false);
    lj_param_layout layout;
    lj_weights *weights;
    assert_ok(lj_layout_init(&layout, &c, lj_model_whole(&c)));
    size_t bytes = (size_t)layout.total_elements * 4;
    float *out = malloc(bytes), *back = malloc(bytes);
    lj_params_random(&layout, 9, LJ_F32, out);
    assert_ok(lj_params_save(&layout, out, LJ_F32, folder, 6000));
    assert_ok(lj_weights_open(folder, &weights));
    assert_ok(lj_params_load(&layout, weights, false, 0, LJ_F32, back));
    assert_memory_equal(out, back, bytes);
    lj_weights_close(weights);
    free(out);
    free(back);
    lj_layout_release(&layout);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layout_covers_every_weight_once),
                                       cmocka_unit_test(random_weights_have_their_distribution),
                                       cmocka_unit_test(tied_weights_are_found_under_either_name_19),
                                       cmocka_unit_test(missing_weights_are_refused_unless_allowed_20),
                                       cmocka_unit_test(saved_shards_read_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
