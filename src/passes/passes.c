#include "passes/passes.h"

#include "passes/recompute.h"

#include <string.h>

/* No cse after expand: it would join what forward and backward both compute (a norm's x * rstd, a gate's sigmoid) and keep it in
 * memory, in f32, between them; computing it again from the saved bf16 operands moves fewer bytes. */
const lj_pass lj_passes[] = {
    {"match", lj_pass_match, false, "patterns of primitives, as they were written, lifted to composites"},
    {"fold", lj_pass_fold, true, "views of views, casts and constants simplified"},
    {"cse", lj_pass_cse, true, "equal nodes made one"},
    {"dce", lj_pass_dce, true, "nodes that no result needs dropped"},
    {"head", lj_pass_head, false, "loss and its gradient in one sweep over the vocabulary"},
    {"accumulate", lj_pass_accumulate, false, "sums folded into the product or scatter that feeds them"},
    {"recompute", lj_pass_recompute, true, "values of the forward pass computed again in the backward pass, as chosen"},
    {"expand", lj_pass_expand, true, "composites without a library kernel written out in primitives"},
    {"fold2", lj_pass_fold, true, "fold again, over what expand wrote"},
    {"dce2", lj_pass_dce, true, "dce again"},
};
const size_t lj_pass_count = sizeof lj_passes / sizeof *lj_passes;

/* Expand is no choice: what has no kernel must be written out. */
static bool required(const lj_pass *pass)
{
    return pass->run == lj_pass_expand;
}

bool lj_name_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ",");
        if (n == length && strncmp(at, name, n) == 0) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

size_t lj_pass_names(const char *const **names)
{
    static const char *table[32];
    for (size_t i = 0; i < lj_pass_count; i++) table[i] = lj_passes[i].name;
    table[lj_pass_count] = "fuse";
    *names = table;
    return lj_pass_count + 1;
}

/* Every name in the list must be one of a pass. */
static lj_status names_check(const char *list, const char *what)
{
    const char *const *names;
    size_t count = lj_pass_names(&names);
    for (const char *at = list; at && *at;) {
        char word[64];
        size_t n = strcspn(at, ","), i = 0;
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        while (i < count && strcmp(names[i], word) != 0) i++;
        if (i == count && strcmp(word, "all") != 0) {
            const char *near = lj_nearest_name(word, names, count);
            return lj_fail(LJ_ERR_NOT_FOUND, "%s: no pass '%s'%s%s%s", what, word, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        }
        at += n + (at[n] == ',');
    }
    return LJ_OK;
}

lj_status lj_pass_recompute(lj_graph **graph, const lj_pass_context *context)
{
    lj_recompute choice;
    int layers = lj_graph_layers(*graph);
    if (!context->recompute || !*context->recompute || layers == 0) return LJ_OK;
    LJ_TRY(lj_recompute_parse(context->recompute, layers, &choice));
    LJ_TRY(lj_recompute_apply(graph, &choice));
    return lj_pass_dce(graph, context);
}

static lj_status dump(const lj_graph *graph, const char *name, const lj_program_options *options)
{
    if (!options->dump || !(lj_name_listed(options->dump_after, name) || lj_name_listed(options->dump_after, "all"))) return LJ_OK;
    char *text;
    LJ_TRY(lj_graph_print(graph, &text));
    options->dump(options->dump_user, name, text);
    lj_text_free(text);
    return LJ_OK;
}

static lj_status copy_graph(const lj_graph *graph, lj_graph **out)
{
    lj_rewrite rewrite;
    lj_graph *fresh = NULL;
    LJ_TRY(lj_rewrite_begin(&rewrite, graph));
    lj_status status = LJ_OK;
    for (size_t n = 0; n < graph->node_count && status == LJ_OK; n++)
        if (!graph->nodes[n].dead) status = lj_rewrite_copy(&rewrite, &graph->nodes[n]);
    LJ_TRY(lj_rewrite_end(&rewrite, &fresh, status));
    *out = fresh;
    return LJ_OK;
}

lj_status lj_passes_run(const lj_graph *graph, const lj_program_options *options, lj_graph **out)
{
    lj_pass_context context = {.eager = options->eager != 0, .recompute = options->recompute};
    lj_graph *work;
    LJ_TRY(names_check(options->disable, "disable"));
    LJ_TRY(names_check(options->dump_after, "dump_after"));
    LJ_TRY(lj_graph_verify(graph));
    LJ_TRY(copy_graph(graph, &work));
    for (size_t i = 0; i < lj_pass_count; i++) {
        const lj_pass *pass = &lj_passes[i];
        bool off = lj_name_listed(options->disable, pass->name) || (context.eager && !pass->in_eager);
        lj_status status = off && !required(pass) ? LJ_OK : pass->run(&work, &context);
        if (status == LJ_OK) status = lj_graph_verify(work);
        if (status == LJ_OK) status = dump(work, pass->name, options);
        if (status == LJ_OK) continue;
        lj_graph_destroy(work);
        return lj_fail_in(status, "pass %s", pass->name);
    }
    *out = work;
    return LJ_OK;
}
