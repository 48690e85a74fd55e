/* A row of the head loss, generic. */
#include "kernels/loss_rows_body.h"

void lj_loss_row_generic(lj_loss_row *row)
{
    loss_row(row);
}
