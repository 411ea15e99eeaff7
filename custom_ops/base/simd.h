// Vector types and operations (GCC's vector extension) for the instruction set that a *_simd.cpp file is compiled for.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(FOPS_NEON)
#include <arm_neon.h>
#endif

namespace fops::FOPS_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kVectorBytes = kLanes * 4;

// Whether there are 32 vector registers; otherwise there are 16.
#if defined(__AVX512F__) || defined(FOPS_NEON)
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

typedef float Vector __attribute__((vector_size(kVectorBytes), may_alias));
typedef int32_t IntVector __attribute__((vector_size(kVectorBytes), may_alias));
typedef float UnalignedVector __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));

static inline Vector load(const float* p) { return *reinterpret_cast<const UnalignedVector*>(p); }
static inline void store(float* p, Vector v) { *reinterpret_cast<UnalignedVector*>(p) = v; }

// load_lanes(v, lanes_from(first), p) returns `v` with the lanes from `first` on loaded from p. Used only if
// kMaskedLoads, with AVX-512: with AVX2 a second load and a blend take longer than the copies that `direct` makes.
#if defined(__AVX512F__)
constexpr bool kMaskedLoads = true;
typedef __mmask16 Lanes;
static inline Lanes lanes_from(int first) { return static_cast<Lanes>(0xffffu << first); }
static inline Vector load_lanes(Vector v, Lanes which, const float* p) { return _mm512_mask_loadu_ps(v, which, p); }
#else
constexpr bool kMaskedLoads = false;
typedef int Lanes;
static inline Lanes lanes_from(int first) { return first; }
static inline Vector load_lanes(Vector v, Lanes, const float*) { return v; }
#endif

// a * b + c, rounded once (in the generic set twice) and in the same way wherever it is used. Sums use this function
// and not an expression, because the compiler fuses some expressions and not others: an item's result would then depend
// on the tile that computes it, and thereby on the other items.
static inline Vector multiply_add(Vector a, float b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, _mm512_set1_ps(b), c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, _mm256_set1_ps(b), c);
#elif defined(FOPS_NEON)
  return vfmaq_n_f32(c, a, b);
#else
  return c + a * b;
#endif
}

}  // namespace fops::FOPS_ISA
