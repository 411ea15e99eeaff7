/* A convolution kernel from outside: what a shared library hands to fops_register_kernel (fashion_ops.h).
 *
 * A library that holds one kernel exports
 *
 *     const fops_kernel_plugin* fops_kernel_plugin_main(void);
 *
 * fashion-infer puts such a library around a file of any format that it knows (custom_ops/submission/). A hand-written
 * one needs this header and fashion_ops.h, links nothing of ours, and is loaded in the same way:
 * `fashion-infer run --kernel ./mine.so`, or dlopen and fops_register_kernel in a program of one's own. From there on
 * fops_conv_forward_* take the kernel by its name, and operator `New` by its attribute.
 *
 * An example, whole:
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

/* What a kernel was seen to do, or-ed. */
#define FOPS_FOUND_WORK_BEFORE 1u   /* the output was complete before forward ran */
#define FOPS_FOUND_WORK_AFTER 2u    /* the output changed after Op Time had been taken */
#define FOPS_FOUND_INPUT_CHANGED 4u /* data or weights differ from what they were */
#define FOPS_FOUND_NOT_WRITTEN 8u   /* an output still holds the NaN that was there before */

/* One forward pass. */
typedef struct {
  fops_conv conv;                           /* x_type is always FOPS_FLOAT32 */
  const float* x; const float* k; float* y; /* host or device memory, as the plugin says */
  void* stream;                             /* a cudaStream_t that x, k and y are ready on; NULL for host memory */
  int examine;                              /* non-zero: fill in `findings` too, whatever it costs */
  /* The plugin fills in: */
  double op_seconds;    /* what the format's own program printed as Op Time: forward and a device synchronise; negative:
                           the work is queued on `stream`, and the caller takes the time */
  double layer_seconds; /* prolog, forward and epilog; 0 where the format has no such phases */
  uint32_t findings;
  char message[512]; /* one line: why run() failed; after FOPS_OK a notice, "" for none */
} fops_plugin_call;

struct fops_kernel_plugin {
  uint32_t abi; /* FOPS_PLUGIN_ABI */
  fops_backend backend;
  int host_memory;        /* run() takes host pointers: always on the CPU, on the GPU where it copies by itself */
  int zero_output;        /* y is zeroed before each call; else it is filled with NaN where that costs no measured time */
  int64_t batch_multiple; /* calls have a multiple of so many images where they can; 1 for any number */
  const char *summary, *takes, *precision; /* as in fops_kernel_info; a precision that nobody stated is "" */
  int (*accepts)(const fops_conv* conv);   /* NULL: every shape */
  int (*run)(fops_plugin_call* call);      /* an fops_status. Calls come one at a time */
};

typedef const fops_kernel_plugin* (*fops_kernel_plugin_main_function)(void);

#ifdef __cplusplus
}
#endif
#endif /* FASHION_OPS_PLUGIN_H_ */
