/* The small parts under the doctor: versions, YAML, schema, patterns, SHA-256, ELF and loader cache against
 * hostile bytes, quantities, secrets. */
#include "support/testing.h"

#include "base/file.h"
#include "host/cgroup.h"
#include "host/elf.h"
#include "host/job.h"
#include "host/loader.h"
#include "host/nics.h"
#include "host/pattern.h"
#include "host/redact.h"
#include "host/schema.h"
#include "host/sha256.h"
#include "host/version.h"
#include "host/yaml.h"

#include <stdlib.h>

static void versions_are_ordered(void **state)
{
    (void)state;
    static const char *const rising[] = {"418.40",     "470.57", "470.57.02", "535.54.03", "535.86",
                                         "535.104.05", "575",    "575.51.03", "580.65.06"};
    for (size_t i = 0; i + 1 < sizeof rising / sizeof *rising; i++) {
        assert_true(lj_version_compare(rising[i], rising[i + 1]) < 0);
        assert_true(lj_version_compare(rising[i + 1], rising[i]) > 0);
    }
    assert_int_equal(lj_version_compare("12.8", "12.8.0"), 0);
    char found[32];
    assert_true(lj_version_find("NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue", found, sizeof found));
    assert_string_equal(found, "535.54.03");
    assert_false(lj_version_find("x86_64 only", found, sizeof found));
}

static void python_versions_follow_their_rules(void **state)
{
    (void)state;
    static const char *const rising[] = {"1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.1"};
    for (size_t i = 0; i + 1 < sizeof rising / sizeof *rising; i++)
        assert_true(lj_python_version_compare(rising[i], rising[i + 1]) < 0);
    assert_true(lj_python_version_allows("==2.5.1", "2.5.1+cu124"));
    assert_false(lj_python_version_allows("==2.5.1", "2.6.0"));
    assert_true(lj_python_version_allows(">=2.0,<3,!=2.3.*", "2.4.1"));
    assert_false(lj_python_version_allows(">=2.0,<3,!=2.3.*", "2.3.9"));
    assert_true(lj_python_version_allows("~=2.1", "2.9"));
    assert_false(lj_python_version_allows("~=2.1.0", "2.2.0"));
    assert_true(lj_python_version_allows("(==2.11.0)", "2.11.0"));
    assert_true(lj_python_version_allows("", "1"));
}

static void yaml_reads_and_writes_back(void **state)
{
    (void)state;
    static const char text[] = "a: 1\nb: \"1\"\nc: [x, 'yes', null, true, 2.5]\nd: {e: \"00\", f: \"a: "
                               "b\"}\n---\nsecond: document\n";
    json_t *all, *again;
    assert_ok(lj_yaml_parse_all(text, strlen(text), "text", &all));
    assert_int_equal(json_array_size(all), 2);
    char *written = lj_yaml_write(json_array_get(all, 0));
    assert_ok(lj_yaml_parse_all(written, strlen(written), "written", &again));
    assert_true(json_equal(json_array_get(all, 0), json_array_get(again, 0)));
    free(written);
    json_decref(all), json_decref(again);
    assert_fails(lj_yaml_parse_all("a: [1", 5, "broken", &all), LJ_ERR_FORMAT, "broken: line");
    assert_fails(lj_yaml_parse_all("a: 1\na: 2\n", 10, "twice", &all), LJ_ERR_FORMAT, "'a' twice");
}

/* Aliases that would unfold to a billion values. */
static void yaml_bombs_are_bounded(void **state)
{
    (void)state;
    char text[2048];
    size_t used = (size_t)snprintf(text, sizeof text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 10; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s*a%d", k ? ", " : "", i - 1);
        used += (size_t)snprintf(text + used, sizeof text - used, "]\n");
    }
    json_t *all;
    assert_fails(lj_yaml_parse_all(text, used, "bomb", &all), LJ_ERR_LIMIT, "more than");
}

