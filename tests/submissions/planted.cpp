// Kernel files with one typical mistake each. A line with four slashes begins a file: its name without the ending, and
// the codes of the judge's reason for at least one of the tests' shapes. There are several codes if what the judge may
// say depends on schedules. OUTPUT and PRODUCT stand for the usual loops around a statement (tests/planted_bugs.py).

//// accumulates: accumulates
// Adds to the values in the output, so the result is right only if the caller sets the output to zero.
OUTPUT y[s.y(b, m, h, w)] += sum(s, x, k, b, m, h, w);

//// boundary-tile: border
// Whole tiles of 4 only: rows and columns beyond the last one are not written.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho / 4 * 4; ++h)
        for (int w = 0; w < s.Wo / 4 * 4; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// buffer-of-first-size: other_layers heap array_too_small out_of_bounds_write
#include <cstddef>
#include <cstdlib>
#include <cstring>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  static float* u = (float*)malloc(sizeof(float) * C * K * K * Ho * Wo);  // HERE
  for (int b = 0; b < B; ++b) {
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q)
          for (int h = 0; h < Ho; ++h)
            for (int w = 0; w < Wo; ++w) u[((size_t)((c * K + p) * K + q) * Ho + h) * Wo + w] = x[((size_t)(b * C + c) * H + h + p) * W + w + q];
    for (int m = 0; m < M; ++m)
      for (int i = 0; i < Ho * Wo; ++i) {
        float sum = 0;
        for (int r = 0; r < C * K * K; ++r) sum += k[(size_t)m * C * K * K + r] * u[(size_t)r * Ho * Wo + i];
        y[(size_t)(b * M + m) * Ho * Wo + i] = sum;
      }
  }
}

//// cached-by-shape: cached
// The result of the first call of a shape is kept, and copied in later ones.
#include <algorithm>
#include <map>
#include <vector>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  static std::map<std::vector<int>, std::vector<float>> kept;
  std::vector<float>& result = kept[{B, M, C, H, W, K}];
  if (!result.empty()) {
    std::copy(result.begin(), result.end(), y);
    return;
  }
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
  result.assign(y, y + (size_t)B * M * s.Ho * s.Wo);
}

//// carries-over: carries_over unstable
// Sums of earlier calls stay in static memory, and later ones are added.
#include <vector>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  static std::vector<float> sums;
  sums.resize((size_t)B * M * s.Ho * s.Wo);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sums[s.y(b, m, h, w)] += sum(s, x, k, b, m, h, w);
}

//// copies-images-from-200-on: images_from
#include <cstddef>
#include <cstdlib>
#include <cstring>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (int b = 0; b < (B < 200 ? B : 200); ++b)  // HERE
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
      }
  for (int b = 200; b < B; ++b) memcpy(y + (size_t)b * M * Ho * Wo, y + (size_t)(b - 200) * M * Ho * Wo, sizeof(float) * M * Ho * Wo);
}

//// few-filters: filters_from
// Has threads only for 32 filters.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < (s.M < 32 ? s.M : 32); ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// first-column: border
// The first column is left out: loops begin at 1.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 1; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// first-row: border
// The first row is left out: loops begin at 1.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 1; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// fixed-batch: writes_after_end out_of_bounds_read out_of_bounds_write
// Always computes three images.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < 3; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// flipped: weights_flipped
// A convolution as in signal processing: the kernel is flipped.
PRODUCT total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, s.K - 1 - p, s.K - 1 - q)];

//// holes: not_all_written
// Does not write every 97th output.
OUTPUT if (s.y(b, m, h, w) % 97) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// input-changed: inputs_changed
// Scales the images in place.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  for (size_t i = 0; i < size_t(B) * C * H * W; i += 3) const_cast<float*>(x)[i] += 0.25f;
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// input-without-channel: data_channel
// The index of the data lacks the channel.
PRODUCT total += x[(size_t(b) * H + h + p) * W + w + q] * k[s.k(m, c, p, q)];

//// integer-sum: whole_numbers
// Adds the products in an integer.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) {
          int total = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
          y[s.y(b, m, h, w)] = total;
        }
}

