// The mini-dnn years' interface on the CPU; fa2023 has a stride (-DFOPS_STRIDE).
#ifndef SRC_LAYER_CPU_NEW_FORWARD_H
#define SRC_LAYER_CPU_NEW_FORWARD_H

#ifdef FOPS_STRIDE
void conv_forward_cpu(float* y, const float* x, const float* k, const int B, const int M, const int C, const int H,
                      const int W, const int K, const int S = 1);
#else
void conv_forward_cpu(float* y, const float* x, const float* k, const int B, const int M, const int C, const int H,
                      const int W, const int K);
#endif

#endif
