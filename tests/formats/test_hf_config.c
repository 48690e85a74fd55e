/* config.json of every family in both spellings, what is refused, and write-read round trips. */
#include "support/testing.h"

#include "formats/hf_config.h"

static lj_status parse(const char *text, lj_model_config *config)
{
    return lj_hf_config_parse("config.json", text, strlen(text), config);
}

#define SIZES "\"vocab_size\":320,\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2"

static void llama_old_and_new_spelling_agree(void **state)
{
    (void)state;
    lj_model_config a, b;
    assert_ok(parse("{\"model_type\":\"llama\"," SIZES ",\"torch_dtype\":\"bfloat16\",\"rope_theta\":500000.0,\"rope_scaling\":{\"factor\":8.0,"
                    "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},"
                    "\"max_position_embeddings\":131072,\"eos_token_id\":[10,11,12],\"bos_token_id\":9,\"tie_word_embeddings\":true,\"rms_norm_eps\":1e-05}",
                    &a));
    assert_ok(parse("{\"model_type\":\"llama\"," SIZES ",\"dtype\":\"bfloat16\",\"rope_parameters\":{\"factor\":8.0,\"rope_theta\":500000.0,"
                    "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},"
                    "\"max_position_embeddings\":131072,\"eos_token_id\":[10,11,12],\"bos_token_id\":9,\"tie_word_embeddings\":true,\"rms_norm_eps\":1e-05}",
                    &b));
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(a.family, LJ_FAMILY_LLAMA);
    assert_int_equal(a.head_dim, 16);
    assert_int_equal(a.dtype, LJ_BF16);
    assert_int_equal(a.eos_count, 3);
    assert_int_equal(a.eos_token_ids[2], 12);
    assert_int_equal(a.rope_scaling.type, LJ_ROPE_LLAMA3);
    assert_true(a.rope_theta == 5e5 && a.rope_scaling.factor == 8);
    assert_true(a.tie_word_embeddings && !a.attention_bias && !a.qk_norm);
}

static void families_have_their_defaults(void **state)
{
    (void)state;
    lj_model_config c;
    assert_ok(parse("{\"model_type\":\"qwen2\"," SIZES ",\"use_sliding_window\":false,\"sliding_window\":32768,\"max_window_layers\":2}", &c));
    assert_true(c.attention_bias && !c.attention_output_bias && c.sliding_window == 0);
    assert_int_equal(c.bos_token_id, -1);
    assert_int_equal(c.eos_count, 0);
    assert_ok(parse("{\"model_type\":\"qwen2\"," SIZES ",\"use_sliding_window\":true,\"sliding_window\":100,\"max_window_layers\":2}", &c));
    assert_true(c.sliding_window == 100 && c.max_window_layers == 2);
    assert_ok(parse("{\"model_type\":\"qwen3\"," SIZES ",\"head_dim\":32}", &c));
    assert_true(c.qk_norm && c.head_dim == 32 && !c.attention_bias);
    assert_ok(parse("{\"model_type\":\"mistral\"," SIZES ",\"sliding_window\":null}", &c));
    assert_true(c.sliding_window == 0 && c.bos_token_id == 1);
    assert_ok(parse("{\"model_type\":\"mistral\"," SIZES ",\"sliding_window\":50}", &c));
    assert_true(c.sliding_window == 50 && c.max_window_layers == 0);
    assert_ok(parse("{\"model_type\":\"mistral\"," SIZES "}", &c));
    assert_int_equal(c.sliding_window, 4096); /* transformers' default when the key is absent */
    assert_ok(parse("{\"model_type\":\"llama\"," SIZES ",\"attention_bias\":true,\"mlp_bias\":true,\"bos_token_id\":null}", &c));
    assert_true(c.attention_bias && c.attention_output_bias && c.mlp_bias && c.bos_token_id == -1);
    assert_ok(parse("{\"model_type\":\"qwen3\"," SIZES ",\"use_sliding_window\":true,\"sliding_window\":64,\"layer_types\":[\"full_attention\",\"full_attention\","
                    "\"full_attention\",\"sliding_attention\"]}", &c));
    assert_true(c.sliding_window == 64 && c.max_window_layers == 3);
}

