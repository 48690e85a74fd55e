/* A row of the head loss, avx512. */
#include "kernels/loss_rows_body.h"

void lj_loss_row_avx512(lj_loss_row *row)
{
    loss_row(row);
}
