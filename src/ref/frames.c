/* The interpreter: ranks advance node by node until they meet in a collective. A rank alone is the common case. */
#include "ref/run.h"

lj_status lj_ref_outputs_init(const lj_graph *graph, const lj_node *node, const int64_t *sizes, lj_ref_tensor *outputs)
{
    for (int k = 0; k < node->output_count; k++) {
        lj_status status = lj_ref_tensor_init(&outputs[k], lj_type_get(graph, node->output + (lj_value)k), sizes);
        if (status == LJ_OK) continue;
        lj_ref_outputs_release(outputs, k);
        return lj_fail_in(status, "%s", lj_node_describe(graph, node));
    }
    return LJ_OK;
}

void lj_ref_outputs_release(lj_ref_tensor *outputs, int count)
{
    for (int k = 0; k < count; k++) lj_ref_tensor_release(&outputs[k]);
}

lj_status lj_ref_node_run(const lj_graph *graph, const lj_node *node, const int64_t *sizes, lj_ref_mode mode,
                          const lj_ref_tensor *const *inputs, lj_ref_tensor *outputs)
{
    LJ_TRY(lj_ref_outputs_init(graph, node, sizes, outputs));
    lj_status status = lj_ref_rows[node->op].run(&(lj_ref_op){graph, node, sizes, inputs, outputs, mode});
    if (status != LJ_OK) {
        lj_ref_outputs_release(outputs, node->output_count);
        return status;
    }
    for (int k = 0; k < node->output_count; k++) {
        lj_ref_tensor_round(&outputs[k], mode.exact);
        if (mode.noise) lj_ref_nudge(node, inputs, &outputs[k], mode);
    }
    return LJ_OK;
}

/* -- frames --------------------------------------------------------------------------------------------------------------- */

lj_status lj_ref_frame_init(lj_ref_frame *frame, const lj_graph *graph)
{
    void *tensors, *last_use;
    LJ_TRY(lj_alloc_zero("reference", graph->value_count * sizeof(lj_ref_tensor), &tensors));
    lj_status status = lj_alloc_zero("reference", graph->value_count * sizeof(uint32_t), &last_use);
    if (status != LJ_OK) {
        lj_free(tensors);
        return status;
    }
    *frame = (lj_ref_frame){graph, tensors, last_use, 0};
    for (size_t n = 0; n < graph->node_count; n++) {
        const lj_node *node = &graph->nodes[n];
        if (node->dead) continue;
        for (int k = 0; k < node->output_count; k++) frame->last_use[node->output + (lj_value)k] = (uint32_t)n;
        for (int j = 0; j < node->input_count; j++) frame->last_use[node->inputs[j]] = (uint32_t)n;
    }
    for (size_t r = 0; r < graph->result_count; r++) lj_ref_frame_keep(frame, graph->results[r].value);
    return LJ_OK;
}

void lj_ref_frame_keep(lj_ref_frame *frame, lj_value value)
{
    frame->last_use[value] = UINT32_MAX;
}

void lj_ref_frame_release(lj_ref_frame *frame)
{
    if (!frame->graph) return;
    for (size_t v = 0; v < frame->graph->value_count; v++) lj_ref_tensor_release(&frame->tensors[v]);
    lj_free(frame->tensors);
    lj_free(frame->last_use);
    *frame = (lj_ref_frame){.graph = NULL};
}

static const lj_node *current(const lj_ref_frame *frame)
{
    return frame->next < frame->graph->node_count ? &frame->graph->nodes[frame->next] : NULL;
}

/* Moves on, and lets go of what no later node reads. */
static void step_over(lj_ref_frame *frame)
{
    const lj_node *node = current(frame);
    for (int j = 0; j < node->input_count; j++)
        if (frame->last_use[node->inputs[j]] == frame->next) lj_ref_tensor_release(&frame->tensors[node->inputs[j]]);
    for (int k = 0; k < node->output_count; k++)
        if (frame->last_use[node->output + (lj_value)k] == frame->next)
            lj_ref_tensor_release(&frame->tensors[node->output + (lj_value)k]);
    frame->next++;
}

/* -- the ranks' world ------------------------------------------------------------------------------------------------------ */

typedef struct message {
    struct message *next;
    int from, to;
    lj_ref_tensor tensor;
} message;

