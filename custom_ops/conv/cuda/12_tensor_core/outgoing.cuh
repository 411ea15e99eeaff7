// An image's outputs on their way from shared to global memory, where the copy engine does not take them.
#pragma once

#include <cuda_runtime.h>

namespace fops {

// `count` outputs of each of M filters, by the kWarps warps of a block: a warp a filter. Filters lie `stride` floats
// apart in shared memory and `plane` apart in y; `vector`: 16 bytes a lane. Ends with the block's barrier.
template <int kWarps>
__device__ inline void store_filters(float* out, int plane, const float* staged, int stride, int M, int count,
                                     bool vector) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (vector) {
    for (int m = warp; m < M; m += kWarps)
      for (int i = lane * 4; i < count; i += 128)
        __stcs(reinterpret_cast<float4*>(out + m * plane + i),
               *reinterpret_cast<const float4*>(staged + m * stride + i));
    __syncthreads();
  } else {
    for (int m = warp; m < M; m += kWarps)
      for (int i = lane; i < count; i += 32) out[m * plane + i] = staged[m * stride + i];
    __syncthreads();
  }
}

}  // namespace fops
