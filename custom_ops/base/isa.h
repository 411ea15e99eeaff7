// Which instruction set the fast kernels use on this machine.
#pragma once

// X(set) for every instruction set that the *_simd.cpp files are compiled for, plainest first; a set has the name of
// its namespace. CMakeLists.txt has the same lists, with the compiler's options.
#if defined(__x86_64__)
#define FOPS_EACH_ISA(X) X(generic) X(avx2) X(avx512)
#elif defined(__aarch64__)
#define FOPS_EACH_ISA(X) X(generic) X(neon)
#else
#define FOPS_EACH_ISA(X) X(generic)
#endif

namespace fops {

#define FOPS_ISA_NAME(set) set,
enum class Isa { FOPS_EACH_ISA(FOPS_ISA_NAME) };
#undef FOPS_ISA_NAME

// The best that the processor and the operating system support, lowered by FASHION_OPS_ISA=NAME.
Isa isa();

// Whether the processor's tiles of bfloat16 (AMX) can be used as well. Requests them from the operating system, once.
// FASHION_OPS_AMX=off, and a lowered isa(), leave them out.
bool amx();

// Name of the instruction set: "avx512", "avx2", "neon" or "generic".
const char* isa_name();

}  // namespace fops
