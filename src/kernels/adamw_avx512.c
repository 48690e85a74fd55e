/* AdamW, avx512. */
#include "kernels/adamw_body.h"

const lj_adamw_rows lj_adamw_avx512 = {update, square_sum};
