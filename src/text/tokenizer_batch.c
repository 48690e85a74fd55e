/* Many texts over several threads. */
#include "base/machine.h"
#include "text/tokenizer_parts.h"

#include <stdatomic.h>
#include <stdio.h>

enum { MAX_THREADS = 256, MESSAGE_BYTES = 1024 };

typedef struct {
    const lj_tokenizer *tokenizer;
    const lj_span *texts;
    lj_ids *ids;
    size_t count;
    lj_encode_options options;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock;
    lj_status status; /* of the first failure, with its message */
    char message[MESSAGE_BYTES];
} batch;

static void fail(batch *b, size_t index, lj_status status)
{
    pthread_mutex_lock(&b->lock);
    if (b->status == LJ_OK) {
        b->status = status;
        snprintf(b->message, sizeof b->message, "text %zu: %s", index, lj_error_message());
    }
    pthread_mutex_unlock(&b->lock);
    atomic_store(&b->failed, true);
}

static void *work(void *user)
{
    batch *b = user;
    for (size_t i; (i = atomic_fetch_add(&b->next, 1)) < b->count && !atomic_load(&b->failed);) {
        lj_status status = lj_tokenizer_encode(b->tokenizer, b->texts[i].data, b->texts[i].bytes, b->options, &b->ids[i]);
        if (status != LJ_OK) fail(b, i, status);
    }
    return NULL;
}

lj_status lj_tokenizer_encode_batch(const lj_tokenizer *tokenizer, const lj_span *texts, size_t count, lj_encode_options options, int threads,
                                    lj_ids *ids)
{
    batch b = {.tokenizer = tokenizer, .texts = texts, .ids = ids, .count = count, .options = options};
    pthread_t helpers[MAX_THREADS];
    int started = 0;
    if (threads <= 0) threads = lj_machine_get()->cores;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if ((size_t)threads > count) threads = (int)count;
    pthread_mutex_init(&b.lock, NULL);
    /* The caller is the first thread; one that the system refuses leaves its share to the others. */
    while (started + 1 < threads && pthread_create(&helpers[started], NULL, work, &b) == 0) started++;
    work(&b);
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    pthread_mutex_destroy(&b.lock);
    if (b.status != LJ_OK) lj_error_set(b.message);
    return b.status;
}
