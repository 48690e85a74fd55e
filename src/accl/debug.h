/* NCCL_DEBUG and NCCL_DEBUG_FILE: where the library's log lines go when it runs inside a foreign program. */
#ifndef ACCL_DEBUG_H
#define ACCL_DEBUG_H

/* Reads the variables, once a process or again after accl_debug_reset. Sets no log callback when NCCL_DEBUG is unset. */
void accl_debug_begin(void);
void accl_debug_reset(void);

#endif
