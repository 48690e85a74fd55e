/* Element types. The first twelve have the values of NCCL's ncclDataType_t. */
#ifndef LJPERF_DTYPE_H
#define LJPERF_DTYPE_H

typedef enum {
    LJ_I8 = 0,
    LJ_U8 = 1,
    LJ_I32 = 2,
    LJ_U32 = 3,
    LJ_I64 = 4,
    LJ_U64 = 5,
    LJ_F16 = 6,
    LJ_F32 = 7,
    LJ_F64 = 8,
    LJ_BF16 = 9,
    LJ_F8E4M3 = 10,
    LJ_F8E5M2 = 11,
    LJ_BOOL = 12, /* one byte, 0 or 1 */
    LJ_DTYPE_COUNT
} lj_dtype;

#endif
