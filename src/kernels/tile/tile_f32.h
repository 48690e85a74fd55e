/* The f32 engine over vec.h; the including file defines TILE_VECTORS. bf16 operands are widened while packing. */
#define TILE_GROUP 1
#include "kernels/vec.h"

typedef vec operand;
LJ_INLINE operand operand_load(const char *p)
{
    return vec_load((const float *)(const void *)p);
}
LJ_INLINE operand operand_broadcast(const char *p)
{
    return vec_set(*(const float *)(const void *)p);
}
LJ_INLINE operand operand_broadcast_last(const char *p)
{
    return operand_broadcast(p);
}
LJ_INLINE vec dot(operand a, operand b, vec sum)
{
    return vec_fma(a, b, sum);
}

#include "kernels/tile/tile_body.h"
