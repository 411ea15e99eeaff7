#include "net/cuda/buffers.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "gpu/launch.h"

namespace fops {
namespace {

constexpr int64_t kMostItems = 16384;      // maximum items per slice
constexpr double kMemoryShare = 0.8;       // fraction of the free memory that may be used
constexpr int64_t kPlainBytes = 64 << 20;  // maximum memory for recomputing items (more only if one block needs more)

// Returns the maximum number of items per slice. The environment variable FASHION_OPS_SLICE lowers it, for tests and
// for sharing a small device.
int64_t most_items() {
  const char* text = std::getenv("FASHION_OPS_SLICE");
  const long long wanted = text != nullptr ? std::atoll(text) : 0;
  return wanted > 0 ? std::min<int64_t>(wanted, kMostItems) : kMostItems;
}

}  // namespace

fops_status Buffers::set_steps(std::vector<Step> steps) {
  bool same = steps.size() == steps_.size();
  for (size_t i = 0; same && i < steps.size(); ++i)
    same = steps[i].kind == steps_[i].kind && steps[i].out_bytes() == steps_[i].out_bytes() &&
           steps[i].scratch == steps_[i].scratch && steps[i].doubt_at == steps_[i].doubt_at;
  if (!same) FOPS_TRY(release());  // new weights have new bounds, which may change the forms of the tensors
  steps_ = std::move(steps);
  made_ = true;
  return FOPS_OK;
}

int64_t Buffers::slice(int64_t n) const {
  const int64_t wanted = std::min(n, most_items());
  return limited_ ? std::min(wanted, capacity_) : wanted;
}

fops_status Buffers::release() noexcept {
  capacity_ = 0;
  limited_ = false;
  for (DeviceMemory& output : outputs_) FOPS_TRY(output.release());
  for (DeviceMemory* memory : {&scratch_, &doubts_, &again_, &plain_}) FOPS_TRY(memory->release());
  return workspace_.release();
}

fops_status Buffers::grow(int64_t wanted, int64_t extra_bytes, const std::vector<StageWeights>& weights,
                          cudaStream_t stream, int64_t* slice) {
  FOPS_TRY(release());
  size_t free = 0, total = 0;
  FOPS_CUDA(cudaMemGetInfo(&free, &total));
  int64_t an_item = extra_bytes, scratch = 0;
  for (const Step& step : steps_) {
    an_item += step.out_bytes() + 4 * step.doubt_words;
    scratch = std::max(scratch, 4 * step.scratch);
  }
  const double fit = kMemoryShare * static_cast<double>(free) / static_cast<double>(an_item + scratch);
  *slice = std::max<int64_t>(1, std::min(wanted, static_cast<int64_t>(fit)));
  for (;; *slice = (*slice + 1) / 2) {  // less memory may be left than cudaMemGetInfo reported
    const fops_status status = reserve(*slice, weights, stream);
    if (status == FOPS_OK) {
      limited_ = *slice < wanted;
      return FOPS_OK;
    }
    FOPS_TRY(release());
    if (status != FOPS_OUT_OF_MEMORY || *slice == 1) return status;
  }
}

fops_status Buffers::reserve(int64_t n, const std::vector<StageWeights>& weights, cudaStream_t stream) {
  size_t scratch = 0, workspace = 0;
  int64_t doubts = 0;
  outputs_.resize(steps_.size() - 1);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    scratch = std::max(scratch, static_cast<size_t>(4 * step.scratch * n));
    doubts += step.doubt_words;
    if (step.kind == Step::Kind::dense)
      workspace = std::max(workspace, dense_workspace_bytes(weights[step.stage].dense, n));
    if (i + 1 == steps_.size()) continue;
    const size_t bytes = static_cast<size_t>(n * step.out_bytes());
    FOPS_TRY(outputs_[i].reserve(bytes));
    // Rows of half-precision values need zeros after their values. The other buffers are zeroed for compute-sanitizer:
    // its initcheck does not see TMA's writes, and would report that kernels read uninitialised memory.
    FOPS_CUDA(cudaMemsetAsync(outputs_[i].as(), 0, bytes, stream));
  }
  if (scratch > 0) {
    FOPS_TRY(scratch_.reserve(scratch));
    FOPS_CUDA(cudaMemsetAsync(scratch_.as(), 0, scratch, stream));
  }
  if (workspace > 0) FOPS_TRY(workspace_.reserve(workspace));
  if (doubts > 0) FOPS_TRY(reserve_doubts(n, doubts, stream));
  FOPS_CUDA(cudaStreamSynchronize(stream));
  capacity_ = n;
  return FOPS_OK;
}

int64_t Buffers::largest() const {
  int64_t size = 0;
  for (const Step& step : steps_) size = std::max({size, step.in.size(), step.out.size()});
  return size;
}

fops_status Buffers::reserve_doubts(int64_t n, int64_t words, cudaStream_t stream) {
  int multiprocessors = 0;
  FOPS_TRY(count_sms(&multiprocessors));
  const int64_t a_block = 2 * 4 * largest();
  const int64_t blocks = std::max<int64_t>(1, std::min<int64_t>({n, multiprocessors, kPlainBytes / a_block}));
  plain_blocks_ = static_cast<unsigned>(blocks);
  const size_t bits = static_cast<size_t>(4 * n * words), flags = static_cast<size_t>(4 * n);
  FOPS_TRY(plain_.reserve(static_cast<size_t>(blocks * a_block)));
  FOPS_TRY(doubts_.reserve(bits));
  FOPS_TRY(again_.reserve(flags));
  FOPS_CUDA(cudaMemsetAsync(doubts_.as(), 0, bits, stream));
  FOPS_CUDA(cudaMemsetAsync(again_.as(), 0, flags, stream));
  return FOPS_OK;
}

Tensor Buffers::output(size_t index, float* out, int64_t first) const {
  const Step& step = steps_[index];
  void* const memory = index + 1 < steps_.size() ? outputs_[index].as() : out;
  Tensor y;
  y.form = step.form;
  y.scale = step.scale;
  if (y.form == Tensor::Form::halves) {
    const int64_t stride = dense_stride(step.out.size());
    y.data = static_cast<__half*>(memory) + first * stride;
    y.lo = static_cast<__half*>(y.data) + capacity_ * stride;
  } else {
    y.data = static_cast<float*>(memory) + first * step.out.size();
  }
  return y;
}

}  // namespace fops
