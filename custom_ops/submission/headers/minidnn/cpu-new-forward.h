// The interface of the mini-dnn editions (fa2020 and later) on the CPU. The parameters are y, x, k, then B, M, C, H, W,
// K, and in fa2023 the stride (-DFOPS_STRIDE).
#ifndef SRC_LAYER_CPU_NEW_FORWARD_H
#define SRC_LAYER_CPU_NEW_FORWARD_H

#ifdef FOPS_STRIDE
void conv_forward_cpu(float*, const float*, const float*, const int, const int, const int, const int, const int,
                      const int, const int = 1);
#else
void conv_forward_cpu(float*, const float*, const float*, const int, const int, const int, const int, const int,
                      const int);
#endif

#endif