static void schema_says_where(void **state)
{
    (void)state;
    json_t *schema =
        json_loads("{\"type\":\"object\",\"required\":[\"a\"],\"additionalProperties\":false,\"properties\":{"
                   "\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/definitions/n\"}}},"
                   "\"definitions\":{\"n\":{\"type\":\"integer\",\"minimum\":2}}}",
                   0, NULL);
    json_t *good = json_loads("{\"a\":[2,3]}", 0, NULL), *low = json_loads("{\"a\":[2,1]}", 0, NULL),
           *extra = json_loads("{\"a\":[],\"b\":1}", 0, NULL), *none = json_object();
    assert_ok(lj_schema_check(schema, good));
    assert_fails(lj_schema_check(schema, low), LJ_ERR_FORMAT, "a.1: is below");
    assert_fails(lj_schema_check(schema, extra), LJ_ERR_FORMAT, "unknown key b");
    assert_fails(lj_schema_check(schema, none), LJ_ERR_FORMAT, "lacks the key a");
    json_t *strange = json_loads("{\"dependencies\":{}}", 0, NULL);
    assert_fails(lj_schema_check(strange, good), LJ_ERR_UNSUPPORTED, "dependencies");
    json_decref(schema), json_decref(good), json_decref(low), json_decref(extra), json_decref(none),
        json_decref(strange);
}