typedef struct {
    lj_ref_frame *frames;
    int count;
    const int64_t *sizes;
    lj_ref_mode mode;
    message *first, *last; /* on their way, oldest first */
} world;

static lj_status peer_check(const world *w, const lj_ref_frame *frame, const lj_node *node)
{
    int64_t peer = node->attributes.i[0];
    if (peer >= 0 && peer < w->count) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s: peer %lld is none of the %d ranks", lj_node_describe(frame->graph, node), (long long)peer,
                   w->count);
}

/* The operand goes into the mail; the result is the operand. */
static lj_status send_run(world *w, int rank, const lj_node *node)
{
    lj_ref_frame *frame = &w->frames[rank];
    const lj_ref_tensor *x = &frame->tensors[node->inputs[0]];
    void *memory;
    LJ_TRY(peer_check(w, frame, node));
    LJ_TRY(lj_alloc_zero("reference", sizeof(message), &memory));
    message *mail = memory;
    *mail = (message){.from = rank, .to = (int)node->attributes.i[0]};
    lj_status status = lj_ref_tensor_copy(&mail->tensor, x);
    if (status == LJ_OK) status = lj_ref_tensor_copy(&frame->tensors[node->output], x);
    if (status != LJ_OK) {
        lj_ref_tensor_release(&mail->tensor);
        lj_free(mail);
        return status;
    }
    if (w->last)
        w->last->next = mail;
    else
        w->first = mail;
    w->last = mail;
    return LJ_OK;
}

static message *mail_take(world *w, int from, int to)
{
    message *before = NULL;
    for (message *mail = w->first; mail; before = mail, mail = mail->next) {
        if (mail->from != from || mail->to != to) continue;
        if (before)
            before->next = mail->next;
        else
            w->first = mail->next;
        if (w->last == mail) w->last = before;
        return mail;
    }
    return NULL;
}

/* *arrived tells whether there was mail. */
static lj_status recv_run(world *w, int rank, const lj_node *node, bool *arrived)
{
    lj_ref_frame *frame = &w->frames[rank];
    LJ_TRY(peer_check(w, frame, node));
    message *mail = mail_take(w, (int)node->attributes.i[0], rank);
    *arrived = mail != NULL;
    if (!mail) return LJ_OK;
    lj_status status = lj_ref_tensor_init(&frame->tensors[node->output], lj_type_get(frame->graph, node->output), w->sizes);
    lj_ref_tensor *out = &frame->tensors[node->output];
    if (status == LJ_OK && (out->dtype != mail->tensor.dtype || out->count != mail->tensor.count))
        status = lj_fail(LJ_ERR_PEER, "%s: rank %d sent %lld %s, rank %d expects %lld %s", lj_node_describe(frame->graph, node), mail->from,
                         (long long)mail->tensor.count, lj_dtype_name(mail->tensor.dtype), rank, (long long)out->count,
                         lj_dtype_name(out->dtype));
    if (status == LJ_OK) memcpy(out->cells, mail->tensor.cells, (size_t)out->count * sizeof(lj_ref_cell));
    lj_ref_tensor_release(&mail->tensor);
    lj_free(mail);
    return status;
}

static lj_status alone_run(world *w, int rank, const lj_node *node)
{
    lj_ref_frame *frame = &w->frames[rank];
    void *memory;
    LJ_TRY(lj_alloc_zero("reference", (size_t)node->input_count * sizeof(lj_ref_tensor *), &memory));
    const lj_ref_tensor **inputs = memory;
    for (int j = 0; j < node->input_count; j++) inputs[j] = node->inputs[j] ? &frame->tensors[node->inputs[j]] : NULL;
    lj_status status = lj_ref_node_run(frame->graph, node, w->sizes, w->mode, inputs, &frame->tensors[node->output]);
    lj_free(memory);
    return status;
}

static bool is_exchange(const lj_node *node)
{
    return node && lj_ref_rows[node->op].exchange;
}

