/* AdamW, generic. */
#include "kernels/adamw_body.h"

const lj_adamw_rows lj_adamw_generic = {update, square_sum};