static void wrong_configs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        lj_status status;
        const char *part;
    } rows[] = {
        {"{" SIZES "}", LJ_ERR_FORMAT, "'model_type' is missing"},
        {"{\"model_type\":\"mamba\"," SIZES "}", LJ_ERR_UNSUPPORTED, "built are llama, mistral, qwen2, qwen3"},
        {"{\"model_type\":\"llama\",\"hidden_size\":64}", LJ_ERR_FORMAT, "'vocab_size' is missing"},
        {"{\"model_type\":\"llama\"," SIZES ",\"hidden_size\":65}", LJ_ERR_FORMAT, "duplicate"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rms_norm_eps\":\"small\"}", LJ_ERR_FORMAT, "'rms_norm_eps' is a string, it must be a number"},
        {"{\"model_type\":\"llama\"," SIZES ",\"head_dim\":17}", LJ_ERR_INVALID, "head_dim 17 is odd"},
        {"{\"model_type\":\"llama\"," SIZES ",\"head_dim\":1.5}", LJ_ERR_FORMAT, "whole number"},
        {"{\"model_type\":\"llama\"," SIZES ",\"hidden_act\":\"mish\"}", LJ_ERR_UNSUPPORTED, "hidden_act 'mish'"},
        {"{\"model_type\":\"llama\"," SIZES ",\"eos_token_id\":320}", LJ_ERR_INVALID, "eos_token_id 320 is outside the vocabulary of 320"},
        {"{\"model_type\":\"llama\"," SIZES ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", LJ_ERR_LIMIT, "9 entries"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"longrope\",\"factor\":2}}", LJ_ERR_UNSUPPORTED, "rope_type 'longrope'"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"linear\"}}", LJ_ERR_FORMAT, "has no 'factor'"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}", LJ_ERR_INVALID, "factor is 0.5"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":[1]}", LJ_ERR_FORMAT, "must be an object"},
        {"{\"model_type\":\"llama\"," SIZES ",\"partial_rotary_factor\":0.5}", LJ_ERR_UNSUPPORTED, "partial_rotary_factor"},
        {"{\"model_type\":\"llama\"," SIZES ",\"quantization_config\":{}}", LJ_ERR_UNSUPPORTED, "quantization_config"},
        {"{\"model_type\":\"llama\"," SIZES ",\"torch_dtype\":\"int8\"}", LJ_ERR_INVALID, "no floating-point type"},
        {"{\"model_type\":\"qwen3\"," SIZES ",\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"]}",
         LJ_ERR_UNSUPPORTED, "mixes sliding and full layers"},
        {"{\"model_type\":\"llama\",\"vocab_size\":320,\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":100000,\"num_attention_heads\":4}", LJ_ERR_LIMIT,
         "num_hidden_layers is 100000; allowed are 0 .. 4096"},
        {"{\"model_type\":\"llama\",\"vocab_size\":320,\"hidden_size\":64,\"intermediate_size\":-1,\"num_hidden_layers\":1,\"num_attention_heads\":4}", LJ_ERR_LIMIT,
         "intermediate_size is -1"},
        {"{\"model_type\":\"llama\",\"vocab_size\":320,\"hidden_size\":64,\"intermediate_size\":1,\"num_hidden_layers\":1,\"num_attention_heads\":0}", LJ_ERR_INVALID,
         "num_attention_heads 0"},
        {"{\"model_type\":\"llama\",\"vocab_size\":320,\"hidden_size\":64,\"intermediate_size\":1,\"num_hidden_layers\":1,\"num_attention_heads\":4,\"num_key_value_heads\":3}",
         LJ_ERR_INVALID, "no multiple of num_key_value_heads 3"},
        {"[]", LJ_ERR_FORMAT, "no JSON object"},
        {"{\"model_type\":\"llama\"", LJ_ERR_FORMAT, "config.json: offset"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lj_model_config c = {.vocab_size = -5};
        assert_fails(parse(rows[i].text, &c), rows[i].status, rows[i].part);
        assert_int_equal(c.vocab_size, -5); /* untouched */
    }
}

static void random_config(uint64_t *seed, lj_model_config *c)
{
    lj_model_config_init(c, (lj_model_family)test_random_range(seed, 0, LJ_FAMILY_COUNT - 1));
    c->num_key_value_heads = test_random_range(seed, 1, 4);
    c->num_attention_heads = c->num_key_value_heads * test_random_range(seed, 1, 4);
    c->head_dim = 2 * test_random_range(seed, 1, 64);
    c->hidden_size = test_random_range(seed, 1, 5000);
    c->intermediate_size = test_random_range(seed, 1, 20000);
    c->vocab_size = test_random_range(seed, 20, 200000);
    c->num_hidden_layers = test_random_range(seed, 1, 100);
    c->max_position_embeddings = test_random_range(seed, 1, 1 << 20);
    c->rms_norm_eps = test_random_unit(seed) * 1e-5;
    c->rope_theta = 1 + test_random_unit(seed) * 1e6;
    c->tie_word_embeddings = test_random(seed) & 1;
    c->dtype = (lj_dtype[]){LJ_F32, LJ_BF16, LJ_F16}[test_random(seed) % 3];
    c->hidden_act = (lj_activation)test_random_range(seed, 0, LJ_ACT_COUNT - 1);
    c->bos_token_id = test_random_range(seed, -1, 19);
    c->eos_count = (int)test_random_range(seed, 0, 3);
    for (int i = 0; i < LJ_MAX_EOS; i++) c->eos_token_ids[i] = i < c->eos_count ? test_random_range(seed, 0, 19) : 0;
    bool windowed = c->family != LJ_FAMILY_LLAMA && (test_random(seed) & 1);
    c->sliding_window = windowed ? test_random_range(seed, 1, 5000) : 0;
    c->max_window_layers = windowed && c->family != LJ_FAMILY_MISTRAL ? test_random_range(seed, 0, c->num_hidden_layers - 1) : 0;
    c->rope_scaling.type = (lj_rope_type)test_random_range(seed, 0, LJ_ROPE_COUNT - 1);
    lj_rope_scaling *r = &c->rope_scaling;
    if (r->type != LJ_ROPE_DEFAULT) r->factor = 1 + 10 * test_random_unit(seed);
    if (r->type == LJ_ROPE_DYNAMIC) r->original_max_position_embeddings = c->max_position_embeddings;
    if (r->type == LJ_ROPE_YARN || r->type == LJ_ROPE_LLAMA3) r->original_max_position_embeddings = test_random_range(seed, 1, 10000);
    if (r->type == LJ_ROPE_LLAMA3) r->low_freq_factor = 0.5, r->high_freq_factor = 4.25;
    if (r->type == LJ_ROPE_YARN) r->beta_fast = 32, r->beta_slow = 1, r->attention_factor = test_random(seed) & 1 ? 1.25 : 0;
    if (c->family == LJ_FAMILY_LLAMA || c->family == LJ_FAMILY_QWEN3) c->attention_bias = c->attention_output_bias = test_random(seed) & 1;
    if (c->family == LJ_FAMILY_LLAMA) c->mlp_bias = test_random(seed) & 1;
}

