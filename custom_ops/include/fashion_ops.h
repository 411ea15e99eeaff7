/* The C API of libfashion_ops.so: convolution kernels and fused networks, for the CPU and for CUDA devices.
 *
 * One convolution is described by fops_conv: valid, stride 1, square kernel, one group, no bias,
 *
 *     y[b,m,h,w] = sum over c,p,q of x[b,c,h+p,w+q] * k[m,c,p,q]        (cross-correlation)
 *
 * with x (B,C,H,W), k (M,C,K,K) and y (B,M,H-K+1,W-K+1), all contiguous NCHW. k and y are float32;
 * x is float32 or, with x_type FOPS_UINT8, uint8 (the dataset's pixels).
 *
 * Precision "float32" means, for every output of a convolution or a dense layer, a sum of n products,
 *
 *     |y - exact| <= 2^-24 (4 + sqrt(n)) sum |x| |k| + 2^-126
 *
 * for pixels, activations and values of very different sizes. docs/precision.md covers the other stages of a network,
 * infinities and NaN, and inputs made to exceed the bound. A fused network gives an item the same bits in any batch and
 * on any number of threads.
 *
 * Every function that can fail returns a status and leaves a message for the calling thread in
 * fops_last_error(). No exception crosses this API, and nothing here exits or aborts the process.
 * All functions may be called from several threads at once.
 */
#ifndef FASHION_OPS_H_
#define FASHION_OPS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FOPS_API __attribute__((visibility("default")))

typedef enum {
  FOPS_OK = 0,
  FOPS_INVALID = 1,        /* a shape, pointer or argument that no kernel can use */
  FOPS_UNKNOWN_KERNEL = 2, /* no kernel of that name on that backend */
  FOPS_UNSUPPORTED = 3,    /* the kernel exists but does not take this shape or type */
  FOPS_NO_DEVICE = 4,      /* library built without CUDA, no driver, no such device */
  FOPS_OUT_OF_MEMORY = 5,  /* host or device memory */
  FOPS_DEVICE_ERROR = 6    /* any other CUDA error */
} fops_status;

typedef enum { FOPS_CPU = 0, FOPS_GPU = 1 } fops_backend; /* FOPS_GPU: CUDA */
typedef enum { FOPS_FLOAT32 = 0, FOPS_UINT8 = 1 } fops_dtype;

typedef struct {
  int64_t B, C, H, W; /* images, input channels, input height and width */
  int64_t M, K;       /* filters, kernel side; K <= min(H, W) */
  fops_dtype x_type;  /* element type of x */
} fops_conv;

/* A kernel's entry in the table of kernels. Strings live as long as the library. */
typedef struct {
  const char* name;      /* the name for --kernel */
  const char* summary;   /* the idea, in one line */
  const char* takes;     /* the shapes it takes, in words; "" if it takes every shape */
  const char* precision; /* "float32" (as above), "tf32" or "fp16" */
} fops_kernel_info;

/* Pass instead of a node's number to keep a forward pass out of the op-time log. */
#define FOPS_NOT_LOGGED (-1)

/* One forward pass of an operator or a fused stage, as recorded in the library's log. Times in seconds. */
typedef struct {
  int32_t first_node, last_node; /* numbers of the nodes that ran as one: an operator's node twice; for a stage the
                                    first and the last of its chain */
  const char* kernel;            /* the kernel that ran (never "auto"), or "fused"; lives as long as the library */
  fops_conv conv;
  double seconds;   /* only the kernel, device synchronised before and after */
  double upload;    /* host to device; 0 on the CPU and for tensors already on the device */
  double download;  /* device to host, the same */
  double layer_seconds; /* for a registered kernel with phases: prolog, forward and epilog; else 0 */
  uint32_t findings;    /* for a registered kernel under fops_examine: FOPS_FOUND_* of fashion_ops_plugin.h, or-ed */
} fops_op_record;

/* ---- messages and build ------------------------------------------------------------------- */

/* The calling thread's last failure, in one line that says what to do; "" if none. */
FOPS_API const char* fops_last_error(void);

