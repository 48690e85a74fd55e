/* Folders of checkpoints: publish, list, remove. */
#ifndef LJ_TRAIN_FOLDER_H
#define LJ_TRAIN_FOLDER_H

#include "base/status.h"

#include <stdint.h>

/* Makes `temporary` (complete, its files synced) appear as `final`; an older folder of that name is replaced. */
lj_status lj_folder_publish(const char *temporary, const char *final);
/* Removes a folder of plain files. Failures are ignored: it is done again by the next sweep. */
void lj_folder_remove(const char *path);
/* Removes folders in `path` whose names begin with `prefix` and end in "-PID" of a process that is gone (or is this one). */
lj_status lj_folder_sweep(const char *path, const char *prefix);
/* Steps of all folders step-N in `path` with a trainer_state.json, ascending. The caller frees *steps. A path that is not there has none. */
lj_status lj_folder_steps(const char *path, int64_t **steps, size_t *count);

#endif
