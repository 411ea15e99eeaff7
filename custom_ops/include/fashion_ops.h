/* The C API of libfashion_ops.so: convolution kernels and fused networks, for the CPU and for CUDA devices.
 *
 * fops_conv describes one convolution without padding, with stride 1, a square kernel, one group and no bias:
 *
 *     y[b,m,h,w] = sum over c,p,q of x[b,c,h+p,w+q] * k[m,c,p,q]        (cross-correlation)
 *
 * with x (B,C,H,W), k (M,C,K,K) and y (B,M,H-K+1,W-K+1), all contiguous NCHW. k and y are float32;
 * x is float32 or, with x_type FOPS_UINT8, uint8 (the dataset's pixels).
 *
 * Every output of a convolution or a dense layer is a sum of n products. Precision "float32" means that
 *
 *     |y - exact| <= 2^-24 (4 + sqrt(n)) sum |x| |k| + 2^-126
 *
 * for pixels, activations and values of very different sizes. docs/precision.md describes the other stages of a network,
 * infinities and NaN, and inputs that exceed the bound. A fused network computes the same bits for an item in any batch
 * and on any number of threads.
 *
 * Every function that can fail returns a status, and fops_last_error() then returns a message in the same thread.
 * No exception crosses this API, and the library does not exit or abort the process.
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
  FOPS_NO_DEVICE = 4,      /* the library was built without CUDA, or there is no driver or no such device */
  FOPS_OUT_OF_MEMORY = 5,  /* too little host or device memory */
  FOPS_DEVICE_ERROR = 6    /* any other CUDA error, or an exception */
} fops_status;

typedef enum { FOPS_CPU = 0, FOPS_GPU = 1 } fops_backend; /* FOPS_GPU: a CUDA device */
typedef enum { FOPS_FLOAT32 = 0, FOPS_UINT8 = 1 } fops_dtype;

typedef struct {
  int64_t B, C, H, W; /* number of images, number of input channels, input height, input width */
  int64_t M, K;       /* number of filters, kernel side; K <= min(H, W) */
  fops_dtype x_type;  /* element type of x */
} fops_conv;

/* A kernel's entry in the table of kernels. The strings stay valid as long as the library is loaded. */
typedef struct {
  const char* name;      /* the name for --kernel */
  const char* summary;   /* the kernel's idea, in one line */
  const char* takes;     /* the shapes that the kernel takes, in words; "" if it takes every shape */
  const char* precision; /* "float32" (as above), "tf32" or "fp16"; may be "" for a registered kernel */
} fops_kernel_info;

/* Pass this instead of a node's number, and the forward pass is not recorded in the op-time log. */
#define FOPS_NOT_LOGGED (-1)

/* One forward pass of an operator or a fused stage, as recorded in the op-time log. Times are in seconds. */
typedef struct {
  int32_t first_node, last_node; /* numbers of the first and the last node of a fused stage; for an operator, both are
                                    the number of its node */
  const char* kernel;            /* name of the kernel that ran (not "auto"), or "fused" for a stage; stays valid */
  fops_conv conv;
  double seconds;       /* time of the kernel alone, without the copies below */
  double upload;        /* time of copies to the device; 0 on the CPU and for tensors already on the device */
  double download;      /* time of copies from the device; 0 in the same cases */
  double layer_seconds; /* time of prolog, forward and epilog of a registered kernel that has these phases; else 0 */
  uint32_t findings;    /* FOPS_FOUND_* of fashion_ops_plugin.h, or-ed; 0 unless fops_examine is on for a registered
                           kernel */
} fops_op_record;

/* ---- messages and build ------------------------------------------------------------------- */

/* Returns the message of the calling thread's last failure, in one line; "" if there was none. */
FOPS_API const char* fops_last_error(void);

/* Returns one line: the version, the compiler, the CPU instruction sets compiled in, and the CUDA version and
 * architectures or "none". */
FOPS_API const char* fops_build_info(void);

/* ---- the table of kernels ----------------------------------------------------------------- */

/* Returns the number of kernels of a backend, including registered ones. */
FOPS_API int fops_kernel_count(fops_backend backend);
/* Describes the kernel at `index`, from 0 to fops_kernel_count - 1. */
FOPS_API fops_status fops_kernel_describe(fops_backend backend, int index, fops_kernel_info* out);

