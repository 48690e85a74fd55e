/* Where values live. Inputs and outputs are the caller's buffers; the rest is workspace. An op that updates in place gets its
 * result into its operand's buffer where nobody needs the old content, else after a copy. Assignments to state are made in the
 * state's own buffer where that is safe, else by a copy at the end. */
#include "runtime/program.h"

#include <string.h>

enum { NO_BUFFER = UINT32_MAX };

typedef struct {
    lj_program *p;
    uint32_t *last_read; /* by storage value: last unit that reads it, + 1; units + 1 for results; 0 never */
    uint32_t *maker;     /* by value: unit + 1 that writes it; 0 = input */
} storage;

static const lj_node *unit_node(const lj_program *p, const lj_unit *unit)
{
    return &p->graph->nodes[unit->node];
}

static bool reads_heads(const lj_unit *unit, const lj_node *node, uint32_t index)
{
    return !unit->kernel && index < 3 && (node->op == LJ_OP_attention || node->op == LJ_OP_attention_grad);
}

/* The value whose buffer operand `index` of a unit reads; 0 for a missing operand. */
static lj_value operand_storage(const lj_program *p, const lj_unit *unit, uint32_t index)
{
    lj_value v = unit->inputs[index];
    int64_t head;
    if (!v) return 0;
    if (reads_heads(unit, unit_node(p, unit), index)) v = lj_attention_operand(p->graph, v, &head);
    return lj_storage_value(p->graph, v);
}

static lj_status storage_init(storage *s, lj_arena *scratch)
{
    lj_program *p = s->p;
    size_t values = p->graph->value_count;
    s->last_read = lj_arena_alloc(scratch, values * sizeof(uint32_t));
    s->maker = lj_arena_alloc(scratch, values * sizeof(uint32_t));
    size_t capacity = values + 2 * p->graph->result_count + 1;
    p->buffer_of = lj_arena_alloc(&p->arena, values * sizeof(uint32_t));
    p->buffers = lj_arena_alloc(&p->arena, capacity * sizeof(lj_buffer));
    p->bindings = lj_arena_alloc(&p->arena, (p->graph->node_count + p->graph->result_count + 1) * sizeof(lj_binding));
    p->steps = lj_arena_alloc(&p->arena, (p->units.count * 4 + p->graph->result_count * 2 + 1) * sizeof(lj_step));
    if (!s->last_read || !s->maker || !p->buffer_of || !p->buffers || !p->bindings || !p->steps) return lj_fail(LJ_ERR_NOMEM, "program storage");
    memset(p->buffer_of, 0xff, values * sizeof(uint32_t));
    for (uint32_t u = 0; u < p->units.count; u++) {
        const lj_unit *unit = &p->units.units[u];
        for (uint32_t k = 0; k < unit->output_count; k++) s->maker[unit->outputs[k]] = u + 1;
        for (uint32_t k = 0; k < unit->input_count; k++) {
            lj_value v = operand_storage(p, unit, k);
            if (v) s->last_read[v] = u + 1;
        }
    }
    for (size_t i = 0; i < p->graph->result_count; i++)
        s->last_read[lj_storage_value(p->graph, p->graph->results[i].value)] = (uint32_t)p->units.count + 1;
    return LJ_OK;
}

static uint32_t buffer_add(lj_program *p, lj_buffer_kind kind, lj_value value, uint32_t bound)
{
    p->buffers[p->buffer_count] = (lj_buffer){.kind = kind, .value = value, .bound = bound, .first = UINT32_MAX};
    return (uint32_t)p->buffer_count++;
}

static uint32_t binding_add(lj_program *p, const char *name, lj_value value, bool is_output)
{
    p->bindings[p->binding_count] = (lj_binding){name, value, is_output, NULL};
    return (uint32_t)p->binding_count++;
}

static void inputs_bind(lj_program *p)
{
    for (size_t n = 0; n < p->graph->node_count; n++) {
        const lj_node *node = &p->graph->nodes[n];
        if (node->op != LJ_OP_input) continue;
        uint32_t bound = binding_add(p, node->name, node->output, false);
        p->buffer_of[node->output] = buffer_add(p, LJ_BUFFER_BOUND, node->output, bound);
    }
}

