// Which instruction set the fast kernels use on this machine.
#pragma once

namespace fops {

enum class Isa { generic, avx2, avx512 };

// The best that the processor and the operating system support, lowered by FASHION_OPS_ISA=avx2|generic.
Isa isa();

}  // namespace fops