/* Returns FOPS_OK if `kernel` (a name, or "auto") takes this convolution; otherwise another status, and the message is
 * the reason. *chosen (if chosen is not NULL) receives the name of the kernel that would run. */
FOPS_API fops_status fops_conv_check(fops_backend backend, const char* kernel, const fops_conv* conv,
                                     const char** chosen);

/* Registers a kernel from outside the library; fashion_ops_plugin.h explains such kernels. Adds `plugin` to the end of
 * its backend's table as `name`; "auto" never picks it. A registered kernel cannot be removed, so its functions and this
 * struct must stay in memory until the process ends. The strings are copied. Returns FOPS_INVALID for a name that is
 * already in the table, and FOPS_NO_DEVICE for a GPU kernel if this library was built without CUDA. */
typedef struct fops_kernel_plugin fops_kernel_plugin;
FOPS_API fops_status fops_register_kernel(const char* name, const fops_kernel_plugin* plugin);

/* Sets what calls of registered kernels are asked for (`examine` of fashion_ops_plugin.h): checks for forbidden behaviour,
 * which take time and memory, and what memory holds before a call; 0 for neither. The log records what the checks find. The
 * setting applies to the whole process, because a framework calls kernels from its own threads. */
FOPS_API void fops_examine(int examine);

/* ---- forward passes ----------------------------------------------------------------------- */

/* Runs a convolution on the CPU. All pointers are to host memory. The pass is logged under `node`, unless that is
 * FOPS_NOT_LOGGED. */
FOPS_API fops_status fops_conv_forward_cpu(const char* kernel, const fops_conv* conv, const void* x, const float* k,
                                           float* y, int32_t node);

/* Queues a convolution on `stream` (a cudaStream_t; NULL is the default stream) of a CUDA device. All pointers are to
 * memory of the calling thread's current device. The function does not wait for the device, so the pass has no time and is
 * not logged. Only a registered kernel may wait. */
FOPS_API fops_status fops_conv_forward_gpu(const char* kernel, const fops_conv* conv, const void* x, const float* k,
                                           float* y, void* stream);

/* Does the same, waits for the kernel, and logs its time under `node`. For operators in a framework's GPU context. */
FOPS_API fops_status fops_conv_forward_timed(const char* kernel, const fops_conv* conv, const void* x, const float* k,
                                             float* y, void* stream, int32_t node);

/* Runs a convolution over host tensors on CUDA device `device`, and waits for the result. Slices of images that fit into
 * the free device memory are copied through pinned buffers. The pass is logged under `node`, as on the CPU. */
FOPS_API fops_status fops_conv_forward_staged(const char* kernel, int device, const fops_conv* conv, const void* x,
                                              const float* k, float* y, int32_t node);

/* ---- whole networks ------------------------------------------------------------------------ */

/* A node of MXNet's graph. Nodes are in topological order. A node whose op is "null" is a variable: an input of the
 * network. */
typedef struct {
  const char* op;
  const char* name;
  const char* const* keys;   /* names of the attributes */
  const char* const* values; /* values of the attributes */
  int attribute_count;
  const int* inputs; /* indices of the nodes that produce this node's inputs */
  int input_count;
  int32_t number; /* the node's number in the log */
} fops_node;

typedef enum { FOPS_NO_ACTIVATION = 0, FOPS_TANH = 1, FOPS_RELU = 2 } fops_activation;

/* A stage of a fused network. */
typedef struct {
  const char* name;               /* the fused nodes' names, joined by '+'; valid as long as the network exists */
  const char* kind;               /* "convolution", "dense", "map" or "softmax" */
  int32_t first_node, last_node;  /* the numbers of the first and the last fused node */
  int64_t in[3], out[3];          /* C, H, W of one item of the stage's input and output */
  int64_t K;                      /* the kernel's side of a convolution; else 0 */
  fops_activation activation;     /* the activation that the stage applies to its sums or pooled values */
  int64_t pool_size, pool_stride; /* side and stride of the windows of the stage's max pool; 0, 0 if it has none */
} fops_stage_info;

typedef struct fops_network fops_network;

/* Creates a network of fused stages from a chain of nodes. `shape` is the shape of one item of the data: (C, H, W) or
 * (values). `device` is the index of the CUDA device; the CPU ignores it. `precision` is "float32", or on the GPU "tf32" or
 * "fp16". Returns FOPS_UNSUPPORTED if a node cannot be fused; the message has the node and the reason. Destroy the network
 * with fops_network_destroy. */
