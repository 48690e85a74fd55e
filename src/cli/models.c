/* ljperf models: the presets with their sizes. */
#include "cli/commands.h"
#include "formats/hf_config.h"
#include "model/source.h"

#include <stdio.h>

static lj_status line_print(void *user, const char *name, const char *folder)
{
    char path[4096], parameters[32];
    lj_model_config c;
    (void)user;
    snprintf(path, sizeof path, "%s/config.json", folder);
    LJ_TRY(lj_hf_config_read(path, &c));
    lj_si_format((double)lj_model_parameter_count(&c), parameters, sizeof parameters);
    printf("%-26s %10s %7lld %7lld %6lld/%-4lld %8lld %8lld %10lld  %s\n", name, parameters, (long long)c.num_hidden_layers,
           (long long)c.hidden_size, (long long)c.num_attention_heads, (long long)c.num_key_value_heads, (long long)c.intermediate_size,
           (long long)c.vocab_size, (long long)c.max_position_embeddings, lj_model_family_name(c.family));
    return LJ_OK;
}

int lj_command_models(const lj_command_input *input)
{
    (void)input;
    printf("%-26s %10s %7s %7s %11s %8s %8s %10s  %s\n", "preset", "parameters", "layers", "hidden", "heads/kv", "ffn", "vocab", "positions", "family");
    lj_status status = lj_presets_each(line_print, NULL);
    if (status == LJ_OK) printf("\nA Hugging Face folder or a GGUF file does as well wherever --model is asked for.\n");
    return lj_exit(status);
}
