#include "base/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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

bool detect_amx() {
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24;      // of cpuid's leaf 7
  constexpr long kAskForState = 0x1023, kTileData = 18;            // of Linux's asm/prctl.h
  const char* wanted = getenv("FASHION_OPS_AMX");
  unsigned a, b, c, d;
  if (isa() != Isa::avx512 || (wanted && !strcmp(wanted, "off")) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  // The system saves 8 KB a thread only for a process that asks, and does not know the question before Linux 5.16.
  return (d & kBfloat16) && (d & kTiles) && syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

}  // namespace

bool amx() {
  static const bool found = detect_amx();
  return found;
}

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