/* One line: version, compiler, CPU instruction sets compiled in, CUDA version and architectures or "none". */
FOPS_API const char* fops_build_info(void);

/* ---- the table of kernels ----------------------------------------------------------------- */

FOPS_API int fops_kernel_count(fops_backend backend);
FOPS_API fops_status fops_kernel_describe(fops_backend backend, int index, fops_kernel_info* out);

/* FOPS_OK if `kernel` (a name, or "auto") takes this convolution; otherwise a status and the reason.
 * For "auto", *chosen (if not NULL) receives the name of the kernel that would run. */
FOPS_API fops_status fops_conv_check(fops_backend backend, const char* kernel, const fops_conv* conv,
                                     const char** chosen);

/* Registers a kernel from outside the library, described by fashion_ops_plugin.h. Adds `plugin` to the end of its
 * backend's table as `name`; "auto" never picks it. It is never removed, so its functions must live as long as the
 * process; its strings are copied. FOPS_INVALID for a name that is already in the table; FOPS_NO_DEVICE for a GPU kernel
 * if this library was built without CUDA. */
typedef struct fops_kernel_plugin fops_kernel_plugin;
FOPS_API fops_status fops_register_kernel(const char* name, const fops_kernel_plugin* plugin);

/* While non-zero, registered kernels check themselves for forbidden behaviour, whatever the cost, and the log records
 * the findings. Applies to the whole process, because a framework calls kernels from its own threads. */
FOPS_API void fops_examine(int examine);

/* ---- forward passes ----------------------------------------------------------------------- */

/* On the CPU; all pointers are host memory. The pass is logged under `node`, unless that is
 * FOPS_NOT_LOGGED. */
FOPS_API fops_status fops_conv_forward_cpu(const char* kernel, const fops_conv* conv, const void* x,
                                           const float* k, float* y, int32_t node);

/* On a CUDA device, asynchronous on `stream` (a cudaStream_t; NULL is the default stream); all pointers
 * are memory of the current device of the calling thread. Never synchronises, so it is not logged; only a registered
 * kernel may synchronise, because its file may. */
FOPS_API fops_status fops_conv_forward_gpu(const char* kernel, const fops_conv* conv, const void* x,
                                           const float* k, float* y, void* stream);

/* The same, then waits for the kernel and logs its time under `node`: for a framework's GPU context. */
FOPS_API fops_status fops_conv_forward_timed(const char* kernel, const fops_conv* conv, const void* x,
                                             const float* k, float* y, void* stream, int32_t node);

/* On CUDA device `device` with host tensors: staged through pinned buffers, in slices that fit in the free
 * device memory. Synchronous. Logged under `node`, as on the CPU. */
FOPS_API fops_status fops_conv_forward_staged(const char* kernel, int device, const fops_conv* conv,
                                              const void* x, const float* k, float* y, int32_t node);

/* ---- whole networks ------------------------------------------------------------------------ */

/* A node of MXNet's graph; nodes are in topological order. op "null" is a variable: an input of the network. */
typedef struct {
  const char* op;
  const char* name;
  const char* const* keys;   /* attributes */
  const char* const* values;
  int attribute_count;
  const int* inputs;         /* indices of the nodes that produce its inputs */
  int input_count;
  int32_t number;            /* the node's number in the log */
} fops_node;

typedef enum { FOPS_NO_ACTIVATION = 0, FOPS_TANH = 1, FOPS_RELU = 2 } fops_activation;

/* A stage of a fused network. */
typedef struct {
  const char* name;      /* the fused nodes' names, joined by '+'; lives as long as the network */
  const char* kind;      /* "convolution", "dense", "map" or "softmax" */
  int32_t first_node, last_node; /* the numbers of the first and the last of these nodes */
  int64_t in[3], out[3]; /* C, H, W of one item */
  int64_t K;             /* convolution: the kernel's side; else 0 */
  fops_activation activation;     /* of its epilogue */
  int64_t pool_size, pool_stride; /* the max pool of its epilogue: a window's side and stride; or 0, 0 */
} fops_stage_info;

typedef struct fops_network fops_network;

