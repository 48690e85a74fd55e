#include "accl/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static lj_status number_read(const char *name, double low, double high, double *value)
{
    const char *text = getenv(name);
    if (!text || !*text) return LJ_OK;
    char *end;
    double number = strtod(text, &end);
    if (*end || !isfinite(number) || number < low || number > high)
        return lj_fail(LJ_ERR_INVALID, "%s=%s: expected a number from %g to %g", name, text, low, high);
    *value = number;
    return LJ_OK;
}

lj_status accl_settings_read(accl_settings *settings)
{
    double timeout = 600, check = 0, spin = -1, cma = 1;
    const char *order = getenv("ACCL_REDUCE_ORDER");
    LJ_TRY(number_read("ACCL_TIMEOUT", 0.001, 1e9, &timeout));
    LJ_TRY(number_read("ACCL_CHECK", 0, 1, &check));
    LJ_TRY(number_read("ACCL_SPIN", 0, 1, &spin));
    LJ_TRY(number_read("ACCL_CMA", 0, 1, &cma));
    if (order && *order && strcmp(order, "rank") != 0 && strcmp(order, "any") != 0)
        return lj_fail(LJ_ERR_INVALID, "ACCL_REDUCE_ORDER=%s: expected rank or any", order);
    *settings = (accl_settings){timeout, check != 0, order && strcmp(order, "rank") == 0, (int)spin, cma == 0};
    return LJ_OK;
}
