/* A row of the head loss, avx2. */
#include "kernels/loss_rows_body.h"

void lj_loss_row_avx2(lj_loss_row *row)
{
    loss_row(row);
}