/* Operand that the unit writes result `v` over, or 0. */
static lj_value written_over(const storage *s, lj_value v)
{
    uint32_t maker = s->maker[v];
    if (!maker) return 0;
    const lj_unit *unit = &s->p->units.units[maker - 1];
    if (unit->kernel) return 0;
    const lj_node *node = unit_node(s->p, unit);
    int operand = lj_in_place_operand(node, s->p->graph->values[v].index);
    return operand < 0 ? 0 : operand_storage(s->p, unit, (uint32_t)operand);
}

/* The unit that writes over `v` is the last and only one of its readers at that time. */
static bool dies_at(const storage *s, lj_value v, uint32_t unit)
{
    if (s->last_read[v] != unit + 1) return false;
    uint32_t operands = 0;
    const lj_unit *u = &s->p->units.units[unit];
    for (uint32_t k = 0; k < u->input_count; k++) operands += operand_storage(s->p, u, k) == v;
    return operands == 1;
}

/* From an assigned value back through in-place ops: does the chain start at the state itself? Then all of it lives there. */
static bool chain_starts_at(const storage *s, lj_value v, lj_value state)
{
    for (lj_value over = written_over(s, v); over; v = over, over = written_over(s, v)) {
        if (!dies_at(s, over, s->maker[v] - 1)) return false;
        if (over == state) return true;
    }
    return false;
}

static void chain_bind(storage *s, lj_value v, lj_value state)
{
    for (; v != state; v = written_over(s, v)) s->p->buffer_of[v] = s->p->buffer_of[state];
}

/* The value can be made straight in the state's buffer: made by a unit, after the last reader of the old content. */
static bool made_in_state(const storage *s, lj_value v, lj_value state)
{
    return s->maker[v] && s->p->buffer_of[v] == NO_BUFFER && s->last_read[state] < s->maker[v] && !written_over(s, v);
}

static void assignments_bind(storage *s)
{
    lj_program *p = s->p;
    for (size_t i = 0; i < p->graph->result_count; i++) {
        const lj_result *result = &p->graph->results[i];
        lj_value v = result->state ? lj_storage_value(p->graph, result->value) : 0;
        if (!v || p->buffer_of[v] != NO_BUFFER) continue;
        if (chain_starts_at(s, v, result->state))
            chain_bind(s, v, result->state);
        else if (made_in_state(s, v, result->state))
            p->buffer_of[v] = p->buffer_of[result->state];
    }
}

/* An output's value lives in the output's buffer when it has none yet; else a copy is made at the end. */
static void outputs_bind(storage *s)
{
    lj_program *p = s->p;
    for (size_t i = 0; i < p->graph->result_count; i++) {
        const lj_result *result = &p->graph->results[i];
        if (result->state) continue;
        lj_value v = lj_storage_value(p->graph, result->value);
        uint32_t bound = binding_add(p, result->name, result->value, true);
        if (p->buffer_of[v] == NO_BUFFER && s->maker[v]) p->buffer_of[v] = buffer_add(p, LJ_BUFFER_BOUND, result->value, bound);
    }
}

/* Everything else: over its operand where that dies, else a buffer of its own. In unit order, so that operands are placed. */
static void workspace_assign(storage *s)
{
    lj_program *p = s->p;
    for (uint32_t u = 0; u < p->units.count; u++) {
        const lj_unit *unit = &p->units.units[u];
        for (uint32_t k = 0; k < unit->output_count; k++) {
            lj_value v = unit->outputs[k], over = written_over(s, v);
            if (p->buffer_of[v] != NO_BUFFER) continue;
            bool reuse = over && p->buffers[p->buffer_of[over]].kind == LJ_BUFFER_WORKSPACE && dies_at(s, over, u);
            p->buffer_of[v] = reuse ? p->buffer_of[over] : buffer_add(p, LJ_BUFFER_WORKSPACE, v, 0);
        }
    }
}

static void step_add(lj_program *p, lj_step step)
{
    p->steps[p->step_count++] = step;
}

static void copy_add(lj_program *p, uint32_t to, uint32_t from, lj_value value)
{
    if (to == from) return;
    step_add(p, (lj_step){.type = &lj_step_copy, .copy_to = to, .copy_from = from, .copy_value = value});
}

