// Which instruction set the fast kernels use on this machine.
#pragma once

namespace fops {

enum class Isa { generic, avx2, avx512 };

// The best that the processor and the operating system support, lowered by FASHION_OPS_ISA=avx2|generic.
Isa isa();

// Its name: "avx512", "avx2" or "generic".
const char* isa_name();

}  // namespace fops
