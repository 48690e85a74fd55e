/* Many tensors at once. Reads are cut into pieces of rows; runs of consecutive pieces are handed to threads. Runs, not pieces: the
 * buffers of consecutive tensors usually touch, and two threads that meet fresh memory in the same huge page clear it twice (loading
 * SmolLM2-135M to bf16 on 2 threads: 30 ms by pieces, 24 ms by runs). */
#include "formats/weights_list.h"

enum { PIECE_BYTES = 1 << 20, MIN_RUN_BYTES = 4 << 20, MAX_RUN_BYTES = 64 << 20, RUNS_PER_THREAD = 4 };

/* Where a run starts: row `row` of job `job`. */
typedef struct {
    size_t job;
    int64_t row;
} run_start;

typedef struct {
    const lj_weights *weights;
    const lj_weight_job *jobs;
    run_start *runs; /* runs + 1 entries */
    lj_progress progress;
} load_state;

static uint64_t row_bytes(const lj_weight_job *job)
{
    return (uint64_t)job->weight->columns * lj_dtype_bytes(job->to);
}

/* Rows of one piece: about PIECE_BYTES, at least one row, and whole blocks of a quantised vector. */
static int64_t piece_rows(const lj_weight_job *job)
{
    uint64_t bytes = row_bytes(job), block = job->weight->blocks ? job->weight->blocks->block_elements : 1;
    if (bytes == 0) return job->rows > 0 ? job->rows : 1;
    uint64_t rows = bytes > PIECE_BYTES ? 1 : PIECE_BYTES / bytes;
    return (int64_t)((rows + block - 1) / block * block);
}

/* Reads rows [row, end) of a job piece by piece: progress moves, and the decoder's source stays near its output. */
static lj_status job_rows_load(load_state *state, const lj_weight_job *job, int64_t row, int64_t end)
{
    int64_t step = piece_rows(job);
    for (; row < end; row += step) {
        int64_t rows = end - row < step ? end - row : step;
        char *out = (char *)job->out + (uint64_t)row * row_bytes(job);
        LJ_TRY(lj_weights_read(state->weights, job->weight, job->row + row, rows, job->to, out));
        lj_progress_add(&state->progress, (uint64_t)rows * row_bytes(job));
    }
    return LJ_OK;
}

static lj_status run_load(void *user, size_t index)
{
    load_state *state = user;
    run_start at = state->runs[index], end = state->runs[index + 1];
    for (; at.job < end.job; at = (run_start){at.job + 1, 0}) LJ_TRY(job_rows_load(state, &state->jobs[at.job], at.row, state->jobs[at.job].rows));
    return end.row > at.row ? job_rows_load(state, &state->jobs[at.job], at.row, end.row) : LJ_OK;
}

/* Cuts the jobs into runs of about `target` bytes at piece bounds; returns their number. */
static size_t runs_cut(load_state *state, size_t count, uint64_t target)
{
    size_t runs = 0;
    uint64_t filled = target; /* the first piece opens a run */
    for (size_t i = 0; i < count; i++) {
        const lj_weight_job *job = &state->jobs[i];
        int64_t step = piece_rows(job);
        for (int64_t row = 0; row < job->rows; row += step) {
            if (filled >= target) state->runs[runs++] = (run_start){i, row}, filled = 0;
            filled += (uint64_t)(job->rows - row < step ? job->rows - row : step) * row_bytes(job);
        }
    }
    state->runs[runs] = (run_start){count, 0};
    return runs;
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

lj_status lj_weights_load(const lj_weights *weights, const lj_weight_job *jobs, size_t count, int threads, lj_progress_fn progress, void *user)
{
    void *memory;
    load_state state = {.weights = weights, .jobs = jobs, .progress = {.fn = progress, .user = user}};
    for (size_t i = 0; i < count; i++) state.progress.total += (uint64_t)(jobs[i].rows > 0 ? jobs[i].rows : 0) * row_bytes(&jobs[i]);
    uint64_t total = state.progress.total, team = (uint64_t)lj_parallel_threads(threads);
    uint64_t target = clamp(total / (team * RUNS_PER_THREAD), MIN_RUN_BYTES, MAX_RUN_BYTES);
    LJ_TRY(lj_alloc("weights load", (total / target + count + 2) * sizeof *state.runs, &memory));
    state.runs = memory;
    lj_status status = lj_parallel_for(threads, runs_cut(&state, count, target), run_load, &state);
    lj_free(memory);
    return status;
}