static lj_status unit_steps(storage *s, uint32_t u)
{
    lj_program *p = s->p;
    const lj_unit *unit = &p->units.units[u];
    const lj_node *node = unit_node(p, unit);
    if (unit->kernel) {
        step_add(p, (lj_step){.type = &lj_step_kernel, .unit = unit, .node = node, .kernel = p->kernels[u]});
        return LJ_OK;
    }
    for (uint32_t k = 0; k < unit->output_count; k++) {
        lj_value over = written_over(s, unit->outputs[k]);
        if (over) copy_add(p, p->buffer_of[unit->outputs[k]], p->buffer_of[over], unit->outputs[k]);
    }
    const lj_step_type *type = lj_step_type_find(node->op);
    if (!type) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: no step runs this op", lj_node_describe(p->graph, node));
    step_add(p, (lj_step){.type = type, .unit = unit, .node = node});
    return LJ_OK;
}

/* Results that are not where they belong. States whose old content is still to be copied elsewhere are saved first. */
static lj_status results_copy(storage *s)
{
    lj_program *p = s->p;
    uint32_t *from = lj_arena_alloc(&p->arena, (p->graph->result_count + 1) * sizeof *from);
    if (!from) return lj_fail(LJ_ERR_NOMEM, "program storage");
    for (size_t i = 0; i < p->graph->result_count; i++) {
        const lj_result *result = &p->graph->results[i];
        lj_value v = lj_storage_value(p->graph, result->value);
        from[i] = p->buffer_of[v];
        bool moves = result->state && from[i] != p->buffer_of[result->state];
        if (moves && lj_is(p->graph, v, LJ_OP_input)) {
            uint32_t saved = buffer_add(p, LJ_BUFFER_WORKSPACE, v, 0);
            copy_add(p, saved, from[i], v);
            from[i] = saved;
        }
    }
    /* outputs before states: an output may show a state's old content */
    for (size_t i = 0; i < p->graph->result_count; i++) {
        const lj_result *result = &p->graph->results[i];
        if (result->state) continue;
        uint32_t bound = 0;
        while (!p->bindings[bound].is_output || strcmp(p->bindings[bound].name, result->name) != 0) bound++;
        uint32_t to = p->buffers[from[i]].kind == LJ_BUFFER_BOUND && p->buffers[from[i]].bound == bound ? from[i]
                                                                                                        : buffer_add(p, LJ_BUFFER_BOUND, result->value, bound);
        copy_add(p, to, from[i], result->value);
    }
    for (size_t i = 0; i < p->graph->result_count; i++)
        if (p->graph->results[i].state) copy_add(p, p->buffer_of[p->graph->results[i].state], from[i], p->graph->results[i].value);
    return LJ_OK;
}

static void touch(lj_program *p, uint32_t buffer, uint32_t step)
{
    lj_buffer *b = &p->buffers[buffer];
    if (b->first == UINT32_MAX) b->first = step;
    b->last = step;
}

static void lifetimes(lj_program *p)
{
    for (uint32_t i = 0; i < p->step_count; i++) {
        const lj_step *step = &p->steps[i];
        if (!step->unit) {
            touch(p, step->copy_from, i);
            touch(p, step->copy_to, i);
            continue;
        }
        for (uint32_t k = 0; k < step->unit->input_count; k++) {
            lj_value v = operand_storage(p, step->unit, k);
            if (v) touch(p, p->buffer_of[v], i);
        }
        for (uint32_t k = 0; k < step->unit->output_count; k++) touch(p, p->buffer_of[step->unit->outputs[k]], i);
    }
}

lj_status lj_storage_assign(lj_program *p)
{
    lj_arena scratch;
    lj_arena_init(&scratch, "program");
    storage s = {.p = p};
    lj_status status = storage_init(&s, &scratch);
    if (status == LJ_OK) {
        inputs_bind(p);
        assignments_bind(&s);
        outputs_bind(&s);
        workspace_assign(&s);
        for (uint32_t u = 0; u < p->units.count && status == LJ_OK; u++) status = unit_steps(&s, u);
        if (status == LJ_OK) status = results_copy(&s);
        if (status == LJ_OK) lifetimes(p);
    }
    lj_arena_release(&scratch);
    return status;
}