static void hashes_are_sha256(void **state)
{
    (void)state;
    char hex[65];
    lj_sha256_hex("abc", 3, hex); /* FIPS 180-4's example */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    lj_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    lj_sha256_hex(two_blocks, strlen(two_blocks), hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* Our own program, cut and with bytes changed: an answer or an error, never a fault (the sanitizers watch).
 */
static void elf_reader_stands_hostile_bytes(void **state)
{
    (void)state;
    char folder[128], path[160];
    lj_mapped_file self;
    assert_ok(lj_mapped_file_init(&self, "/proc/self/exe"));
    size_t bytes = self.bytes < 1 << 18 ? self.bytes : 1 << 18;
    uint8_t *copy = malloc(bytes);
    uint64_t random = 11;
    assert_non_null(copy);
    test_folder_create(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/broken", folder);
    for (int round = 0; round < 150; round++) {
        memcpy(copy, self.data, bytes);
        size_t length = round % 3 ? bytes : (size_t)test_random_range(&random, 0, (int64_t)bytes);
        for (int i = 0; i < 40 && length > 64; i++)
            copy[test_random_range(&random, 0, round % 2 ? 1023 : (int64_t)length - 1) % (int64_t)length] =
                (uint8_t)test_random(&random);
        if (round == 1) memset(copy + 32, 0xff, 32); /* offsets of the headers */
        assert_ok(lj_file_write(path, copy, length));
        lj_elf elf;
        if (lj_elf_read(path, &elf) == LJ_OK) lj_elf_release(&elf);
    }
    free(copy);
    lj_mapped_file_release(&self);
    test_folder_remove(folder);
    lj_elf elf;
    assert_ok(lj_elf_read("/proc/self/exe", &elf));
    assert_true(json_array_size(elf.needed) > 0);
    lj_elf_release(&elf);
}

static void quantities_and_addresses(void **state)
{
    (void)state;
    assert_true(lj_quantity_parse("1.5Gi") == 1.5 * 1073741824);
    assert_true(lj_quantity_parse("250m") == 0.25);
    assert_true(lj_quantity_parse("8") == 8);
    assert_true(lj_quantity_parse("many") < 0);
    uint32_t address;
    int length;
    assert_true(lj_address_parse("172.17.0.1/16", &address, &length));
    assert_int_equal(length, 16);
    assert_true(lj_address_private(address));
    assert_true(lj_address_parse("8.8.8.8/24", &address, &length));
    assert_false(lj_address_private(address));
    assert_false(lj_address_parse("10.0.0.1", &address, &length));
}

static json_t *rule_file(const char *name)
{
    char path[512];
    json_t *rules;
    snprintf(path, sizeof path, LJ_SOURCE_DIR "/data/rules/%s.yaml", name);
    assert_ok(lj_yaml_load(path, &rules));
    return rules;
}

/* Every pattern of every rule file compiles: one that does not would never match, silently. */
static void check_patterns(const json_t *value, const char *key, int *count)
{
    const char *name;
    json_t *inner;
    size_t i;
    bool pattern = strcmp(key, "pattern") == 0 || strcmp(key, "match") == 0 ||
                   strcmp(key, "xid_pattern") == 0 || strcmp(key, "names") == 0 || strcmp(key, "local") == 0;
    if (json_is_string(value) && pattern) {
        (*count)++;
        if (!lj_host_pattern_valid(json_string_value(value)))
            fail_msg("pattern does not compile: %s", json_string_value(value));
    }
    json_object_foreach((json_t *)value, name, inner) check_patterns(inner, name, count);
    json_array_foreach(value, i, inner) check_patterns(inner, key, count);
}

static void rules_are_whole(void **state)
{
    (void)state;
    static const char *const files[] = {"nvidia", "gpus",         "cuda_errors", "environment", "kernel_log",
                                        "limits", "accelerators", "secrets",     "network",     "conflicts"};
    int count = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        json_t *rules = rule_file(files[i]);
        check_patterns(rules, "", &count);
        assert_true(json_object_get(rules, "source") || json_object_get(rules, "sources") || i == 5 ||
                    i == 6);
        json_decref(rules);
    }
    assert_true(count > 100);
}

static void variables_have_reasons(void **state)
{
    (void)state;
    json_t *rules = rule_file("environment"), *row;
    size_t i;
    json_array_foreach(json_object_get(rules, "variables"), i, row)
    {
        const char *verdict = lj_json_text(row, "verdict");
        assert_true(strcmp(verdict, "ok") == 0 || (*lj_json_text(row, "why") && *lj_json_text(row, "next") &&
                                                   *lj_json_text(row, "source")));
    }
    json_decref(rules);
}

static void secrets_go_and_words_stay(void **state)
{
    (void)state;
    json_t *rules = rule_file("secrets");
    lj_text out;
    lj_text_init(&out);
    lj_redact(rules,
              "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\nurl https://u:pa55@h.example/x\nNCCL_DEBUG=INFO "
              "driver 535.54.03\n",
              &out);
    assert_null(strstr(out.data, "hf_abc"));
    assert_null(strstr(out.data, "pa55"));
    assert_non_null(strstr(out.data, "NCCL_DEBUG=INFO driver 535.54.03"));
    assert_non_null(strstr(out.data, "h.example/x"));
    lj_text_release(&out);
    assert_true(lj_secret_name(rules, "DB_PASSWORD"));
    assert_true(lj_secret_name(rules, "aws_secret_access_key"));
    assert_false(lj_secret_name(rules, "NCCL_SOCKET_IFNAME"));
    json_decref(rules);
}

/* A component of a manifest without a smoke test is a hole in the table. */
static void every_component_has_a_test(void **state)
{
    (void)state;
    json_t *tests, *manifest, *component, *row;
    static const char *const files[] = {"training-nv-pytorch-25.07", "training-xpu-pytorch-25.05"};
    size_t i, k, m;
    assert_ok(lj_yaml_load(LJ_SOURCE_DIR "/data/components.yaml", &tests));
    for (m = 0; m < 2; m++) {
        char path[512];
        snprintf(path, sizeof path, LJ_SOURCE_DIR "/data/images/%s.yaml", files[m]);
        assert_ok(lj_yaml_load(path, &manifest));
        json_array_foreach(json_object_get(manifest, "components"), i, component)
        {
            bool found = false;
            json_array_foreach(json_object_get(tests, "components"), k, row) found |=
                strcmp(lj_json_text(row, "name"), lj_json_text(component, "name")) == 0;
            if (!found) fail_msg("no test of component %s", lj_json_text(component, "name"));
        }
        json_decref(manifest);
    }
    json_decref(tests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(versions_are_ordered),
                                       cmocka_unit_test(python_versions_follow_their_rules),
                                       cmocka_unit_test(yaml_reads_and_writes_back),
                                       cmocka_unit_test(yaml_bombs_are_bounded),
                                       cmocka_unit_test(schema_says_where),
                                       cmocka_unit_test(hashes_are_sha256),
                                       cmocka_unit_test(elf_reader_stands_hostile_bytes),
                                       cmocka_unit_test(quantities_and_addresses),
                                       cmocka_unit_test(rules_are_whole),
                                       cmocka_unit_test(variables_have_reasons),
                                       cmocka_unit_test(secrets_go_and_words_stay),
                                       cmocka_unit_test(every_component_has_a_test)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