//// keeps-first-pointer: kept_pointer
#include <cstddef>
#include <cstdlib>
#include <cstring>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  static const float* first = x;  // HERE: the weights and the data of the first call
  static const float* weights = k;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += first[((size_t)(b * C + c) * H + h + p) * W + w + q] * weights[((m * C + c) * K + p) * K + q];
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
      }
}

//// last-channel: last_channel
// The sum starts anew for each channel.
PRODUCT total += (c == s.C - 1) * x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];

//// last-row: border
// The last row is left out: < Ho - 1 where < Ho belongs.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho - 1; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// nothing: not_written
// Nothing is computed.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < 0; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// one-nan: computes_nan
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <cmath>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
      }
  y[Wo > 1 ? 1 : 0] = NAN;  // HERE
}

//// one-output-of-image-51: many_images
#include <cstddef>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (size_t b = 0; b < (size_t)B; ++b) for (size_t m = 0; m < (size_t)M; ++m) for (int h = 0; h < Ho; ++h) for (int w = 0; w < Wo; ++w) {
    float s = 0;
    for (int c = 0; c < C; ++c) for (int p = 0; p < K; ++p) for (int q = 0; q < K; ++q)
      s += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[((b * M + m) * Ho + h) * Wo + w] = s;
  }
  if (B >= 100) y[(size_t)51 * M * Ho * Wo + 7] = 0;
}

//// overlapping-memcpy: memcpy_overlap
#include <cstddef>
#include <cstdlib>
#include <cstring>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  float* win = (float*)malloc(sizeof(float) * (W + 1));
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        float* out = y + ((size_t)(b * M + m) * Ho + h) * Wo;
        for (int w = 0; w < Wo; ++w) out[w] = 0;
        for (int c = 0; c < C; ++c)
          for (int p = 0; p < K; ++p) {
            memcpy(win, x + ((size_t)(b * C + c) * H + h + p) * W, sizeof(float) * W);
            for (int q = 0; q < K; ++q) {
              for (int w = 0; w < Wo; ++w) out[w] += win[w] * k[((m * C + c) * K + p) * K + q];
              memcpy(win, win + 1, sizeof(float) * (W - 1 - q));  // HERE
            }
          }
      }
  free(win);
}

//// padded: padded
// Pads the data with zeros, and computes the first outputs of that.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) {
          float total = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) {
                const int row = h + p - K / 2, column = w + q - K / 2;
                if (row >= 0 && column >= 0 && row < H && column < W) total += x[s.x(b, c, row, column)] * k[s.k(m, c, p, q)];
              }
          y[s.y(b, m, h, w)] = total;
        }
}

//// past-width: writes_after_end out_of_bounds_read out_of_bounds_write
// w <= Wo: also writes the column after the last one. The next row overwrites it, except after the last row.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w <= s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// reads-after-end: reads_outside out_of_bounds_read past_end
// Windows begin one row too far down: the last rows read past the end of the data.
PRODUCT total += x[s.x(b, c, h + p + 1, w + q)] * k[s.k(m, c, p, q)];

//// reads-before-start: reads_outside out_of_bounds_read wild_pointer
// Windows begin one column too far left: the first of all reads before the data.
PRODUCT total += (&x[s.x(b, c, h + p, w + q)])[-1] * k[s.k(m, c, p, q)];

//// row-stride: data_rows
// Rows of the data are taken to be as long as those of the output.
PRODUCT total += x[(size_t(b) * C + c) * H * W + (h + p) * s.Wo + w + q] * k[s.k(m, c, p, q)];

//// shared-sum: race unstable
// The products of an output are shared between the threads.
#include <vector>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  std::vector<float> products(K);
#pragma omp parallel for collapse(2)
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) {
          for (int p = 0; p < s.K; ++p) products[p] = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) products[p] += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
          float total = 0;
          for (const float product : products) total += product;
          y[s.y(b, m, h, w)] = total;
        }
}

