#include "infer/session.h"

#include "model/params.h"

static lj_status weights_fill(lj_session *s, const lj_session_options *options)
{
    size_t bytes = (size_t)s->layout.total_elements * lj_dtype_bytes(options->dtype);
    LJ_TRY(lj_alloc("weights", bytes, &s->weights));
    if (options->random_weights) {
        lj_params_random(&s->layout, options->seed, options->dtype, s->weights);
        return LJ_OK;
    }
    if (!s->source.weights)
        return lj_fail(LJ_ERR_NOT_FOUND, "%s has numbers but no weights; name a folder or file with weights, or --random-weights", options->model);
    return lj_params_load(&s->layout, s->source.weights, false, 0, options->dtype, s->weights);
}

lj_status lj_session_open(const lj_session_options *options, lj_session *session)
{
    lj_session s = {0};
    LJ_TRY(lj_model_source_open(options->model, &s.source));
    lj_status status = lj_model_source_tokenizer(&s.source, options->tokenizer, &s.tokenizer);
    if (status == LJ_OK) status = lj_layout_init(&s.layout, &s.source.config, lj_model_whole(&s.source.config));
    if (status == LJ_OK) status = weights_fill(&s, options);
    if (status == LJ_OK)
        *session = s;
    else
        lj_session_close(&s);
    return status;
}

void lj_session_close(lj_session *session)
{
    lj_free(session->weights);
    lj_tokenizer_destroy(session->tokenizer);
    lj_layout_release(&session->layout);
    lj_model_source_close(&session->source);
    *session = (lj_session){0};
}
