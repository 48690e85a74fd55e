#include "codegen/host.h"
const char lj_cuda_prologue[] = "";
