/* A model opened for inference: its source, tokenizer, weights in the compute dtype. */
#ifndef LJ_INFER_SESSION_H
#define LJ_INFER_SESSION_H

#include "infer/generator.h"
#include "model/source.h"

typedef struct {
    const char *model;      /* PRESET | DIR | FILE.gguf */
    const char *tokenizer;  /* "": the model's own */
    lj_dtype dtype;
    bool random_weights;    /* for a model of numbers only */
    uint64_t seed;
} lj_session_options;

typedef struct {
    lj_model_source source;
    lj_param_layout layout;
    void *weights; /* flat, options.dtype */
    lj_tokenizer *tokenizer;
} lj_session;

/* LJ_ERR_NOT_FOUND when the model has no weights or no tokenizer, with the option that gives one. */
lj_status lj_session_open(const lj_session_options *options, lj_session *session);
void lj_session_close(lj_session *session);

#endif
