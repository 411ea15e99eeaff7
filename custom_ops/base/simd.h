// Vectors of the instruction set that a *_simd.cpp file is being compiled for, by GCC's vector extension.
#pragma once

#include <cstdint>

namespace fops {
namespace FOPS_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kVectorBytes = kLanes * 4;

typedef float Vector __attribute__((vector_size(kVectorBytes), may_alias));
typedef int32_t IntVector __attribute__((vector_size(kVectorBytes), may_alias));
typedef float UnalignedVector __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));

static inline Vector load(const float* p) { return *reinterpret_cast<const UnalignedVector*>(p); }
static inline void store(float* p, Vector v) { *reinterpret_cast<UnalignedVector*>(p) = v; }

}  // namespace FOPS_ISA
}  // namespace fops
