#include "kernels/peak/peak.h"

#include "base/clock.h"
#include "base/machine.h"
#include "kernels/team.h"

enum { RUNS = 80, LANES = 8 };

static const struct {
    const char *name;
    lj_isa needs;
    lj_dtype dtype;
    lj_peak_loop loop;
} loops[] = {
    {"AMX bf16", LJ_ISA_AMX, LJ_BF16, lj_peak_loop_amx},
    {"AVX-512 bf16", LJ_ISA_AVX512_BF16, LJ_BF16, lj_peak_loop_avx512bf16},
    {"AVX-512 fp32", LJ_ISA_AVX512, LJ_F32, lj_peak_loop_avx512},
    {"AVX2 fp32", LJ_ISA_AVX2, LJ_F32, lj_peak_loop_avx2},
    {"plain fp32", LJ_ISA_GENERIC, LJ_F32, lj_peak_loop_generic},
};

/* Sixteen independent chains, whatever the compiler makes of them. */
double lj_peak_loop_generic(int64_t rounds)
{
    float chains[16];
    for (int i = 0; i < 16; i++) chains[i] = (float)i;
    for (int64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < 16; i++) chains[i] = chains[i] * 0.999f + 0.001f;
        __asm__ volatile("" : "+m"(chains));
    }
    return (double)rounds * 16 * 2;
}

typedef struct {
    lj_peak_loop loop;
    int64_t rounds;
    double flops[256 * LANES]; /* a cache line a thread */
} peak_job;

static void run_share(void *arg, int thread, int threads)
{
    peak_job *job = arg;
    (void)threads;
    job->flops[thread % 256 * LANES] = job->loop(job->rounds);
}

static double rate(peak_job *job, int threads)
{
    double begin = lj_now_s(), total = 0;
    lj_team_run(threads, run_share, job);
    double seconds = lj_now_s() - begin;
    for (int t = 0; t < threads && t < 256; t++) total += job->flops[t * LANES];
    return seconds > 0 ? total / seconds : 0;
}

/* Rounds for about 1 ms, then the best of several runs: interruptions only slow down. */
static double loop_peak(lj_peak_loop loop, int threads)
{
    peak_job job = {.loop = loop, .rounds = 1000};
    double seconds = 0, best = 0;
    while (seconds < 5e-4) {
        double begin = lj_now_s();
        (void)loop(job.rounds *= 2);
        seconds = lj_now_s() - begin;
    }
    job.rounds = (int64_t)((double)job.rounds * 1e-3 / seconds);
    for (int run = 0; run < RUNS; run++) {
        double now = rate(&job, threads);
        best = now > best ? now : best;
    }
    return best;
}

lj_isa_peak lj_isa_peak_measure(lj_dtype dtype, int threads)
{
    lj_isa isa = lj_machine_get()->isa;
    lj_isa_peak best = {"", 0};
    bool narrow = false, wide = false; /* the best loop of each type is enough */
    if (threads < 1) threads = 1;
    if (threads > 256) threads = 256;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        bool *done = loops[i].dtype == LJ_BF16 ? &narrow : &wide;
        if (*done || loops[i].needs > isa || (loops[i].dtype == LJ_BF16 && dtype != LJ_BF16)) continue;
        double flops = loop_peak(loops[i].loop, threads);
        *done = true;
        if (flops > best.flops) best = (lj_isa_peak){loops[i].name, flops};
    }
    return best;
}
