/* Files that exist only for a fuzz target: what a parser opens is an exact heap copy, so AddressSanitizer sees a read past its end. */
#ifndef LJ_TESTS_FUZZ_SUPPORT_H
#define LJ_TESTS_FUZZ_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* From now on `path` is a file with these bytes (not copied; any path until fuzz_files_clear). Folders are the paths' parents. */
void fuzz_file_set(const char *path, const uint8_t *data, size_t bytes);
void fuzz_files_clear(void);

/* Stops the target: `what` must hold. */
void fuzz_expect(int holds, const char *what);

#endif
