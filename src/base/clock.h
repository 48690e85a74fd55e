/* Monotonic time in seconds. */
#ifndef LJ_BASE_CLOCK_H
#define LJ_BASE_CLOCK_H

double lj_now_s(void);
void lj_sleep_s(double seconds);

#endif
