/* What `ljperf comm bench --compare mpi` runs: one collective of an MPI library over sizes, timed as ljperf times its own: the best of five means over calls
 * back to back, on rank 0. Prints "BYTES MICROSECONDS" lines.
 * usage: peer_mpi COLLECTIVE MIN_BYTES MAX_BYTES EFFORT IN_PLACE */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *name, const char *wanted)
{
    return strcmp(name, wanted) == 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, n;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (argc != 6) MPI_Abort(MPI_COMM_WORLD, 2);
    const char *name = argv[1];
    size_t low = strtoull(argv[2], NULL, 10), high = strtoull(argv[3], NULL, 10);
    double effort = atof(argv[4]);
    int wide_in = is(name, "reduce_scatter") || is(name, "all_to_all"), wide_out = is(name, "all_gather") || is(name, "all_to_all"), in_place = atoi(argv[5]);
    size_t in_bytes = high * (size_t)(wide_in ? n : 1), out_bytes = high * (size_t)(wide_out ? n : 1);
    float *in = malloc(in_bytes), *out = malloc(out_bytes);
    if (!in || !out) MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < in_bytes / 4; i++) in[i] = (float)(rank + 1);
    for (size_t i = 0; i < out_bytes / 4; i++) out[i] = 0;
    for (size_t bytes = low; bytes <= high; bytes *= 2) {
        double wish = (bytes < 65536 ? 1000 : bytes < (4u << 20) ? 100 : 10) * effort, best = 1e9;
        int iterations = wish < 2 ? 2 : (int)wish, count = (int)(bytes / 4);
        for (int repetition = -1; repetition < 5; repetition++) {
            int calls = repetition < 0 ? iterations / 10 + 1 : iterations;
            MPI_Barrier(MPI_COMM_WORLD);
            double t = MPI_Wtime();
            for (int i = 0; i < calls; i++) {
                const void *from = in_place ? MPI_IN_PLACE : (void *)in;
                if (is(name, "all_reduce")) MPI_Allreduce(from, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                else if (is(name, "all_gather")) MPI_Allgather(from, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
                else if (is(name, "reduce_scatter")) MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                else if (is(name, "broadcast")) MPI_Bcast(in, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
                else if (is(name, "reduce")) MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
                else if (is(name, "all_to_all")) MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
                else MPI_Abort(MPI_COMM_WORLD, 2);
            }
            t = (MPI_Wtime() - t) / calls;
            if (repetition >= 0 && t < best) best = t;
        }
        if (rank == 0) printf("%zu %.4f\n", bytes, best * 1e6);
        fflush(stdout);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
