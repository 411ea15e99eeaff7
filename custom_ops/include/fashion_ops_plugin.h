/* A plug-in: a shared library with one convolution kernel, which fops_register_kernel (fashion_ops.h) adds to the table of
 * kernels. A plug-in exports the function
 *
 *     const fops_kernel_plugin* fops_kernel_plugin_main(void);
 *
 * fashion-infer builds a plug-in from a kernel file of each format that it knows (custom_ops/submission/). You can also
 * write one by hand: it needs this header and fashion_ops.h, and no library to link. Load it with
 * `fashion-infer run --kernel ./mine.so`, or in your own program with dlopen and fops_register_kernel. Then the functions
 * fops_conv_forward_* accept the kernel's name.
 *
 * A complete example:
 *
 *     #include "fashion_ops_plugin.h"
 *
 *     static int run(fops_plugin_call* call) {
 *       const int64_t B = call->conv.B, M = call->conv.M, C = call->conv.C, H = call->conv.H, W = call->conv.W;
 *       const int64_t K = call->conv.K, Ho = H - K + 1, Wo = W - K + 1;
 *       for (int64_t i = 0; i < B * M * Ho * Wo; ++i) {
 *         const int64_t w = i % Wo, h = i / Wo % Ho, m = i / (Wo * Ho) % M, b = i / (Wo * Ho * M);
 *         float sum = 0;
 *         for (int64_t t = 0; t < C * K * K; ++t) {
 *           const int64_t q = t % K, p = t / K % K, c = t / (K * K);
 *           sum += call->x[((b * C + c) * H + h + p) * W + w + q] * call->k[m * C * K * K + t];
 *         }
 *         call->y[i] = sum;
 *       }
 *       return FOPS_OK; // op_seconds stays negative, so the caller measures the time
 *     }
 *
 *     static const fops_kernel_plugin plugin = {
 *         FOPS_PLUGIN_ABI, FOPS_CPU, 1, 0, 1, "one loop over the outputs", "", "float32", 0, run};
 *
 *     const fops_kernel_plugin* fops_kernel_plugin_main(void) { return &plugin; }
 */
#ifndef FASHION_OPS_PLUGIN_H_
#define FASHION_OPS_PLUGIN_H_

#include "fashion_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FOPS_PLUGIN_ABI 1

/* Findings about a kernel: the bits of `findings`. */
#define FOPS_FOUND_WORK_BEFORE 1u /* the output was complete before the phase forward ran */
#define FOPS_FOUND_WORK_AFTER 2u  /* the output changed after Op Time was measured */

/* What a judge asks of a call: the bits of `examine`. */
#define FOPS_EXAMINE 1       /* set `findings` too, even if that takes time and memory */
#define FOPS_OUTPUT_NUMBER 2 /* before the call y holds FOPS_NUMBER where it would hold NaN */
#define FOPS_OWN_NAN 4 /* device memory that the kernel allocates holds NaN at first, where the plug-in can fill it */
#define FOPS_OWN_NUMBER 8 /* it holds FOPS_NUMBER */
#define FOPS_NUMBER 1000.f

/* One call of a plug-in: a forward pass. */
typedef struct {
  fops_conv conv; /* x_type is always FOPS_FLOAT32 */
  const float* x;
  const float* k;
  float* y;     /* in host memory if host_memory (below) is set, otherwise on the device */
  void* stream; /* the cudaStream_t that produces x, k and y; NULL for host memory */
  int examine;  /* 0, or FOPS_EXAMINE and the others, or-ed */
  /* The plug-in sets the following members: */
  double op_seconds;    /* Op Time, measured as the format's original program did. Negative if the plug-in does not
                           measure: its work is done or queued on `stream`, and the caller measures the time */
  double layer_seconds; /* time of prolog, forward and epilog; 0 if the format has no phases */
  uint32_t findings;    /* FOPS_FOUND_*, or-ed */
  char message[512];    /* one line: the reason if run() failed; after FOPS_OK a notice for the user, or "" */
} fops_plugin_call;

struct fops_kernel_plugin {
  uint32_t abi; /* FOPS_PLUGIN_ABI */
  fops_backend backend;
  int host_memory;        /* not 0: run() takes host pointers. Must be set on the CPU, and on the GPU if run() copies */
  int zero_output;        /* not 0: y is zeroed before each call; 0: y is filled with NaN, except by
                             fops_conv_forward_gpu */
  int64_t batch_multiple; /* the number of images in a call is a multiple of this, where possible; 1: any number */
  const char *summary, *takes, *precision; /* as in fops_kernel_info; "" for an unknown precision */
  int (*accepts)(const fops_conv* conv);   /* whether the kernel takes this shape; NULL if it takes every shape */
  int (*run)(fops_plugin_call* call); /* runs one call and returns an fops_status; called by one thread at a time */
};

typedef const fops_kernel_plugin* (*fops_kernel_plugin_main_function)(void);

#ifdef __cplusplus
}
#endif
#endif /* FASHION_OPS_PLUGIN_H_ */
