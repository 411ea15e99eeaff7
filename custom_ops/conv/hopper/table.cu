// The table of variants, and the functions that run them: for the kernel `tensor-core`, for step 13, for variants by
// name, and for outputs in halves.
#include "conv/hopper/table.h"
#include "conv/cuda/table.h"

#include <string>
#include <utility>

#include "conv/cuda/kernels.h"
#include "conv/hopper/shape_cache.h"
#include "conv/hopper/variants.h"

namespace fops {
namespace hopper {
namespace {

// Wraps a variant without a half-precision kernel: adds the parameter `half`, which is ignored.
template <Run* kRun>
fops_status float32_only(const fops_conv& c, bool, const void* x, const float* k, float* y, cudaStream_t stream) {
  return kRun(c, x, k, y, stream);
}

constexpr VariantRow kRows[] = {
    {Variant::shifted_filters, "shifted-filters", "a filter is several rows of the product, one for each shift",
     "on Hopper: one channel, K of 5 or 7, more than 8 filters, output planes of whole 32-byte sectors",
     takes_shifted_filters, run_shifted_filters, nullptr, HalvesOrder::none},
    {Variant::quad_columns, "quad-columns", "a column of the product is four neighbouring outputs",
     "one channel, K of 5 with up to 16 filters or of 7 with up to 8, output rows in whole groups of four",
     takes_quad_columns, run_quad_columns, nullptr, HalvesOrder::none},
    {Variant::pixel_columns, "pixel-columns", "a column of the product is one output",
     "one channel, K of 5 or 7, at most 512 filters", takes_pixel_columns, run_pixel_columns, nullptr,
     HalvesOrder::none},
    {Variant::pointwise, "pointwise", "weights in registers, one launch per call", "64 to 128 float32 channels, K of 1",
     takes_pointwise, float32_only<run_pointwise>, nullptr, HalvesOrder::none},
    {Variant::output_row_pairs, "output-row-pairs", "a position is a column of two outputs",
     "on Hopper: 11 or 12 float32 channels, 17 to 24 filters, K of 5 or 7", takes_output_row_pairs,
     float32_only<run_output_row_pairs>, run_output_row_pairs, HalvesOrder::side_by_side},
    {Variant::column_major_tiles, "column-major-tiles", "64 columns of outputs, all rows of a filter at once",
     "on Hopper: 4 float32 channels, 9 to 16 filters of 7x7, outputs at least 8 wide", takes_column_major_tiles,
     float32_only<run_column_major_tiles>, nullptr, HalvesOrder::none},
    {Variant::register_weights, "register-weights", "64 filters' weights in registers, a pipeline of pixel rows",
     "on Hopper: 2 to 4 float32 channels, 33 to 64 or 97 to 128 filters, K of 5 to 8, outputs at least 33 wide",
     takes_register_weights, float32_only<run_register_weights>, nullptr, HalvesOrder::none},
    {Variant::warpgroup_images, "warpgroup-images", "a warpgroup computes an image, another one stages the next",
     "on Hopper: 2 to 6 float32 channels, 9 to 16 filters of 5x5, outputs at most 64 wide", takes_warpgroup_images,
     float32_only<run_warpgroup_images>, run_warpgroup_images, HalvesOrder::planes},
    {Variant::image_bands, "image-bands", "a band of an image times all filters",
     "on Hopper: 2 to 256 float32 channels, at most 32 filters, K at most 11", takes_image_bands,
     float32_only<run_image_bands>, nullptr, HalvesOrder::none},
    {Variant::any_shape, "any-shape", "implicit GEMM: a tap is an address in shared memory",
     "on Hopper: at least 25 products per output, K at most 11", takes_any_shape, run_any_shape, nullptr,
     HalvesOrder::none},
    {Variant::channel_quads, "channel-quads", "implicit GEMM over groups of four channels",
     "2 to 64 float32 channels, at most 32 filters, K at most 7, at least 64 products per output", takes_channel_quads,
     run_channel_quads, nullptr, HalvesOrder::none},
};

const VariantRow& row_of(Variant variant) { return kRows[static_cast<int>(variant)]; }

constexpr bool in_order() {
  for (int i = 0; i < kVariants; ++i)
    if (kRows[i].variant != static_cast<Variant>(i)) return false;
  return sizeof kRows / sizeof *kRows == kVariants;
}
static_assert(in_order(), "row_of finds a row by its variant");

Variant variant_for(const fops_conv& c, bool half, int major) {
  static thread_local ShapeCache<Variant> cache;
  return cache.of(c, 2 * major + half, [&] {
    return choose_variant(c, half, major, [&](Variant variant) { return row_of(variant).takes(c); });
  });
}

fops_status compute_capability(int* major) { return device_attribute(cudaDevAttrComputeCapabilityMajor, major); }

fops_status check_gpu(int major, const char* kernel) {
  if (major >= 8) return FOPS_OK;
  return fail(FOPS_UNSUPPORTED, "%s needs a GPU of compute capability 8.0 or newer; this one has %d.x", kernel, major);
}

template <Variant kVariant>
fops_status run_named(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  int major = 0;
  FOPS_TRY(compute_capability(&major));
  FOPS_TRY(check_gpu(major, kRows[static_cast<int>(kVariant)].name));
  return kRows[static_cast<int>(kVariant)].run(c, false, x, k, y, static_cast<cudaStream_t>(stream));
}

template <int... kIndex>
std::vector<Kernel> kernels_of_rows(std::integer_sequence<int, kIndex...>) {
  static const std::vector<std::string> names = {std::string("tensor-core/") + kRows[kIndex].name...};
  return {Kernel{names[kIndex].c_str(), kRows[kIndex].summary, kRows[kIndex].shapes, "float32", kRows[kIndex].takes,
                 run_named<static_cast<Variant>(kIndex)>}...};
}

}  // namespace

std::vector<Kernel> variant_kernels() { return kernels_of_rows(std::make_integer_sequence<int, kVariants>()); }

fops_status run_on_tensor_cores(bool half, const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  int major = 0;
  FOPS_TRY(compute_capability(&major));
  const char* name = ladder(half ? run_tensor_core_half : run_tensor_core).name;
  FOPS_TRY(check_gpu(major, name));
  const Variant variant = variant_for(c, half, major);
  if (variant == Variant::none) return fail(FOPS_UNSUPPORTED, "%s does not take this shape on this GPU", name);
  return row_of(variant).run(c, half, x, k, y, static_cast<cudaStream_t>(stream));
}

fops_status check_tensor_cores(const char* kernel) {
  int major = 0;
  FOPS_TRY(compute_capability(&major));
  return check_gpu(major, kernel);
}

}  // namespace hopper

// Passes 0 as the compute capability, which excludes the variants that need Hopper: any_shape, whose predicate looks at
// the device, supports nearly all of their shapes.
bool takes_tensor_core(const fops_conv& c) { return hopper::variant_for(c, false, 0) != hopper::Variant::none; }

fops_status run_tensor_core(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return hopper::run_on_tensor_cores(false, c, x, k, y, stream);
}

HalvesOrder halves_order(const fops_conv& c) {
  int major = 0;
  if (hopper::compute_capability(&major) != FOPS_OK) return HalvesOrder::none;
  const hopper::Variant variant = hopper::variant_for(c, false, major);
  if (variant == hopper::Variant::none) return HalvesOrder::none;
  const HalvesOrder order = hopper::row_of(variant).order;
  return order == HalvesOrder::side_by_side && c.M % 8 != 0 ? HalvesOrder::none : order;
}

fops_status run_to_halves(const fops_conv& c, const void* x, const float* k, const HalvesOut& y, void* stream) {
  int major = 0;
  FOPS_TRY(hopper::compute_capability(&major));
  const hopper::Variant variant = hopper::variant_for(c, false, major);
  const auto run = variant == hopper::Variant::none ? nullptr : hopper::row_of(variant).run_to_halves;
  if (!run) return fail(FOPS_UNSUPPORTED, "tensor-core: no kernel leaves this shape's outputs as halves");
  return run(c, x, k, y, static_cast<cudaStream_t>(stream));
}

}  // namespace fops