FOPS_API fops_status fops_network_create(const fops_node* nodes, int node_count, const int64_t* shape, int dimensions,
                                         fops_backend backend, int device, const char* precision, fops_network** out);
FOPS_API void fops_network_destroy(fops_network* network);

/* Return the number of a network's inputs, and the name of an input. Inputs are in the order of the graph's variables. For
 * a NULL network, these functions and those below return 0 as a count or size, "" as a name, -1 as an index, and
 * FOPS_INVALID as a status. */
FOPS_API int fops_network_input_count(const fops_network* network);
FOPS_API const char* fops_network_input_name(const fops_network* network, int index);
/* Returns the number of values that an input must have: 0 if no stage reads it. For the data, it is that of one item. */
FOPS_API int64_t fops_network_input_size(const fops_network* network, int index);
/* Returns the index of the input that holds the data, the items. */
FOPS_API int fops_network_data(const fops_network* network);
/* Return the number of stages, and the description of one. */
FOPS_API int fops_network_stage_count(const fops_network* network);
FOPS_API fops_status fops_network_stage(const fops_network* network, int index, fops_stage_info* out);

/* Sets the weights. Both arrays have an entry for each input: `values` points to float32 in host memory, and `versions` is
 * a number that changes when the values change. Pointers for inputs that no stage reads may be NULL. The network copies
 * the values, and copies them again only when the version has changed. */
FOPS_API fops_status fops_network_set_weights(fops_network* network, const float* const* values,
                                              const uint64_t* versions);

/* Runs the network on n items in host memory. `out` receives float32 values, (n, values of the last stage). If `log` is not
 * 0, every stage is logged under its nodes' numbers. The log describes every stage that is not a convolution as one of 1x1
 * over 1x1. The first stage's record contains the upload's time and the last one's the download's, unless their kernels
 * access host memory directly. */
FOPS_API fops_status fops_network_forward(fops_network* network, int64_t n, const void* data, fops_dtype type,
                                          float* out, int log);

/* Runs the network like fops_network_forward, but `classes` receives the index of each item's largest value. Of equal values
 * the first counts, and NaN counts as the largest value. The pass is not logged. */
FOPS_API fops_status fops_network_predict(fops_network* network, int64_t n, const void* data, fops_dtype type,
                                          int32_t* classes);

/* Queues the network's pass on `stream` (a cudaStream_t) without waiting for it. `data` and `out` are in memory of the
 * network's CUDA device. The pass is not logged. Returns FOPS_UNSUPPORTED on the CPU. */
FOPS_API fops_status fops_network_forward_gpu(fops_network* network, int64_t n, const void* data, fops_dtype type,
                                              float* out, void* stream);

/* ---- the op-time log ---------------------------------------------------------------------- */

/* Returns the number of records in the log, which keeps the newest 65,536. */
FOPS_API int fops_log_size(void);
/* Moves at most `capacity` records, oldest first, from the log to `out`, and returns how many it has moved. */
FOPS_API int fops_log_drain(fops_op_record* out, int capacity);

/* ---- CPU ---------------------------------------------------------------------------------- */

/* Sets or returns the number of threads that a pass on the CPU may use: 1 to 1024. 0 restores the default, the number of
 * cores that this process may run on. */
FOPS_API fops_status fops_set_threads(int threads);
FOPS_API int fops_get_threads(void);
/* Returns the instruction set that the fast kernels use on this machine: "avx512", "avx2", "neon" or "generic". The
 * environment variable FASHION_OPS_ISA selects a simpler one. FASHION_OPS_AMX=off disables AMX, which kernel "tiles" uses
 * if the processor has it. */
FOPS_API const char* fops_cpu_isa(void);

/* ---- CUDA devices ------------------------------------------------------------------------- */

typedef struct {
  char name[256];
  int major, minor; /* compute capability */
  int multiprocessors;
  size_t memory_total, memory_free;    /* bytes */
  int driver_version, runtime_version; /* in CUDA's form: 13000 is version 13.0 */
} fops_device_info;

/* Sets *count to the number of CUDA devices. If there is none, sets it to 0 and returns FOPS_NO_DEVICE; the message is
 * the reason. */
FOPS_API fops_status fops_device_count(int* count);
/* Describes the device with this index. */
FOPS_API fops_status fops_device_describe(int device, fops_device_info* out);

#ifdef __cplusplus
}
#endif
#endif /* FASHION_OPS_H_ */
