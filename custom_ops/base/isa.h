#pragma once

// Calls the macro X with the name of each instruction set that the *_simd.cpp files are compiled for, the simplest set
// first. The name is also the namespace of the set's functions. CMakeLists.txt has the same lists, with the compiler's
// options for each set.
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

// The best instruction set that the processor and the operating system support. The environment variable
// FASHION_OPS_ISA=NAME selects a simpler one.
Isa isa();

// Whether AMX, the matrix unit for tiles of bfloat16, can be used: the processor has it, isa() is avx512, the operating
// system grants it, and FASHION_OPS_AMX is not "off". The first call requests it from the operating system.
bool amx();

const char* isa_name();

}  // namespace fops
