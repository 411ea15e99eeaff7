// Which instruction set the fast kernels use on this machine.
#pragma once

namespace fops {

enum class Isa { generic, avx2, avx512 };

// The best that the processor and the operating system support, lowered by FASHION_OPS_ISA=avx2|generic.
Isa isa();

// Whether its tiles of bfloat16 (AMX) can be used as well. Asks the operating system for them, once. FASHION_OPS_AMX=off,
// and a lowered isa(), leave them out.
bool amx();

// Its name: "avx512", "avx2" or "generic".
const char* isa_name();

}  // namespace fops
