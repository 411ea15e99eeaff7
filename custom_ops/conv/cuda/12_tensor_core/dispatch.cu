// Step 12: which of its kernels runs a convolution.
//
//   one channel, 9 filters or more, K = 5, 7  one_channel/shifts.cu on Hopper, planes of whole sectors (or streams.cu)
//   one channel, few filters, K = 5 or 7      one_channel/four_outputs.cu, where rows are whole groups of four
//   one channel, K = 5 or 7                   one_channel/pixels.cu
//   64 to 128 channels, K = 1                 any_shape/pointwise.cu at float32 grade
//   11, 12 channels, 17 to 24 filters, K = 5, 7   any_shape/apart.cu (K = 5), row_groups.cu on Hopper at float32 grade
//   4 channels, 9 to 16 filters, K = 7        any_shape/walks.cu on Hopper at float32 grade
//   2 to 4 channels, many filters, K = 5 to 8   any_shape/few_channels.cu on Hopper at float32 grade
//   2 to 6 channels, 9 to 16 filters, K = 5   warpgroup.cu on Hopper at float32 grade, else few_filters.cu
//   other shapes of up to 32 filters          any_shape/bands.cu on Hopper at float32 grade, else channels.cu
//   all others, on Hopper                     any_shape/any_shape.cu
#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/kernels.h"
#include "conv/cuda/remembered.h"
#include "conv/cuda/table.h"

namespace fops {
namespace {

enum class Way {
  none, shifts, four_outputs, pixels, pointwise, apart, row_groups, walks, few_channels, channels, few_filters,
  warpgroup, bands, any_shape
};

// `major`: of the GPU's compute capability. A single product, `half`, keeps mma.sync from being what limits it
// (0.204 ms, wgmma 0.205).
// On Hopper any_shape/bands.cu takes what it can: of 120 random layers with up to 32 filters it was ahead on all but a
// few, by up to 2.7 times. Behind it was sp2018's second layer (0.59 ms, warpgroup.cu 0.33). What it does not take is
// faster with any_shape.cu than with channels.cu (4 to 32 channels, 7x7, 14x14, one image: 7.9 us and 23), but for
// bytes not measured. There, and with one product: channels.cu computes as many filters as there are, any_shape.cu 32
// at a time: of 32 channels and 32 filters, 3x3, 56x56, they take 0.38 and 0.32 ms, of 16 channels and 16 filters 0.31
// and 0.37 (measured when both had longer chains).
Way find_way(const fops_conv& c, bool half, int major) {
  if (major == 9 && takes_tensor_core_shifts(c)) return Way::shifts;
  if (takes_tensor_core_four_outputs(c)) return Way::four_outputs;
  if (takes_tensor_core_pixels(c)) return Way::pixels;
  if (!half && takes_tensor_core_pointwise(c)) return Way::pointwise;
  const bool hopper = major == 9 && !half;
  if (hopper && takes_tensor_core_apart(c)) return Way::apart;
  if (hopper && takes_tensor_core_row_groups(c)) return Way::row_groups;
  if (hopper && takes_tensor_core_walks(c)) return Way::walks;
  if (hopper && takes_tensor_core_few_channels(c)) return Way::few_channels;
  const bool bands = hopper && takes_tensor_core_bands(c);
  if (takes_tensor_core_few_filters(c)) {
    if (hopper && takes_tensor_core_warpgroup(c)) return Way::warpgroup;
    if (!bands) return Way::few_filters;
  }
  if (bands) return Way::bands;
  if (hopper && c.x_type == FOPS_FLOAT32 && takes_tensor_core_any_shape(c)) return Way::any_shape;
  const bool few = c.C * c.K * c.K <= (c.M <= 24 ? 600 : 320) && (c.C < 32 || c.M <= 16);
  if (takes_tensor_core_channels(c) && (few || !takes_tensor_core_any_shape(c))) return Way::channels;
  return takes_tensor_core_any_shape(c) ? Way::any_shape : Way::none;
}

Way way_for(const fops_conv& c, bool half, int major) {
  static thread_local Remembered<Way> ways;
  return ways.of(c, 2 * major + half, [&] { return find_way(c, half, major); });
}

fops_status compute_capability(int* major) {
  int device = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device));
  return FOPS_OK;
}

}  // namespace

bool takes_tensor_core(const fops_conv& c) { return way_for(c, false, 0) != Way::none; }

fops_status run_on_tensor_cores(bool half, const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  int major = 0;
  FOPS_TRY(compute_capability(&major));
  const char* name = ladder(half ? run_tensor_core_half : run_tensor_core).name;
  if (major < 8)
    return fail(FOPS_UNSUPPORTED, "%s needs a GPU of compute capability 8.0 or newer; this one has %d.x", name, major);
  const auto on = static_cast<cudaStream_t>(stream);
  switch (way_for(c, half, major)) {
    case Way::shifts: return run_tensor_core_shifts(c, half, x, k, y, on);
    case Way::four_outputs: return run_tensor_core_four_outputs(c, half, x, k, y, on);
    case Way::pixels: return run_tensor_core_pixels(c, half, x, k, y, on);
    case Way::channels: return run_tensor_core_channels(c, half, x, k, y, on);
    case Way::bands: return run_tensor_core_bands(c, x, k, y, on);
    case Way::apart: return run_tensor_core_apart(c, x, k, y, on);
    case Way::row_groups: return run_tensor_core_row_groups(c, x, k, y, on);
    case Way::walks: return run_tensor_core_walks(c, x, k, y, on);
    case Way::pointwise: return run_tensor_core_pointwise(c, x, k, y, on);
    case Way::few_channels: return run_tensor_core_few_channels(c, x, k, y, on);
    case Way::any_shape: return run_tensor_core_any_shape(c, half, x, k, y, on);
    case Way::warpgroup: return run_tensor_core_warpgroup(c, x, k, y, on);
    case Way::few_filters: return run_tensor_core_few_filters(c, half, x, k, y, on);
    case Way::none: break;
  }
  return fail(FOPS_UNSUPPORTED, "%s does not take this shape on this GPU", name);
}

HalvesOrder halves_order(const fops_conv& c) {
  int major = 0;
  if (compute_capability(&major) != FOPS_OK) return HalvesOrder::none;
  const Way way = way_for(c, false, major);
  if (way == Way::row_groups || way == Way::apart) return c.M % 8 == 0 ? HalvesOrder::side_by_side : HalvesOrder::none;
  return way == Way::warpgroup ? HalvesOrder::planes : HalvesOrder::none;
}

fops_status run_to_halves(const fops_conv& c, const void* x, const float* k, const HalvesOut& y, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return takes_tensor_core_row_groups(c) ? run_tensor_core_row_groups(c, x, k, y, on)
                                         : run_tensor_core_warpgroup(c, x, k, y, on);
}

fops_status run_tensor_core(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return run_on_tensor_cores(false, c, x, k, y, stream);
}

}  // namespace fops
