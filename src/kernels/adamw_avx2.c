/* AdamW, avx2. */
#include "kernels/adamw_body.h"

const lj_adamw_rows lj_adamw_avx2 = {update, square_sum};