/* Padding bytes are no part of a value, so the comparison goes field by field through a second write. */
static void written_configs_read_back(void **state)
{
    (void)state;
    char folder[256], path[300];
    uint64_t seed = 21;
    test_folder_create(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    for (int i = 0; i < 100; i++) {
        lj_model_config c, back;
        memset(&c, 0, sizeof c);
        random_config(&seed, &c);
        assert_ok(lj_hf_config_write(folder, &c));
        assert_ok(lj_hf_config_read(path, &back));
        assert_int_equal(back.family, c.family);
        assert_memory_equal(&back.vocab_size, &c.vocab_size, offsetof(lj_model_config, hidden_act) - offsetof(lj_model_config, vocab_size));
        assert_int_equal(back.hidden_act, c.hidden_act);
        assert_true(back.tie_word_embeddings == c.tie_word_embeddings && back.attention_bias == c.attention_bias && back.qk_norm == c.qk_norm);
        assert_true(back.attention_output_bias == c.attention_output_bias && back.mlp_bias == c.mlp_bias);
        assert_true(back.sliding_window == c.sliding_window && back.max_window_layers == c.max_window_layers && back.dtype == c.dtype);
        assert_true(back.bos_token_id == c.bos_token_id && back.eos_count == c.eos_count);
        for (int e = 0; e < c.eos_count; e++) assert_int_equal(back.eos_token_ids[e], c.eos_token_ids[e]);
    }
    test_folder_remove(folder);
}

static void what_has_no_place_is_not_written(void **state)
{
    (void)state;
    char folder[256];
    lj_model_config c;
    assert_ok(parse("{\"model_type\":\"mistral\"," SIZES "}", &c));
    test_folder_create(folder, sizeof folder);
    c.qk_norm = true;
    assert_fails(lj_hf_config_write(folder, &c), LJ_ERR_UNSUPPORTED, "config.json of a mistral model has no place for this qk_norm");
    c.qk_norm = false, c.attention_bias = true;
    assert_fails(lj_hf_config_write(folder, &c), LJ_ERR_UNSUPPORTED, "attention_bias");
    test_folder_remove(folder);
}

/* Names, shapes and the count agree with each other, and with the known size of a real model. */
static void weight_list_is_complete(void **state)
{
    (void)state;
    lj_model_config c;
    lj_model_weight first, last, w;
    lj_model_config_init(&c, LJ_FAMILY_LLAMA);
    c.vocab_size = 128256, c.hidden_size = 4096, c.intermediate_size = 14336, c.num_hidden_layers = 32, c.num_attention_heads = 32;
    c.num_key_value_heads = 8, c.head_dim = 128;
    assert_true(lj_model_parameter_count(&c) == 8030261248);
    assert_int_equal(lj_model_weight_count(&c), 291);
    lj_model_weight_get(&c, 0, &first);
    lj_model_weight_get(&c, 290, &last);
    assert_string_equal(first.name, "model.embed_tokens.weight");
    assert_string_equal(last.name, "lm_head.weight");
    lj_model_weight_get(&c, 289, &last);
    assert_string_equal(last.name, "model.norm.weight");
    lj_model_weight_get(&c, 1 + 9 * 31 + 2, &w);
    assert_string_equal(w.name, "model.layers.31.self_attn.k_proj.weight");
    assert_true(w.shape[0] == 1024 && w.shape[1] == 4096 && w.rank == 2 && w.layer == 31);
    c.tie_word_embeddings = true, c.attention_bias = true, c.qk_norm = true;
    assert_int_equal(lj_model_weight_count(&c), 290 + 32 * 5);
    c.num_hidden_layers = 0;
    assert_int_equal(lj_model_weight_count(&c), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_old_and_new_spelling_agree), cmocka_unit_test(families_have_their_defaults),     cmocka_unit_test(wrong_configs_are_refused),
        cmocka_unit_test(written_configs_read_back),        cmocka_unit_test(what_has_no_place_is_not_written), cmocka_unit_test(weight_list_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
