// The mini-dnn years' interface, in the signature that the file beside it has: fa2020 (-DFOPS_COPIES_INSIDE), sp2021 and
// later, fa2023 with a stride (-DFOPS_STRIDE). Files differ in the const of the host pointers: FOPS_HOST_OUTPUT_CONST
// covers the first, FOPS_HOST_POINTERS_CONST the other two.
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
// B, M, C, H, W, K and the stride, unnamed, because a file may define macros of these names before it includes this.
#ifdef FOPS_STRIDE
#define FOPS_INTS const int, const int, const int, const int, const int, const int, const int = 1
#else
#define FOPS_INTS const int, const int, const int, const int, const int, const int
#endif

class GPUInterface {
 public:
  void get_device_properties();
#ifdef FOPS_COPIES_INSIDE
  void conv_forward_gpu(FOPS_HOST_OUTPUT, FOPS_HOST, FOPS_HOST, FOPS_INTS);
#else
  // On the host y, x, k; on the device the same.
  void conv_forward_gpu_prolog(FOPS_HOST_OUTPUT, FOPS_HOST, FOPS_HOST, float**, float**, float**, FOPS_INTS);
  void conv_forward_gpu(float*, const float*, const float*, FOPS_INTS);
  void conv_forward_gpu_epilog(float*, float*, float*, float*, FOPS_INTS);
#endif
};

#undef FOPS_INTS
#undef FOPS_HOST
#undef FOPS_HOST_OUTPUT

#endif