/* Runs a rank until its end or until it must wait; *moved when it did anything. */
static lj_status advance(world *w, int rank, bool *moved)
{
    lj_ref_frame *frame = &w->frames[rank];
    for (const lj_node *node; (node = current(frame)) && !is_exchange(node);) {
        bool done = true;
        if (node->dead || (node->op == LJ_OP_input && frame->tensors[node->output].cells))
            done = true;
        else if (node->op == LJ_OP_send)
            LJ_TRY(send_run(w, rank, node));
        else if (node->op == LJ_OP_recv)
            LJ_TRY(recv_run(w, rank, node, &done));
        else
            LJ_TRY(alone_run(w, rank, node));
        if (!done) return LJ_OK;
        step_over(frame);
        *moved = true;
    }
    return LJ_OK;
}

/* Every rank must stand at the same collective with the same operand type. */
static lj_status exchange_check(const world *w)
{
    const lj_node *first = current(&w->frames[0]);
    const lj_ref_tensor *x = &w->frames[0].tensors[first->inputs[0]];
    for (int rank = 0; rank < w->count; rank++) {
        const lj_node *node = current(&w->frames[rank]);
        const lj_ref_tensor *mine = &w->frames[rank].tensors[node->inputs[0]];
        if (node->attributes.i[0] != w->count)
            return lj_fail(LJ_ERR_INVALID, "%s is over %lld ranks, %d run", lj_node_describe(w->frames[rank].graph, node),
                           (long long)node->attributes.i[0], w->count);
        if (node->op != first->op || mine->dtype != x->dtype || mine->count != x->count)
            return lj_fail(LJ_ERR_PEER, "rank %d is in %s with %lld elements, rank 0 in %s with %lld", rank, lj_op_rows[node->op].name,
                           (long long)mine->count, lj_op_rows[first->op].name, (long long)x->count);
    }
    return LJ_OK;
}

static lj_status exchange_run(world *w)
{
    const lj_ref_tensor *inputs[LJ_REF_MAX_RANKS];
    lj_ref_tensor *outputs[LJ_REF_MAX_RANKS];
    LJ_TRY(exchange_check(w));
    for (int rank = 0; rank < w->count; rank++) {
        lj_ref_frame *frame = &w->frames[rank];
        const lj_node *node = current(frame);
        inputs[rank] = &frame->tensors[node->inputs[0]];
        outputs[rank] = &frame->tensors[node->output];
        LJ_TRY(lj_ref_outputs_init(frame->graph, node, w->sizes, outputs[rank]));
    }
    lj_ref_rows[current(&w->frames[0])->op].exchange(&(lj_ref_exchange){w->count, inputs, outputs});
    for (int rank = 0; rank < w->count; rank++) {
        lj_ref_tensor_round(outputs[rank], w->mode.exact);
        step_over(&w->frames[rank]);
    }
    return LJ_OK;
}

static lj_status stuck(const world *w)
{
    for (int rank = 0; rank < w->count; rank++) {
        const lj_node *node = current(&w->frames[rank]);
        if (node)
            return lj_fail(LJ_ERR_PEER, "rank %d waits for ever in %s: no other rank answers it", rank,
                           lj_node_describe(w->frames[rank].graph, node));
    }
    return LJ_OK;
}

static lj_status world_run(world *w)
{
    for (bool moved = true; moved;) {
        int at_exchange = 0, ended = 0;
        moved = false;
        for (int rank = 0; rank < w->count; rank++) LJ_TRY(advance(w, rank, &moved));
        for (int rank = 0; rank < w->count; rank++) {
            at_exchange += is_exchange(current(&w->frames[rank]));
            ended += !current(&w->frames[rank]);
        }
        if (ended == w->count) return LJ_OK;
        if (at_exchange < w->count) continue;
        LJ_TRY(exchange_run(w));
        moved = true;
    }
    return stuck(w);
}

lj_status lj_ref_frames_run(lj_ref_frame *frames, int count, const int64_t *sizes, lj_ref_mode mode)
{
    world w = {.frames = frames, .count = count, .sizes = sizes, .mode = mode};
    lj_status status = count <= LJ_REF_MAX_RANKS ? world_run(&w)
                                                 : lj_fail(LJ_ERR_LIMIT, "%d ranks: at most %d are simulated", count, LJ_REF_MAX_RANKS);
    while (w.first) {
        message *next = w.first->next;
        lj_ref_tensor_release(&w.first->tensor);
        lj_free(w.first);
        w.first = next;
    }
    return status;
}
