/* Tuner files in the format of NCCL's example tuner: one line
 *   collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks[,pipe_ops[,registered]]
 * -1 matches everything; # begins a comment. Read from NCCL_TUNER_CONFIG_FILE. The first line that matches wins. */
#ifndef ACCL_TUNER_H
#define ACCL_TUNER_H

#include "accl/task.h"

typedef struct {
    int kind;
    uint64_t low, high; /* bytes, inclusive */
    char algorithm[32];
    long ranks; /* -1: any */
} accl_tuner_row;

typedef struct {
    accl_tuner_row *rows;
    size_t count;
} accl_tuner;

/* Empty when the variable is unset. LJ_ERR_FORMAT: file, line, and what is wrong with it. */
lj_status accl_tuner_read(accl_tuner *tuner);
lj_status accl_tuner_parse(accl_tuner *tuner, const char *name, const char *text);
void accl_tuner_release(accl_tuner *tuner);
/* Name of the algorithm for an operation, NULL when no line matches. */
const char *accl_tuner_find(const accl_tuner *tuner, accl_kind kind, size_t bytes, uint32_t ranks);

#endif
