#include "net/cuda/steps.h"

#include "conv/cuda/halves_out.h"
#include "conv/cuda/table.h"
#include "conv/dispatch.h"
#include "net/cuda/graph_cache.h"
#include "net/cuda/kernels/recompute.h"

namespace fops {

Tensor Steps::input(const void* data, fops_dtype type, int64_t first) const {
  Tensor x;
  x.form = type == FOPS_UINT8 ? Tensor::Form::uint8 : Tensor::Form::float32;
  x.data = const_cast<char*>(static_cast<const char*>(data)) + first * in_bytes(type);  // no step writes to its input
  return x;
}

fops_status Steps::run(const Buffers& buffers, size_t from, int64_t n, const Tensor& data, float* out,
                       std::vector<Event>* marks, cudaStream_t stream) const {
  unsigned flags = 0;
  FOPS_TRY(record_flags(stream, &flags));
  if (marks != nullptr) FOPS_CUDA(cudaEventRecordWithFlags((*marks)[from], stream, flags));
  const size_t count = buffers.steps().size();
  Tensor x = from == 0 ? data : buffers.output(from - 1, out, 0);
  for (size_t i = from; i < count; ++i) {
    const Tensor y = buffers.output(i, out, 0);
    FOPS_TRY(run_step(buffers, buffers.steps()[i], n, x, y, stream));
    if (i + 1 == count) FOPS_TRY(recompute(buffers, n, data, out, stream));
    if (marks != nullptr) FOPS_CUDA(cudaEventRecordWithFlags((*marks)[i + 1], stream, flags));
    x = y;
  }
  return FOPS_OK;
}

// Recomputes the items whose values half precision may not represent well enough. Does nothing if a lower precision was
// requested or no dense step uses halves.
fops_status Steps::recompute(const Buffers& buffers, int64_t n, const Tensor& data, float* out,
                             cudaStream_t stream) const {
  Recompute work{};
  for (size_t i = 0; i < buffers.steps().size() && products_ == 3; ++i) {
    const Step& step = buffers.steps()[i];
    if (step.kind != Step::Kind::dense) continue;
    const Tensor x = buffers.output(i - 1, out, 0);  // a dense step reads halves from the previous step
    const DenseWeights& w = weights_.stages()[step.stage].dense;
    DoubtfulLayer& layer = work.layers[work.layer_count++];
    layer.x = static_cast<const __half*>(x.data), layer.w = w.hi;
    layer.unscale = w.unscale, layer.bias = w.bias, layer.least = w.least;
    layer.x_unscale = 1.0f / x.scale, layer.share = least_share(w.inputs, layer.x_unscale);
    layer.row = static_cast<int>(dense_stride(w.inputs)), layer.units = static_cast<int>(w.units);
    layer.doubts = buffers.doubts(step);
  }
  if (work.layer_count == 0) return FOPS_OK;
  const auto whole = [](int64_t size) { return static_cast<int>(size); };
  for (const Stage& stage : plan_.stages) {
    const StageWeights& w = weights_.stages()[work.stage_count];
    const bool dense = stage.kind == Stage::Kind::dense, conv = stage.kind == Stage::Kind::convolution;
    PlainStage& plain = work.stages[work.stage_count++];
    plain.kind = stage.kind, plain.activation = stage.activation, plain.w = w.w, plain.bias = w.bias;
    plain.C = whole(stage.in.C), plain.H = whole(stage.in.H), plain.W = whole(stage.in.W);
    plain.units = whole(dense ? stage.out.size() : stage.out.C);
    plain.OH = whole(stage.out.H), plain.OW = whole(stage.out.W), plain.K = conv ? whole(stage.K) : 1;
    plain.size = stage.pool ? whole(stage.pool.size) : 1, plain.stride = stage.pool ? whole(stage.pool.stride) : 1;
  }
  work.blocks = buffers.plain_blocks(), work.again = buffers.again(), work.scratch = buffers.plain();
  work.ahead = buffers.steps().back().kind == Step::Kind::few_units;
  work.largest = buffers.largest(), work.out_size = plan_.out().size();
  return run_recompute(work, n, data, out, stream);
}

fops_status Steps::run_step(const Buffers& buffers, const Step& step, int64_t n, const Tensor& x, const Tensor& y,
                            cudaStream_t stream) const {
  const Stage& stage = plan_.stages[step.stage];
  const StageWeights& w = weights_.stages()[step.stage];
  float* const to = static_cast<float*>(y.data);
  const fops_dtype type = x.form == Tensor::Form::uint8 ? FOPS_UINT8 : FOPS_FLOAT32;
  switch (step.kind) {
    case Step::Kind::conv_pixels: return run_conv_pixels(stage, w.pixels, w.w, n, x, y, stream);
    case Step::Kind::conv_pool:
      return stage.in.C == 1 ? run_first_layer(stage, w.conv_pool, w.w, n, x, y, stream)
                             : run_later_layer(stage, w.conv_pool, w.w, n, x, y, stream);
    case Step::Kind::conv: {
      const fops_conv conv{n, stage.in.C, stage.in.H, stage.in.W, stage.out.C, stage.K, type};
      FOPS_TRY(validate(&conv));
      const Kernel* kernel = nullptr;
      FOPS_TRY(choose(FOPS_GPU, conv, &kernel));
      Tensor plain;
      plain.data = step.scratch > 0 ? buffers.scratch() : to;
      FOPS_TRY(kernel->run(conv, x.data, w.w, static_cast<float*>(plain.data), stream));
      if (step.scratch == 0) return FOPS_OK;
      const Item unpooled{stage.out.C, out_h(conv), out_w(conv)};
      return run_map(unpooled, stage.out, stage.pool, stage.activation, n, plain, y, stream);
    }
    case Step::Kind::conv_halves: {
      const fops_conv conv{n, stage.in.C, stage.in.H, stage.in.W, stage.out.C, stage.K, type};
      FOPS_TRY(validate(&conv));
      return run_to_halves(conv, x.data, w.w,
                           {static_cast<__half*>(y.data), y.lo, dense_stride(step.out.size()), y.scale,
                            step.activation == Activation::relu, step.side_by_side},
                           stream);
    }
    case Step::Kind::map: return run_map(step.in, step.out, step.pool, step.activation, n, x, y, stream);
    case Step::Kind::dense:
      return dense(w.dense, n, static_cast<const __half*>(x.data), x.lo, 1.0f / x.scale, step.activation, products_,
                   products_ == 3 ? buffers.doubts(step) : Doubts(), to, buffers.workspace(), stream);
    case Step::Kind::dense_plain: {
      // A dense layer is a 1x1 convolution over an image of one pixel, with one channel per value.
      const fops_conv conv{n, step.in.size(), 1, 1, step.out.size(), 1, type};
      FOPS_TRY(validate(&conv));
      const Kernel* kernel = nullptr;
      FOPS_TRY(take(FOPS_GPU, ladder(run_implicit_gemm), conv, &kernel));
      FOPS_TRY(kernel->run(conv, x.data, w.w, to, stream));
      return run_bias_activation(n, step.out.size(), w.bias, step.activation, to, stream);
    }
    case Step::Kind::few_units:
      return run_few_units(n, step.in.size(), step.out.size(), x, w.w, w.bias, step.activation, step.softmax, to,
                           stream);
    case Step::Kind::softmax: return run_softmax(n, step.in.size(), x, to, stream);
  }
  return fail(FOPS_INVALID, "a step of no known kind");
}

}  // namespace fops
