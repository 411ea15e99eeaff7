// FOPS_HOST_DEVICE marks functions for host and device, in headers that a plain C++ compiler reads as well.
#pragma once

#ifdef __CUDACC__
#define FOPS_HOST_DEVICE __host__ __device__
#else
#define FOPS_HOST_DEVICE
#endif
