// FOPS_HOST_DEVICE marks functions for both host and device, in headers that plain C++ compilers compile too.
#pragma once

#ifdef __CUDACC__
#define FOPS_HOST_DEVICE __host__ __device__
#else
#define FOPS_HOST_DEVICE
#endif
