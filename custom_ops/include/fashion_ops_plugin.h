/* A convolution kernel from outside the library: a shared library passes it to fops_register_kernel (fashion_ops.h).
 *
 * A library with one kernel exports
 *
 *     const fops_kernel_plugin* fops_kernel_plugin_main(void);
 *
 * fashion-infer builds this library from a kernel file of any format that it knows (custom_ops/submission/). You can
 * also write one by hand, with this header and fashion_ops.h and nothing to link. Load it with
 * `fashion-infer run --kernel ./mine.so`, or with dlopen and fops_register_kernel in your own program. Then
 * fops_conv_forward_* take the kernel by its name, and operator `New` by its attribute.
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
 *       return FOPS_OK; // op_seconds stays negative: the caller takes the time
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

/* Findings about a kernel, or-ed. */
#define FOPS_FOUND_WORK_BEFORE 1u   /* the output was complete before forward ran */
#define FOPS_FOUND_WORK_AFTER 2u    /* the output changed after Op Time was taken */
#define FOPS_FOUND_INPUT_CHANGED 4u /* data or weights have changed */
#define FOPS_FOUND_NOT_WRITTEN 8u   /* an output still holds the NaN from before the call */

/* One forward pass. */
typedef struct {
  fops_conv conv;                           /* x_type is always FOPS_FLOAT32 */
  const float* x; const float* k; float* y; /* host or device memory, see host_memory below */
  void* stream;                             /* a cudaStream_t that x, k and y are ready on; NULL for host memory */
  int examine;                              /* non-zero: also fill in `findings`, whatever the cost */
  /* The plugin fills in: */
  double op_seconds;    /* Op Time as in the format's original program: forward and a device synchronise; negative:
                           the work is queued on `stream`, and the caller takes the time */
  double layer_seconds; /* prolog, forward and epilog; 0 if the format has no phases */
  uint32_t findings;
  char message[512]; /* one line: why run() failed; after FOPS_OK a notice, or "" */
} fops_plugin_call;

struct fops_kernel_plugin {
  uint32_t abi; /* FOPS_PLUGIN_ABI */
  fops_backend backend;
  int host_memory;        /* run() takes host pointers: always on the CPU; on the GPU if it copies by itself */
  int zero_output;        /* y is zeroed before each call; else it is filled with NaN if that takes no measured time */
  int64_t batch_multiple; /* calls have a multiple of this many images where possible; 1 for any number */
  const char *summary, *takes, *precision; /* as in fops_kernel_info; an unknown precision is "" */
  int (*accepts)(const fops_conv* conv);   /* NULL: every shape */
  int (*run)(fops_plugin_call* call);      /* an fops_status. Calls come one at a time */
};

typedef const fops_kernel_plugin* (*fops_kernel_plugin_main_function)(void);

#ifdef __cplusplus
}
#endif
#endif /* FASHION_OPS_PLUGIN_H_ */
