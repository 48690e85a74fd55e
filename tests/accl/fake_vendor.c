/* A stand-in for a vendor's library: counts its calls in a file of the test, adds 1000 to what it "reduces", and calls its own exports by their public
 * names, which must reach itself and not ACCL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int rank, ranks;
} fake_comm;
typedef struct {
    char internal[128];
} fake_id;

int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = 99999;
    return 0;
}

static void note(const char *what)
{
    int version = 0;
    FILE *log = fopen(getenv("FAKE_VENDOR_LOG"), "a");
    ncclGetVersion(&version);
    if (log) {
        fprintf(log, "%s %d\n", what, version);
        fclose(log);
    }
}

int ncclGetUniqueId(fake_id *id);
int ncclGetUniqueId(fake_id *id)
{
    memset(id, 42, sizeof *id);
    note("GetUniqueId");
    return 0;
}
int ncclCommInitRank(fake_comm **comm, int ranks, fake_id id, int rank);
int ncclCommInitRank(fake_comm **comm, int ranks, fake_id id, int rank)
{
    if (id.internal[5] != 42) return 4;
    *comm = malloc(sizeof **comm);
    **comm = (fake_comm){rank, ranks};
    note("CommInitRank");
    return 0;
}
int ncclCommDestroy(fake_comm *comm);
int ncclCommDestroy(fake_comm *comm)
{
    free(comm);
    note("CommDestroy");
    return 0;
}
int ncclAllReduce(const float *in, float *out, size_t count, int type, int op, fake_comm *comm, void *stream);
int ncclAllReduce(const float *in, float *out, size_t count, int type, int op, fake_comm *comm, void *stream)
{
    (void)type, (void)op, (void)stream;
    for (size_t i = 0; i < count; i++) out[i] = in[i] + 1000 + (float)comm->ranks;
    note("AllReduce");
    return 0;
}
int ncclCommCount(fake_comm *comm, int *count);
int ncclCommCount(fake_comm *comm, int *count)
{
    *count = comm->ranks;
    return 0;
}
int ncclGroupStart(void);
int ncclGroupStart(void)
{
    note("GroupStart");
    return 0;
}
int ncclGroupEnd(void);
int ncclGroupEnd(void)
{
    note("GroupEnd");
    return 0;
}
