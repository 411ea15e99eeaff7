// The interface of the mini-dnn editions (fa2020 and later) on the GPU. The declarations must match the kernel file's
// definitions. -DFOPS_COPIES_INSIDE selects those of fa2020, -DFOPS_STRIDE those of fa2023 with a stride; the default is
// sp2021 and later. In some files host pointers are const: -DFOPS_HOST_OUTPUT_CONST makes the output's const,
// -DFOPS_HOST_POINTERS_CONST those of the input and the weights.
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
// The parameters B, M, C, H, W, K and the stride. They have no names, because a file may define macros with these names
// before it includes this header.
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
  // prolog gets y, x and k in host memory, and sets the three device pointers. forward gets y, x and k in device memory, and
  // epilog gets y in host memory, then y, x and k in device memory.
  void conv_forward_gpu_prolog(FOPS_HOST_OUTPUT, FOPS_HOST, FOPS_HOST, float**, float**, float**, FOPS_INTS);
  void conv_forward_gpu(float*, const float*, const float*, FOPS_INTS);
  void conv_forward_gpu_epilog(float*, float*, float*, float*, FOPS_INTS);
#endif
};

#undef FOPS_INTS
#undef FOPS_HOST
#undef FOPS_HOST_OUTPUT

#endif
