// NVTX, by the name used before its third version.
#include <nvtx3/nvToolsExt.h>
