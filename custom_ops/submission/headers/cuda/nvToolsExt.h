// NVTX as it was included before its third version.
#include <nvtx3/nvToolsExt.h>
