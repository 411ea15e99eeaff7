#include "base/isa.h"

#include <cstdlib>
#include <cstring>

namespace fops {

namespace {

Isa detect() {
  __builtin_cpu_init();  // also asks whether the operating system saves the wide registers
  Isa best = Isa::generic;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::avx2;
  if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    best = Isa::avx512;
  const char* wanted = getenv("FASHION_OPS_ISA");
  if (wanted && !strcmp(wanted, "generic")) best = Isa::generic;
  if (wanted && !strcmp(wanted, "avx2") && best == Isa::avx512) best = Isa::avx2;
  return best;
}

}  // namespace

Isa isa() {
  static const Isa found = detect();
  return found;
}

const char* isa_name() {
  switch (isa()) {
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    default: return "generic";
  }
}

}  // namespace fops
