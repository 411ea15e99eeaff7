// The table of CUDA kernels (the ladder's kernels come first), and the function that chooses the kernel for `auto`.
#include "conv/cuda/table.h"

#include <vector>

#include "conv/cuda/course_layers.h"
#include "conv/cuda/kernels.h"
#include "conv/hopper/table.h"

namespace fops {
namespace {

constexpr const char* kInShared = "float32 image and weights together within 96 KB of shared memory";
constexpr const char* kCourse = "the convolutions of the course's networks";
constexpr const char* kTensor =
    "one channel, K of 5 or 7, at most 64 filters (32 of 7x7); 2 to 64 float32 channels, K at most 7, at most 32 "
    "filters and at least 64 products per output; on Hopper K at most 11 and at least 25 products per output";

constexpr Kernel kKernels[] = {
    {"global-accumulate", "one thread per output, summing in global memory", "", "float32", takes_any,
     run_global_accumulate},
    {"register-accumulate", "the sum in a register", "", "float32", takes_any, run_register_accumulate},
    {"shared-tile", "input tile and weights in shared memory, 32x32 threads", "K at most 32", "float32",
     takes_shared_tile, run_shared_tile},
    {"linear-block", "1,024 threads in a line over the outputs, one block per image and filter",
     "image and one filter within 64 KB of shared memory", "float32", takes_linear_block, run_linear_block},
    {"image-grid", "one block per image: staged once for all filters", kInShared, "float32", takes_image_in_shared,
     run_image_grid},
    {"unrolled", "the loops over the taps unrolled", "K of 3, 5 or 7; image and weights within 96 KB of shared memory",
     "float32", takes_unrolled, run_unrolled},
    {"compile-time", "every size a compile-time constant", kCourse, "float32", takes_compile_time, run_compile_time},
    {"constant-weights", "weights in constant memory", kCourse, "float32", is_course_layer, run_constant_weights},
    {"im2col-gemm", "unrolled input in global memory, then a tiled matrix product", "", "float32", takes_any,
     run_im2col_gemm},
    {"implicit-gemm", "the same product, its tiles gathered from the input", "", "float32", takes_any,
     run_implicit_gemm},
    {"register-tile", "direct, register-tiled in outputs and filters, 16-byte stores",
     "K of 3 or 5; image and weights within 99 KB of shared memory", "float32", takes_register_tile, run_register_tile},
    {"tensor-core-tile", "tensor cores on split operands: one channel, tiles of 8 filters by 8 outputs",
     "one channel, K of 3, 5 or 7, at most 512 filters; image and weights within 96 KB of shared memory", "float32",
     takes_tensor_core_tile, run_tensor_core_tile},
    {"tensor-core-half", "tensor cores, operands rounded to half", kTensor, "fp16", takes_tensor_core,
     run_tensor_core_half},
    {"few-products", "a thread's inputs in registers, filter after filter",
     "at most 36 products per output (channels x K x K)", "float32", takes_few_products, run_few_products},
    // Not part of the ladder: the library in conv/hopper/.
    {"tensor-core", "tensor cores on split operands, the fastest variant for the shape", kTensor, "float32",
     takes_tensor_core, run_tensor_core},
};

constexpr int kCount = sizeof kKernels / sizeof *kKernels;
constexpr const Kernel &kImplicitGemm = line_of(kKernels, run_implicit_gemm),
                       &kRegisterTile = line_of(kKernels, run_register_tile),
                       &kTensorCore = line_of(kKernels, run_tensor_core),
                       &kFewProducts = line_of(kKernels, run_few_products);

// Whether tensor cores are faster than step 14 for a shape that step 14 supports. They are for one channel and 5x5
// filters, unless a plane has at most kSmallPlane outputs, for which step 14 computes a single image faster. On Hopper
// they are also for four float32 channels, up to 32 3x3 filters and planes of kLargePlane outputs or more.
constexpr int kSmallPlane = 128, kLargePlane = 26 * 26;
bool suits_tensor_cores(const fops_conv& c, int major) {
  const int64_t outputs = out_h(c) * out_w(c);
  const bool four_channels = c.C == 4 && c.K == 3 && c.M <= 32 && outputs >= kLargePlane && c.x_type == FOPS_FLOAT32;
  return (c.C == 1 && c.K == 5 && outputs > kSmallPlane) || (four_channels && major == 9);
}

// Returns the kernel for `auto`. The choice does not depend on the batch size, so that an image's result has the same
// bits in every batch. The order of the kernels here is that of their speed on an H200. GPUs before sm_80 do not have
// the mma instruction that the tensor-core kernels use. Without a device (fops_conv_check on a build machine) the
// choice is that for sm_80.
const Kernel* choose(const fops_conv& c) {
  const int major = device_attribute_or(cudaDevAttrComputeCapabilityMajor, 8);
  if (takes_few_products(c) && !suits_tensor_cores(c, major)) return &kFewProducts;
  if (major >= 8 && takes_tensor_core(c)) return &kTensorCore;
  if (takes_register_tile(c)) return &kRegisterTile;
  return takes_any(c) ? &kImplicitGemm : nullptr;
}

}  // namespace

const Kernel& ladder(Kernel::Run run) { return line_of(kKernels, run); }

// Returns the table above, followed by the tensor-core variants, which can be chosen by name. The vector is never
// destroyed, because other threads may still read it when the process ends.
KernelTable gpu_kernels() {
  static const std::vector<Kernel>& all = *[] {
    auto* kernels = new std::vector<Kernel>(kKernels, kKernels + kCount);
    for (const Kernel& variant : hopper::variant_kernels()) kernels->push_back(variant);
    return kernels;
  }();
  return {all.data(), static_cast<int>(all.size()), choose};
}

}  // namespace fops
