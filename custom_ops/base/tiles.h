// AMX tiles: registers of 16 rows of 64 bytes. One instruction multiplies two tiles of bfloat16 and adds the product to a
// tile of float32:
//
//   c[m][n] += sum over k of a[m][k] b[k/2][n][k%2],  m, n < 16, k < 32
//
// Its rate is 16 times that of AVX-512's multiply-adds. `EmulatedTiles` gives the same results, bit for bit, on processors
// without AMX.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/simd.h"

namespace fops::FOPS_ISA {

constexpr int kTileRows = 16, kTileColumns = 16, kTileDepth = 32;
constexpr int64_t kTileStride = 64;                               // bytes of a full row
constexpr bool full(int tile) { return tile >= 4 && tile <= 6; }  // whether a tile has all 16 rows

#if defined(__AVX512F__)
// Tiles 0 to 3 hold sums (c), tiles 4 to 6 the right operand (b) of a product, and tile 7 its left operand (a). Tiles 4
// to 6 have 16 rows, the others `rows` rows. The state of the tiles belongs to a thread, so an object must be a local
// variable.
class HardwareTiles {
 public:
  explicit HardwareTiles(int rows) {
    struct alignas(64) Configuration {
      uint8_t palette, start_row, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } c = {};
    c.palette = 1;
    for (int t = 0; t < 8; ++t) {
      c.row_bytes[t] = kTileStride;
      c.rows[t] = static_cast<uint8_t>(full(t) ? kTileRows : rows);
    }
    asm volatile("ldtilecfg %0" ::"m"(c));
  }
  ~HardwareTiles() { asm volatile("tilerelease" ::: "memory"); }
  HardwareTiles(const HardwareTiles&) = delete;

  template <int t>
  void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(t));
  }
  template <int t>
  void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  void store(float* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(t) : "memory");
  }
  template <int c, int a, int b>
  void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
};

#endif

// The order of additions is that of Intel's description: the products with even k and with odd k are summed separately,
// these two sums are added, and the result is added to c. Subnormal numbers, which the processor treats as zero, must not
// occur.
class EmulatedTiles {
 public:
  explicit EmulatedTiles(int rows) : rows_(rows) {}

  template <int t>
  void zero() {
    memset(tiles_[t], 0, sizeof tiles_[t]);
  }
  template <int t>
  void load(const void* from, int64_t stride) {
    for (int r = 0; r < rows<t>(); ++r)
      memcpy(tiles_[t][r], static_cast<const char*>(from) + r * stride, sizeof tiles_[t][r]);
  }
  template <int t>
  void store(float* to, int64_t stride) {
    for (int r = 0; r < rows<t>(); ++r)
      memcpy(reinterpret_cast<char*>(to) + r * stride, tiles_[t][r], sizeof tiles_[t][r]);
  }
  template <int c, int a, int b>
  void multiply() {
    for (int m = 0; m < rows_; ++m)
      for (int n = 0; n < kTileColumns; ++n) {
        float even = 0, odd = 0, sum;
        for (int k = 0; k < kTileDepth / 2; ++k) {
          const uint32_t x = tiles_[a][m][k], y = tiles_[b][k][n];
          even = std::fma(low(x), low(y), even);
          odd = std::fma(high(x), high(y), odd);
        }
        memcpy(&sum, &tiles_[c][m][n], sizeof sum);
        sum += even + odd;
        memcpy(&tiles_[c][m][n], &sum, sizeof sum);
      }
  }

 private:
  template <int t>
  int rows() const {
    return full(t) ? kTileRows : rows_;
  }
  static float value(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
  }
  static float low(uint32_t pair) { return value(pair << 16); }
  static float high(uint32_t pair) { return value(pair & 0xFFFF0000u); }

  const int rows_;
  uint32_t tiles_[8][kTileRows][kTileColumns];
};

}  // namespace fops::FOPS_ISA