/* Plans a chain of nodes over items of `shape`, (C, H, W) or (values), as fused stages, and creates the network.
 * precision: "float32" (float32 grade), or on the GPU "tf32" or "fp16". FOPS_UNSUPPORTED with the node and the reason
 * if a node cannot be fused. Destroy with fops_network_destroy. */
FOPS_API fops_status fops_network_create(const fops_node* nodes, int node_count, const int64_t* shape, int dimensions,
                                         fops_backend backend, int device, const char* precision,
                                         fops_network** out);
FOPS_API void fops_network_destroy(fops_network* network);

/* Its inputs, in the order of the graph's variables; `data` is the index of the one that holds the items. For a NULL
 * network the counts and sizes are 0, a name is "", `data` is -1, and a stage is FOPS_INVALID. */
FOPS_API int fops_network_input_count(const fops_network* network);
FOPS_API const char* fops_network_input_name(const fops_network* network, int index);
/* How many values an input must have: 0 if no stage reads it; for the data, the values of one item. */
FOPS_API int64_t fops_network_input_size(const fops_network* network, int index);
FOPS_API int fops_network_data(const fops_network* network);
FOPS_API int fops_network_stage_count(const fops_network* network);
FOPS_API fops_status fops_network_stage(const fops_network* network, int index, fops_stage_info* out);

/* Sets weights, by input index: float32 in host memory, and a version number that changes when the values do. Entries
 * that no stage reads may be NULL. The network keeps copies, which it updates only when the version changes. */
FOPS_API fops_status fops_network_set_weights(fops_network* network, const float* const* values,
                                              const uint64_t* versions);

/* Runs n items from host memory to `out`, (n, values of the last stage), float32. A non-zero `log` logs every stage under
 * its nodes' numbers. In the log, dense stages are convolutions of 1x1 over 1x1. The first stage has the upload's time
 * and the last one the download's, unless their kernels access host memory directly. */
FOPS_API fops_status fops_network_forward(fops_network* network, int64_t n, const void* data, fops_dtype type,
                                          float* out, int log);

/* The same, but returns the index of each item's largest value, the first of equal ones; NaN counts as the largest. Not
 * logged. */
FOPS_API fops_status fops_network_predict(fops_network* network, int64_t n, const void* data, fops_dtype type,
                                          int32_t* classes);

/* fops_network_forward in memory of the network's CUDA device, queued on `stream` without waiting. */
FOPS_API fops_status fops_network_forward_gpu(fops_network* network, int64_t n, const void* data, fops_dtype type,
                                              float* out, void* stream);

/* ---- the op-time log ---------------------------------------------------------------------- */

FOPS_API int fops_log_size(void);
/* Moves at most `capacity` records, oldest first, to `out`; returns how many. The log keeps the newest 65,536. */
FOPS_API int fops_log_drain(fops_op_record* out, int capacity);

/* ---- CPU ---------------------------------------------------------------------------------- */

/* Threads of the library's pool: 1 to 1024; 0 restores the default, the cores this process may run on. */
FOPS_API fops_status fops_set_threads(int threads);
FOPS_API int fops_get_threads(void);
/* The instruction set of the fast kernels on this machine: "avx512", "avx2", "neon" or "generic". FASHION_OPS_ISA
 * lowers it; FASHION_OPS_AMX=off disables AMX, which AVX-512 kernels use if the processor has it. */
FOPS_API const char* fops_cpu_isa(void);

/* ---- CUDA devices ------------------------------------------------------------------------- */

typedef struct {
  char name[256];
  int major, minor;         /* compute capability */
  int multiprocessors;
  size_t memory_total, memory_free; /* bytes */
  int driver_version, runtime_version; /* as CUDA counts: 13000 is 13.0 */
} fops_device_info;

/* Devices that this library can use; FOPS_NO_DEVICE (and *count = 0) with the reason if there is none. */
FOPS_API fops_status fops_device_count(int* count);
FOPS_API fops_status fops_device_describe(int device, fops_device_info* out);

#ifdef __cplusplus
}
#endif
#endif /* FASHION_OPS_H_ */
