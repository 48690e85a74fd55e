/* DeepSpeed files: the batch triple, sections, what is refused. Numbers in names are the cases they come from. */
#include "support/testing.h"

#include "base/file.h"
#include "formats/deepspeed.h"

#include <unistd.h>

static char path[300];

static lj_status read_text(const char *text, int ranks, lj_deepspeed *out)
{
    assert_ok(lj_file_write(path, text, strlen(text)));
    return lj_deepspeed_read(path, ranks, out);
}

static void batches_complete_each_other_103(void **state)
{
    (void)state;
    const struct {
        int64_t train, micro, accum;
        int ranks;
        int64_t want[3];
    } rows[] = {{64, -1, -1, 4, {64, 16, 1}}, {-1, 4, 2, 4, {32, 4, 2}}, {-1, 4, -1, 2, {8, 4, 1}}, {32, -1, 4, 2, {32, 4, 4}}, {32, 4, -1, 2, {32, 4, 4}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t t = rows[i].train, m = rows[i].micro, a = rows[i].accum;
        assert_ok(lj_deepspeed_batches(&t, &m, &a, rows[i].ranks));
        assert_int_equal(t, rows[i].want[0]);
        assert_int_equal(m, rows[i].want[1]);
        assert_int_equal(a, rows[i].want[2]);
    }
    int64_t t = 10, m = 4, a = -1;
    assert_fails(lj_deepspeed_batches(&t, &m, &a, 1), LJ_ERR_INVALID, "10 is not a multiple of 4");
    assert_int_equal(a, -1);
}

static void world_size_is_named_104(void **state)
{
    (void)state;
    lj_deepspeed d;
    const char *text = "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 1}";
    assert_fails(read_text(text, 1, &d), LJ_ERR_INVALID, "8 != micro batch 2 x accumulation 1 x ranks 1 (world size 1, no launcher variables found)");
    assert_ok(read_text(text, 4, &d));
    lj_deepspeed_release(&d);
}

static void misspelt_sections_are_found_106(void **state)
{
    (void)state;
    lj_deepspeed d;
    assert_fails(read_text("{\"bfoat16\": {\"enabled\": true}}", 1, &d), LJ_ERR_NOT_FOUND, "did you mean 'bf16'");
    assert_ok(read_text("{\"bfloat16\": {\"enabled\": true}}", 1, &d));
    assert_true(d.bf16_set && d.bf16);
    lj_deepspeed_release(&d);
    assert_ok(read_text("{\"bf16\": {\"enabled\": false}}", 1, &d));
    assert_true(d.bf16_set && !d.bf16);
    lj_deepspeed_release(&d);
    assert_fails(read_text("{\"train_batch_sise\": 8}", 1, &d), LJ_ERR_NOT_FOUND, "did you mean 'train_batch_size'");
}

static void loss_scale_has_no_place_in_bf16_107(void **state)
{
    (void)state;
    lj_deepspeed d;
    assert_fails(read_text("{\"bf16\": {\"enabled\": true, \"loss_scale_window\": 1000}}", 1, &d), LJ_ERR_UNSUPPORTED,
                 "'loss_scale_window' has no place in section 'bf16'");
}

static void honoured_keys_are_read(void **state)
{
    (void)state;
    lj_deepspeed d;
    const char *text = "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": \"auto\", \"gradient_clipping\": 0.5,"
                       " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-4, \"betas\": [0.9, 0.98], \"eps\": 1e-6, \"weight_decay\": 0.01}},"
                       " \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_max_lr\": 3e-4, \"warmup_num_steps\": 7, \"total_num_steps\": 70,"
                       " \"warmup_type\": \"linear\"}}, \"zero_optimization\": {\"stage\": 3}, \"steps_per_print\": 10, \"fp16\": {\"enabled\": false}}";
    assert_ok(read_text(text, 1, &d));
    assert_int_equal(d.micro_batch, 2);
    assert_int_equal(d.accumulation, 1);
    assert_true(d.lr == 3e-4 && d.beta2 == 0.98 && d.eps == 1e-6 && d.weight_decay == 0.01 && d.clip == 0.5);
    assert_true(d.scheduler == LJ_DS_WARMUP_DECAY && d.warmup_steps == 7 && d.total_steps == 70 && d.warmup_linear);
    assert_string_equal(d.ignored.data, "zero_optimization, steps_per_print");
    lj_deepspeed_release(&d);
}

static void others_are_refused_by_name(void **state)
{
    (void)state;
    lj_deepspeed d;
    const struct {
        const char *text, *part;
        lj_status status;
    } rows[] = {
        {"{\"fp16\": {\"enabled\": true}}", "fp16 training is not built; use bf16", LJ_ERR_UNSUPPORTED},
        {"{\"optimizer\": {\"type\": \"Lion\"}}", "'Lion'; built is AdamW", LJ_ERR_UNSUPPORTED},
        {"{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"momentum\": 1}}}", "optimizer.params.momentum is unknown", LJ_ERR_NOT_FOUND},
        {"{\"scheduler\": {\"type\": \"OneCycle\"}}", "'OneCycle'; built are WarmupLR", LJ_ERR_UNSUPPORTED},
        {"{\"activation_checkpointing\": {}}", "recompute optimisation takes it", LJ_ERR_UNSUPPORTED},
        {"{\"zero_optimization\": {\"stage\": 4}}", "stages are 0 .. 3", LJ_ERR_INVALID},
        {"{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}}", "offloading is not built", LJ_ERR_UNSUPPORTED},
        {"{\"train_batch_size\": 0}", "at least 1", LJ_ERR_FORMAT},
        {"{\"gradient_clipping\": \"much\"}", "must be a number or \"auto\"", LJ_ERR_FORMAT},
        {"{\"gradient_accumulation_steps\": 4}", "alone gives no batch", LJ_ERR_INVALID},
        {"[1]", "must be a JSON object", LJ_ERR_FORMAT},
        {"{", "", LJ_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_fails(read_text(rows[i].text, 1, &d), rows[i].status, rows[i].part);
}

int main(void)
{
    char folder[256];
    test_folder_create(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/ds.json", folder);
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches_complete_each_other_103),   cmocka_unit_test(world_size_is_named_104),
                                       cmocka_unit_test(misspelt_sections_are_found_106),   cmocka_unit_test(loss_scale_has_no_place_in_bf16_107),
                                       cmocka_unit_test(honoured_keys_are_read),            cmocka_unit_test(others_are_refused_by_name)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
