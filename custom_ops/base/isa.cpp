#include "base/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace fops {
namespace {

#define FOPS_ISA_STRING(set) #set,
constexpr const char* kNames[] = {FOPS_EACH_ISA(FOPS_ISA_STRING)};
#undef FOPS_ISA_STRING

Isa best() {
#if defined(__x86_64__)
  __builtin_cpu_init();  // also checks that the operating system saves the wide registers
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::generic;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? Isa::avx512 : Isa::avx2;
#elif defined(__aarch64__)
  return Isa::neon;  // part of every 64-bit Arm processor
#else
  return Isa::generic;
#endif
}

Isa detect() {
  const char* wanted = getenv("FASHION_OPS_ISA");
  Isa found = best();
  for (int i = 0; wanted && i < static_cast<int>(std::size(kNames)); ++i)
    if (!strcmp(wanted, kNames[i])) found = std::min(found, static_cast<Isa>(i));
  return found;
}

bool detect_amx() {
#if defined(__x86_64__)
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24;  // bits of cpuid's leaf 7
  constexpr long kAskForState = 0x1023, kTileData = 18;        // from Linux's asm/prctl.h
  const char* wanted = getenv("FASHION_OPS_AMX");
  unsigned a, b, c, d;
  if (isa() != Isa::avx512 || (wanted && !strcmp(wanted, "off")) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  // Linux (since 5.16) saves the 8 KB of tile registers of a thread only if the process has requested it.
  return (d & kBfloat16) && (d & kTiles) && syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
#else
  return false;
#endif
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

const char* isa_name() { return kNames[static_cast<int>(isa())]; }

}  // namespace fops
