/* Files inside a model folder, named by the folder's own contents (an index, a config): never outside it. */
#ifndef LJ_FORMATS_MODEL_FOLDER_H
#define LJ_FORMATS_MODEL_FOLDER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

bool lj_path_is_folder(const char *path);
bool lj_path_exists(const char *path);
/* The folder part of a path ("." when there is none) into `buffer`. */
lj_status lj_path_parent(const char *path, char *buffer, size_t capacity);

/* Joins `folder` and the plain file name `name` into `buffer`. LJ_ERR_FORMAT when `name` has a slash, starts with a dot or holds control
 * characters, or when the file is a symbolic link that leaves the folder (links into the blobs folder of the same repository in a
 * Hugging Face cache are its normal layout and are followed). LJ_ERR_IO when it does not exist. */
lj_status lj_model_folder_file(const char *folder, const char *name, char *buffer, size_t capacity);

#endif
