/* The parameters of a model's graphs: which weights of the file are fused into which parameter, and where each lies in the
 * flat buffers (master, moments, gradients, compute copy), which all share one layout.
 *
 * A flat buffer holds the matrices first (they get weight decay), then norms and biases (they do not); each parameter starts at
 * a multiple of LJ_PARAM_ALIGN elements, so it is 64-byte aligned in every dtype. The padding between is zero and stays zero.
 *
 * Query, key and value weights are one parameter by rows, so are gate and up; every other weight is a parameter of its own.
 *
 * Life: lj_layout_init, read it from any number of threads, lj_layout_release. */
#ifndef LJ_MODEL_LAYOUT_H
#define LJ_MODEL_LAYOUT_H

#include "base/memory.h"
#include "formats/model_config.h"

enum { LJ_PARAM_ALIGN = 32 };

/* What of a model a layout covers. A part stands for the whole at its true width: the benchmark measures parts alone. */
typedef struct {
    int64_t layers;              /* the first so many */
    bool embedding, head;        /* head: final norm, head, loss */
} lj_model_part;

/* The whole model. */
static inline lj_model_part lj_model_whole(const lj_model_config *config)
{
    return (lj_model_part){config->num_hidden_layers, true, true};
}

typedef enum {
    LJ_PARAM_EMBED,
    LJ_PARAM_INPUT_NORM,
    LJ_PARAM_QKV,
    LJ_PARAM_QKV_BIAS,
    LJ_PARAM_Q_NORM,
    LJ_PARAM_K_NORM,
    LJ_PARAM_OUT,
    LJ_PARAM_OUT_BIAS,
    LJ_PARAM_POST_NORM,
    LJ_PARAM_GATE_UP,
    LJ_PARAM_GATE_UP_BIAS,
    LJ_PARAM_DOWN,
    LJ_PARAM_DOWN_BIAS,
    LJ_PARAM_FINAL_NORM,
    LJ_PARAM_HEAD,
    LJ_PARAM_KIND_COUNT
} lj_param_kind;

typedef struct {
    const char *name; /* "layers.0.qkv": the graph's input; its gradient is "grad.layers.0.qkv" */
    lj_param_kind kind;
    int layer; /* -1: outside the layers */
    int rank;
    int64_t shape[2];
    int64_t elements; /* without the padding after it */
    int64_t offset;   /* elements from the start of a flat buffer */
    bool decay;       /* a matrix */
} lj_param;

/* Where a weight of the file lies: elements [first, first + count) of its parameter. */
typedef struct {
    lj_model_weight weight;
    size_t param;
    int64_t first, count;
} lj_weight_slot;

typedef struct {
    lj_model_config config;
    lj_model_part part;
    lj_param *params; /* in graph order */
    size_t param_count;
    lj_weight_slot *slots; /* in the order of lj_model_weight_get, those of this part */
    size_t slot_count;
    int64_t decay_elements; /* elements of the first group, padding included; the second follows */
    int64_t total_elements; /* of a flat buffer */
    int64_t parameter_count; /* without padding */
    lj_arena arena;
} lj_param_layout;

/* Checks the config and lays out. LJ_ERR_UNSUPPORTED for what the graphs do not build (an activation). */
lj_status lj_layout_init(lj_param_layout *layout, const lj_model_config *config, lj_model_part part);
void lj_layout_release(lj_param_layout *layout);

/* The parameter of a kind (and layer), or NULL when this model has none. */
const lj_param *lj_layout_find(const lj_param_layout *layout, lj_param_kind kind, int layer);
/* The slot of a weight by its Hugging Face name, or NULL. */
const lj_weight_slot *lj_layout_slot(const lj_param_layout *layout, const char *weight_name);
/* First element of a slot in a flat buffer. */
static inline int64_t lj_slot_offset(const lj_param_layout *layout, const lj_weight_slot *slot)
{
    return layout->params[slot->param].offset + slot->first;
}

/* Parameters that take part in matrix products for every token: layers' matrices and the head (the embedding only as a tied head). */
int64_t lj_layout_matmul_parameters(const lj_param_layout *layout);
/* Floating-point operations of a training step for one token at length `seq`: 6 x matmul parameters + 6 x layers x heads x head_dim x seq. */
double lj_layout_flops_per_token(const lj_param_layout *layout, int64_t seq);

#endif
