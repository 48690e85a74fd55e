/* Chat templates: run over one conversation, whatever they are. */
#include "support.h"

#include "base/memory.h"
#include "text/jinja.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static json_t *variables;
    lj_text out;
    char *source = malloc(bytes + 1);
    if (!variables)
        variables = json_loads("{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \" u\\n\"},"
                               " {\"role\": \"assistant\", \"content\": \"a\"}], \"bos_token\": \"<s>\", \"add_generation_prompt\": true, \"tools\": null}", 0, NULL);
    if (!source) return 0;
    if (bytes) memcpy(source, data, bytes);
    source[bytes] = 0;
    lj_text_init(&out);
    (void)lj_jinja_render(source, variables, &out);
    lj_text_release(&out);
    free(source);
    return 0;
}
