// The entry points of fashion_ops.h: validate, look the variant up, run it, log it.
#include <chrono>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>

#include "dispatch.h"
#include "status.h"
#include "variant.h"

#ifndef FOPS_VERSION
#define FOPS_VERSION "unknown"
#endif
#ifndef FOPS_CUDA_ARCHS
#define FOPS_CUDA_ARCHS ""
#endif
#ifndef FOPS_CUDA_VERSION
#define FOPS_CUDA_VERSION ""
#endif

namespace fops {

namespace {

constexpr int64_t kMaxElements = INT64_C(1) << 40;  // 4 TB of float32: beyond it a shape is a mistake

bool within(int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t n = a;
  for (int64_t f : {b, c, d}) {
    if (f > kMaxElements / n) return false;
    n *= f;
  }
  return true;
}

}  // namespace

fops_status validate(const fops_conv* c) {
  if (!c) return fail(FOPS_INVALID, "no convolution was given (null pointer)");
  auto bad = [c](const char* why) {
    return fail(FOPS_INVALID, "%s: data (%lld,%lld,%lld,%lld), %lld filters of %lldx%lld", why, (long long)c->B,
                (long long)c->C, (long long)c->H, (long long)c->W, (long long)c->M, (long long)c->K, (long long)c->K);
  };
  if (c->B < 1 || c->C < 1 || c->H < 1 || c->W < 1 || c->M < 1 || c->K < 1)
    return bad("every size of a convolution must be at least 1");
  if (c->K > c->H || c->K > c->W) return bad("the kernel is larger than the image");
  if (!within(c->B, c->C, c->H, c->W) || !within(c->M, c->C, c->K, c->K) ||
      !within(c->B, c->M, out_h(*c), out_w(*c)))
    return bad("a tensor of this convolution would hold more than 2^40 elements");
  if (c->x_type != FOPS_FLOAT32 && c->x_type != FOPS_UINT8) return bad("data must be float32 or uint8");
  return FOPS_OK;
}

fops_status find(fops_backend backend, const char* kernel, const fops_conv& conv, const Variant** out) {
  const VariantTable table = backend == FOPS_CUDA ? cuda_variants() : cpu_variants();
  const char* where = backend == FOPS_CUDA ? "CUDA" : "CPU";
  if (!table.count) return fail(FOPS_NO_DEVICE, "this build of the operator library has no %s kernels", where);
  if (!kernel || !*kernel || !strcmp(kernel, "auto")) {
    *out = table.choose(conv);
    return *out ? FOPS_OK : fail(FOPS_UNSUPPORTED, "no %s kernel takes this convolution", where);
  }
  for (int i = 0; i < table.count; ++i) {
    const Variant& v = table.variants[i];
    if (strcmp(v.name, kernel)) continue;
    if (!v.accepts(conv))
      return fail(FOPS_UNSUPPORTED,
                  "%s kernel '%s' takes %s; this layer has data (%lld,%lld,%lld,%lld) %s, %lld filters of %lldx%lld",
                  where, v.name, v.requires_, (long long)conv.B, (long long)conv.C, (long long)conv.H,
                  (long long)conv.W, conv.x_type == FOPS_UINT8 ? "uint8" : "float32", (long long)conv.M,
                  (long long)conv.K, (long long)conv.K);
    *out = &v;
    return FOPS_OK;
  }
  char names[512] = "";
  for (int i = 0; i < table.count; ++i) {
    if (strlen(names) + strlen(table.variants[i].name) + 3 > sizeof names) break;
    if (i) strcat(names, ", ");
    strcat(names, table.variants[i].name);
  }
  return fail(FOPS_UNKNOWN_KERNEL, "unknown %s kernel '%s'; known: auto, %s", where, kernel, names);
}

fops_status caught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use a smaller batch");
  } catch (const std::exception& e) {
    return fail(FOPS_DEVICE_ERROR, "operator library: %s", e.what());
  } catch (...) {
    return fail(FOPS_DEVICE_ERROR, "operator library: unknown failure");
  }
}

}  // namespace fops

using namespace fops;

extern "C" {

const char* fops_build_info(void) {
  return "fashion_ops " FOPS_VERSION ", gcc " __VERSION__ ", cpu generic+avx2+avx512, cuda "
#ifdef FOPS_WITH_CUDA
      FOPS_CUDA_VERSION " (" FOPS_CUDA_ARCHS ")";
#else
         "none";
#endif
}

int fops_kernel_count(fops_backend backend) {
  return backend == FOPS_CUDA ? cuda_variants().count : cpu_variants().count;
}

fops_status fops_kernel_describe(fops_backend backend, int index, fops_kernel_info* out) {
  const VariantTable table = backend == FOPS_CUDA ? cuda_variants() : cpu_variants();
  if (!out || index < 0 || index >= table.count)
    return fail(FOPS_INVALID, "kernel index %d is outside 0 to %d", index, table.count - 1);
  const Variant& v = table.variants[index];
  *out = {v.name, v.summary, v.requires_, v.precision};
  return FOPS_OK;
}

fops_status fops_conv_check(fops_backend backend, const char* kernel, const fops_conv* conv, const char** chosen) {
  if (fops_status s = validate(conv)) return s;
  const Variant* v = nullptr;
  if (fops_status s = find(backend, kernel, *conv, &v)) return s;
  if (chosen) *chosen = v->name;
  return FOPS_OK;
}

fops_status fops_conv_forward_cpu(const char* kernel, const fops_conv* conv, const void* x, const float* k, float* y,
                                  const char* layer) {
  try {
    if (fops_status s = validate(conv)) return s;
    if (!x || !k || !y) return fail(FOPS_INVALID, "data, weight or output is a null pointer");
    const Variant* v = nullptr;
    if (fops_status s = find(FOPS_CPU, kernel, *conv, &v)) return s;
    const auto start = std::chrono::steady_clock::now();
    if (fops_status s = v->run(*conv, x, k, y, nullptr)) return s;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    log_op(layer, v->name, *conv, elapsed.count(), 0, 0);
    return FOPS_OK;
  } catch (...) {
    return caught();
  }
}

}  // extern "C"
