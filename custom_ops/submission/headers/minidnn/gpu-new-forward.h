// The mini-dnn years' interface, in the signature that the file beside it has: fa2020 (-DFOPS_COPIES_INSIDE), sp2021 and
// later, fa2023 with a stride (-DFOPS_STRIDE). Files differ in the const of the host pointers: FOPS_HOST_OUTPUT_CONST says
// so of the first, FOPS_HOST_POINTERS_CONST of the other two.
#ifndef SRC_LAYER_GPU_NEW_FORWARD_H
#define SRC_LAYER_GPU_NEW_FORWARD_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#ifdef FOPS_HOST_POINTERS_CONST
#define FOPS_HOST const float*
#else
#define FOPS_HOST float*
#endif
#ifdef FOPS_HOST_OUTPUT_CONST
#define FOPS_HOST_OUTPUT const float*
#else
#define FOPS_HOST_OUTPUT float*
#endif
#ifdef FOPS_STRIDE
#define FOPS_INTS \
  const int B, const int M, const int C, const int H, const int W, const int K, const int S = 1
#else
#define FOPS_INTS const int B, const int M, const int C, const int H, const int W, const int K
#endif

class GPUInterface {
 public:
  void get_device_properties();
#ifdef FOPS_COPIES_INSIDE
  void conv_forward_gpu(FOPS_HOST_OUTPUT host_y, FOPS_HOST host_x, FOPS_HOST host_k, FOPS_INTS);
#else
  void conv_forward_gpu_prolog(FOPS_HOST_OUTPUT host_y, FOPS_HOST host_x, FOPS_HOST host_k, float** device_y_ptr,
                               float** device_x_ptr, float** device_k_ptr, FOPS_INTS);
  void conv_forward_gpu(float* device_y, const float* device_x, const float* device_k, FOPS_INTS);
  void conv_forward_gpu_epilog(float* host_y, float* device_y, float* device_x, float* device_k, FOPS_INTS);
#endif
};

#undef FOPS_INTS
#undef FOPS_HOST
#undef FOPS_HOST_OUTPUT

#endif
