// Validates a convolution and looks up its kernel.
#include "conv/dispatch.h"

#include <cstring>

#include "base/sizes.h"
#include "base/status.h"
#include "conv/plugin.h"

namespace fops {
namespace {

constexpr int64_t kMaxElements = INT64_C(1) << 40;  // 4 TB of float32; a larger shape is taken for a mistake

const char* word(fops_backend backend) { return backend == FOPS_GPU ? "CUDA" : "CPU"; }

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
  if (!within(kMaxElements, {c->B, c->C, c->H, c->W}) || !within(kMaxElements, {c->M, c->C, c->K, c->K}) ||
      !within(kMaxElements, {c->B, c->M, out_h(*c), out_w(*c)}))
    return bad("a tensor of this convolution would hold more than 2^40 elements");
  int type;  // checked as an int, because a caller may pass a number that is no value of the enum
  memcpy(&type, &c->x_type, sizeof type);
  if (type != FOPS_FLOAT32 && type != FOPS_UINT8) return bad("data must be float32 or uint8");
  return FOPS_OK;
}

KernelTable kernels_of(fops_backend backend) { return backend == FOPS_GPU ? gpu_kernels() : cpu_kernels(); }

fops_status choose(fops_backend backend, const fops_conv& conv, const Kernel** out) {
  const KernelTable table = kernels_of(backend);
  if (!table.count) return fail(FOPS_NO_DEVICE, "this build of the operator library has no %s kernels", word(backend));
  *out = table.choose(conv);
  return *out ? FOPS_OK : fail(FOPS_UNSUPPORTED, "no %s kernel takes this convolution", word(backend));
}

fops_status take(fops_backend backend, const Kernel& kernel, const fops_conv& conv, const Kernel** out) {
  if (!takes(kernel, conv))
    return fail(FOPS_UNSUPPORTED,
                "%s kernel '%s' takes %s; this layer has data (%lld,%lld,%lld,%lld) %s, %lld filters of %lldx%lld",
                word(backend), kernel.name, *kernel.takes ? kernel.takes : "sizes within 2^31", (long long)conv.B,
                (long long)conv.C, (long long)conv.H, (long long)conv.W,
                conv.x_type == FOPS_UINT8 ? "uint8" : "float32", (long long)conv.M, (long long)conv.K,
                (long long)conv.K);
  *out = &kernel;
  return FOPS_OK;
}

fops_status find(fops_backend backend, const char* name, const fops_conv& conv, const Kernel** out) {
  if (!name || !*name || !strcmp(name, "auto")) return choose(backend, conv, out);
  if (!kernels_of(backend).count)
    return fail(FOPS_NO_DEVICE, "this build of the operator library has no %s kernels", word(backend));
  const int count = kernel_count(backend);
  for (int i = 0; i < count; ++i)
    if (!strcmp(kernel_at(backend, i)->name, name)) return take(backend, *kernel_at(backend, i), conv, out);
  char names[900] = "";
  for (int i = 0; i < count; ++i) {
    const char* known = kernel_at(backend, i)->name;
    if (strlen(names) + strlen(known) + 3 > sizeof names) break;
    if (i) strcat(names, ", ");
    strcat(names, known);
  }
  return fail(FOPS_UNKNOWN_KERNEL, "unknown %s kernel '%s'; known: auto, %s", word(backend), name, names);
}

}  // namespace fops
