/* What this machine is: instruction sets, cores we may use, memory we may use. Read once, any thread. */
#ifndef LJ_BASE_MACHINE_H
#define LJ_BASE_MACHINE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Ordered: a later one includes the earlier ones. LJPERF_ISA caps it. */
typedef enum { LJ_ISA_GENERIC, LJ_ISA_AVX2, LJ_ISA_AVX512, LJ_ISA_AVX512_BF16, LJ_ISA_AMX, LJ_ISA_COUNT } lj_isa;

typedef struct {
    char cpu_name[64];
    lj_isa isa;            /* the best that CPU and system allow, after the cap */
    bool vnni;             /* AVX-512 VNNI (int8 dot products) */
    int cores;             /* processors in our affinity mask */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* of one core; l3 of its group; 0 unknown */
    uint64_t memory_bytes; /* physical */
} lj_machine;

const lj_machine *lj_machine_get(void);
const char *lj_isa_name(lj_isa isa);
/* By name ("avx2"); LJ_ERR_NOT_FOUND with the nearest name. */
lj_status lj_isa_find(const char *name, lj_isa *isa);
/* The smallest of physical memory and the cgroup (v1, v2) limits, less what is in use there: bytes that an allocation may take now. */
uint64_t lj_memory_available(void);
/* A one-word class for reports: "zen4-avx512_bf16", "intel-amx", "avx2", ... Static storage. */
const char *lj_machine_class(void);

#endif