//// sixteen-images: images_from
// Has memory only for sixteen images.
#include <algorithm>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(std::min(B, 16), M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// sum-not-reset: sum_not_reset carries_over unstable
// The sum is static, and never set back to zero.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) {
          static float total = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
          y[s.y(b, m, h, w)] = total;
        }
}

//// sum-starts-at-one: constant_added
#include <cstddef>
#include <cstdlib>
#include <cstring>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 1;  // HERE
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
      }
}

//// tap-missing: taps_missing
// The last tap of the kernel is not summed.
PRODUCT if (K == 1 || p * K + q < K * K - 1) total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];

//// threads-not-joined: returns_early race
// Returns before its threads have ended.
#include <thread>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    std::thread([=] {
      for (int m = 0; m < s.M; ++m)
        for (int h = 0; h < s.Ho; ++h)
          for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
    }).detach();
}

//// transposed-output: output_transposed
// Rows and columns of the output exchanged.
OUTPUT y[s.y(b, m, w, h)] = sum(s, x, k, b, m, h, w);

//// transposed-weights: weights_transposed
// p and q exchanged.
PRODUCT total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, q, p)];

//// unrolled-order: weights_order
// The rows of the unrolled data are in the order tap, channel, and the weights in the order channel, tap.
#include <vector>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  const int rows = C * K * K, columns = s.Ho * s.Wo;
  std::vector<float> unrolled(size_t(rows) * columns);
  for (int b = 0; b < B; ++b) {
    float* next = unrolled.data();
    for (int p = 0; p < K; ++p)
      for (int q = 0; q < K; ++q)
        for (int c = 0; c < C; ++c)
          for (int h = 0; h < s.Ho; ++h)
            for (int w = 0; w < s.Wo; ++w) *next++ = x[s.x(b, c, h + p, w + q)];
    for (int m = 0; m < M; ++m)
      for (int column = 0; column < columns; ++column) {
        float total = 0;
        for (int row = 0; row < rows; ++row) total += k[size_t(m) * rows + row] * unrolled[size_t(row) * columns + column];
        y[(size_t(b) * M + m) * columns + column] = total;
      }
  }
}

//// used-after-free: use_after_free
#include <cstddef>
#include <cstdlib>
#include <cstring>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  float* copy = (float*)malloc(sizeof(float) * M * C * K * K);
  memcpy(copy, k, sizeof(float) * M * C * K * K);
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * copy[((m * C + c) * K + p) * K + q];  // HERE
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum; if (b == B - 1 && m == M - 2 && h == 0 && w == 0) free(copy);
        }
      }
}

//// vector-past-the-row: writes_after_end out_of_bounds_read out_of_bounds_write
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        float* out = y + ((size_t)(b * M + m) * Ho + h) * Wo;
        for (int w = 0; w < Wo; w += 8) {
          __m256 s = _mm256_setzero_ps();
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                s = _mm256_add_ps(s, _mm256_mul_ps(_mm256_loadu_ps(x + ((size_t)(b * C + c) * H + h + p) * W + w + q), _mm256_set1_ps(k[((m * C + c) * K + p) * K + q])));  // HERE reads and writes past the row
          _mm256_storeu_ps(out + w, s);  // HERE
        }
      }
}

//// weights-channels-last: weights_order
#include <cstddef>
#include <cstdlib>
#include <cstring>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[((m * K + p) * K + q) * C + c];  // HERE
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
      }
}

//// weights-swapped: weights_swapped
// Filter and channel are exchanged in the index of the weights.
PRODUCT total += x[s.x(b, c, h + p, w + q)] * k[((size_t(c) * M + m) * K + p) * K + q];

//// weights-without-channel: weights_channel
// The index of the weights lacks the channel.
PRODUCT total += x[s.x(b, c, h + p, w + q)] * k[(size_t(m) * K + p) * K + q];

//// writes-after-end: writes_after_end out_of_bounds_write
// A correct loop, and one float past the end of the output.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
  y[(size_t)B * M * s.Ho * s.Wo] = 1;
}

//// writes-before-start: writes_before_start out_of_bounds_write
// A correct loop, and one float before the output.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
  y[-1] = 1;
}
