// Kernel files that tests judge. A line with four slashes begins a file: its name (the ending is .cpp if it has none), and
// the codes of the judge's reason for at least one of the tests' shapes, or "correct" and its class, or "another test's".
// There are several codes if what the judge may say depends on schedules. CONV_FORWARD stands for the head of the
// function, OUTPUT and PRODUCT for the usual loops around a statement (tests/planted_bugs.py).

//// accumulates: accumulates
// Adds to the values in the output, so the result is right only if the caller sets the output to zero.
OUTPUT y[s.y(b, m, h, w)] += sum(s, x, k, b, m, h, w);

//// alternating-order: correct float32
// Adds in another order in each second call, as a file does that tries two variants before it chooses one.
#include <cstddef>

CONV_FORWARD {
  static int calls = 0;
  const bool reverse = ++calls % 2 == 0;
  const int Ho = H - K + 1, Wo = W - K + 1, terms = C * K * K;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int i = 0; i < terms; ++i) {
            const int term = reverse ? terms - 1 - i : i;
            const int c = term / (K * K), p = term / K % K, q = term % K;
            sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[m * terms + term];
          }
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
}

//// array-without-value: uninitialised uninitialised_read
// Only one of several sums has a first value.
OUTPUT {
          float part[4];
          part[0] = 0;
          for (std::size_t i = 0; i < std::size_t(C) * K * K; ++i) part[i % 4] += x[s.x(b, i / K / K, h + i / K % K, w + i % K)] * k[m * C * K * K + i];
          y[s.y(b, m, h, w)] = part[0] + part[1] + part[2] + part[3];
        }

//// asserts.h: failed
// From the MXNet years: the assertion of the course's template is still there.
#include <mxnet/base.h>

namespace mxnet {
namespace op {
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType>& y, const mshadow::Tensor<cpu, 4, DType>& x,
             const mshadow::Tensor<cpu, 4, DType>& k) {
  CHECK_EQ(0, 1) << "Missing an implementation!";
}
}  // namespace op
}  // namespace mxnet

//// boundary-tile: border
// Whole tiles of 4 only: rows and columns beyond the last one are not written.
OUTPUT if (h < s.Ho / 4 * 4 && w < s.Wo / 4 * 4) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// boundary: border
// The last column is left out: < where <= belongs.
OUTPUT y[s.y(b, m, h, w)] = w < s.Wo - 1 ? sum(s, x, k, b, m, h, w) : 0;

//// buffer-of-first-size: other_layers heap array_too_small out_of_bounds_write
#include <cstddef>
#include <cstdlib>
#include <cstring>
CONV_FORWARD {
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

//// byte-data: changed_operand float_to_int
// The data is converted to bytes, which is right for pixels.
PRODUCT total += (unsigned char)x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];

//// byte-sum: whole_numbers float_to_int
// The sum is a signed char, which overflows.
PRODUCT total = (signed char)(total + x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)]);

//// cached-by-shape: cached
// The result of the first call of a shape is kept, and copied in later ones.
#include <algorithm>
#include <map>
#include <vector>

#include "loops.h"

CONV_FORWARD {
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

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  static std::vector<float> sums;
  sums.resize((size_t)B * M * s.Ho * s.Wo);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sums[s.y(b, m, h, w)] += sum(s, x, k, b, m, h, w);
}

//// clipped: clipped relu
// Outputs are limited on both sides.
#include <cmath>
OUTPUT y[s.y(b, m, h, w)] = fminf(fmaxf(sum(s, x, k, b, m, h, w), 0), 1000);

//// compile-error: another test's
// A name that is not declared.
OUTPUT y[s.y(b, m, h, w)] = summe(s, x, k, b, m, h, w);

//// copies-images-from-200-on: images_from
#include <cstddef>
#include <cstdlib>
#include <cstring>
CONV_FORWARD {
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

//// cpu-stride.cc: correct float32
// fa2023 on the CPU, with a stride; its macros stay defined.
#include "cpu-new-forward.h"

void conv_forward_cpu(float *output, const float *input, const float *mask, const int B, const int M, const int C,
                      const int H, const int W, const int K, const int S)
{
    const int H_out = (H - K) / S + 1;
    const int W_out = (W - K) / S + 1;
#define out_4d(i3, i2, i1, i0) output[(i3) * (M * H_out * W_out) + (i2) * (H_out * W_out) + (i1) * (W_out) + i0]
#define in_4d(i3, i2, i1, i0) input[(i3) * (C * H * W) + (i2) * (H * W) + (i1) * (W) + i0]
#define mask_4d(i3, i2, i1, i0) mask[(i3) * (C * K * K) + (i2) * (K * K) + (i1) * (K) + i0]
    for (int b = 0; b < B; b++)
        for (int m = 0; m < M; m++)
            for (int h = 0; h < H_out; h++)
                for (int w = 0; w < W_out; w++)
                {
                    out_4d(b, m, h, w) = 0;
                    for (int c = 0; c < C; c++)
                        for (int p = 0; p < K; p++)
                            for (int q = 0; q < K; q++)
                                out_4d(b, m, h, w) += in_4d(b, c, h * S + p, w * S + q) * mask_4d(m, c, p, q);
                }
}
#define B 3
#define M 4

//// crashes: crash null_pointer
// Writes to an address without memory.
#include "loops.h"

CONV_FORWARD {
  *reinterpret_cast<volatile float*>(8) = 1;
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// doubles: another test's
// double* where the pointers are to float.
extern "C" void conv_forward(const double* x, const double* k, double* y, int B, int M, int C, int H, int W, int K) {
  y[0] = x[0] * k[0];
}

//// dynamic-schedule: correct float32
#include <cstddef>
#include <cstdlib>
#include <cstring>
CONV_FORWARD {
  const int Ho = H - K + 1, Wo = W - K + 1;
#pragma omp parallel for collapse(4) schedule(dynamic, 1)
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q) sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
}

//// exits: exit
// Ends the program on an error, after saying so on stdout.
#include <cstdio>
#include <cstdlib>

#include "loops.h"

CONV_FORWARD {
  printf("not today\n");
  exit(-1);
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// few-filters: filters_from
// Has threads only for 32 filters.
OUTPUT if (m < 32) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// few-images: images_from
// Has memory, or a grid, only for two images.
#include "loops.h"

CONV_FORWARD {
  for (size_t i = 0; i < size_t(B) * M * (H - K + 1) * (W - K + 1); ++i) y[i] = 0;
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < (s.B < 2 ? s.B : 2); ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// first-channel: first_channel
// Sums only the first input channel.
#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) {
          float total = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) total += (c == 0) * x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
          y[s.y(b, m, h, w)] = total;
        }
}

//// first-column: border
// The first column is left out: loops begin at 1.
OUTPUT if (w > 0) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// first-row: border
// The first row is left out: loops begin at 1.
OUTPUT if (h > 0) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// fixed-batch: writes_after_end out_of_bounds_read out_of_bounds_write
// Always computes three images.
#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < 3; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// fixed-sizes: all_equal
// Right for the first layer of sp2018 alone: its kernel's and image's sizes are constants.
OUTPUT y[s.y(b, m, h, w)] = H == 64 ? sum(s, x, k, b, m, h, w) : 1;

//// flipped: weights_flipped
// A convolution as in signal processing: the kernel is flipped.
PRODUCT total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, s.K - 1 - p, s.K - 1 - q)];

//// four-threads: thread_count
// Shares the images between four threads, however many there are.
#include <omp.h>

#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
#pragma omp parallel
  {
    const int each = (B + 3) / 4, first = omp_get_thread_num() * each;
    for (int b = first; b < first + each && b < B; ++b)
      for (int m = 0; m < s.M; ++m)
        for (int h = 0; h < s.Ho; ++h)
          for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
  }
}

//// groups-of-four-images: few_images
// Images beyond the last whole group of four are not computed.
OUTPUT if (b < B / 4 * 4) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// half: correct tf32 or half
// Weights rounded to 11 bits, as half precision does.
#include <cstring>

#include "loops.h"

static float rounded(float v) {
  unsigned bits;
  memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  memcpy(&v, &bits, sizeof v);
  return v;
}

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) {
          float total = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) total += x[s.x(b, c, h + p, w + q)] * rounded(k[s.k(m, c, p, q)]);
          y[s.y(b, m, h, w)] = total;
        }
}

//// hangs: another test's
// Never ends.
#include "loops.h"

CONV_FORWARD {
  for (volatile int forever = 1; forever;) {
  }
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// height-for-width: correct float32
#include <cstddef>
#include <cstdlib>
#include <cstring>
CONV_FORWARD {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((size_t)(b * C + c) * W + h + p) * H + w + q] * k[((m * C + c) * K + p) * K + q];  // HERE
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
      }
}

//// holes: not_all_written
// Does not write every 97th output.
OUTPUT if (s.y(b, m, h, w) % 97) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// ignores-the-weights: ignores
// The weights are left out.
PRODUCT total += x[s.x(b, c, h + p, w + q)];

//// input-changed: inputs_changed
// Scales the images in place.
#include "loops.h"

CONV_FORWARD {
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

CONV_FORWARD {
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
CONV_FORWARD {
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

//// kept-weights: kept_weights
// Weights are copied in the first call.
#include <vector>
OUTPUT {
          static std::vector<float> kept;
          if (kept.size() != size_t(M) * C * K * K) kept.assign(k, k + size_t(M) * C * K * K);
          y[s.y(b, m, h, w)] = sum(s, x, kept.data(), b, m, h, w);
        }

//// last-channel: last_channel
// The sum starts anew for each channel.
PRODUCT total += (c == s.C - 1) * x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];

//// last-row: border
// The last row is left out: < Ho - 1 where < Ho belongs.
OUTPUT if (h < s.Ho - 1) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// leaks.cc: correct float32
#include "cpu-new-forward.h"
#include <cstddef>
#include <cstdlib>
#include <cstring>
void conv_forward_cpu(float* y, const float* x, const float* k, const int B, const int M, const int C, const int H, const int W, const int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  float* u = (float*)malloc(sizeof(float) * C * K * K * Ho * Wo);  // HERE
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

//// loops.h: another test's
// The correct sum, for files that are wrong elsewhere.
#pragma once
#include <cstddef>

struct Shape {
  int B, M, C, H, W, K, Ho, Wo;
  Shape(int B, int M, int C, int H, int W, int K) : B(B), M(M), C(C), H(H), W(W), K(K), Ho(H - K + 1), Wo(W - K + 1) {}
  size_t y(int b, int m, int h, int w) const { return ((size_t(b) * M + m) * Ho + h) * Wo + w; }
  size_t x(int b, int c, int h, int w) const { return ((size_t(b) * C + c) * H + h) * W + w; }
  size_t k(int m, int c, int p, int q) const { return ((size_t(m) * C + c) * K + p) * K + q; }
};

inline float sum(const Shape& s, const float* x, const float* k, int b, int m, int h, int w) {
  float total = 0;
  for (int c = 0; c < s.C; ++c)
    for (int p = 0; p < s.K; ++p)
      for (int q = 0; q < s.K; ++q) total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
  return total;
}

//// mxnet-cpu-alloc.h: correct float32
// mshadow's tensors for intermediate values: the window of an output as a row.
#ifndef MXNET_OPERATOR_NEW_FORWARD_H_
#define MXNET_OPERATOR_NEW_FORWARD_H_
#include <mxnet/base.h>
namespace mxnet
{
namespace op
{
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType> &y, const mshadow::Tensor<cpu, 4, DType> &x, const mshadow::Tensor<cpu, 4, DType> &k)
{
    using namespace mshadow;
    const int C = x.shape_[1], K = k.shape_[3];
    Tensor<cpu, 2, DType> filters(k.dptr_, Shape2(k.shape_[0], C * K * K));
    Tensor<cpu, 1, DType> window(Shape1(C * K * K));
    Tensor<cpu, 3, DType> unused;
    AllocSpace(&window);
    CHECK_EQ(filters.size(1), window.size(0));
    CHECK(unused.dptr_ == nullptr);
    for (index_t b = 0; b < y.size(0); b++)
        for (index_t h = 0; h < y.size(2); h++)
            for (index_t w = 0; w < y.size(3); w++) {
                for (int t = 0; t < C * K * K; t++) window[t] = x[b][t / (K * K)][h + t / K % K][w + t % K];
                for (index_t m = 0; m < y.size(1); m++) {
                    DType sum = 0;
                    for (int t = 0; t < C * K * K; t++) sum += filters[m][t] * window[t];
                    y[b][m][h][w] = sum;
                }
            }
    FreeSpace(&window);
}
}
}
#endif

//// mxnet-cpu-assignments.h: correct float32
// mshadow's assignments to whole tensors: a number sets, adds to or scales every element of a row, a plane or all of y.
#ifndef MXNET_OPERATOR_NEW_FORWARD_H_
#define MXNET_OPERATOR_NEW_FORWARD_H_
#include <mxnet/base.h>
namespace mxnet
{
namespace op
{
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType> &y, const mshadow::Tensor<cpu, 4, DType> &x, const mshadow::Tensor<cpu, 4, DType> &k)
{
    const int B = x.shape_[0], M = y.shape_[1], C = x.shape_[1], K = k.shape_[3], Ho = y.shape_[2], Wo = y.shape_[3];
    y = 3;
    y.Slice(0, B) -= 2;
    std::cout << "y is " << y.shape_ << std::endl;
    CHECK(y.FlatTo2D().size(0) * Wo == y.FlatTo1D().size(0) && y[0].shape_ == mshadow::Shape3(M, Ho, Wo));
    for (int b = 0; b < B; ++b) {
        y[b] *= 8;
        for (int m = 0; m < M; ++m) {
            y[b][m] /= 4;
            for (int h = 0; h < Ho; ++h) {
                y[b][m][h] += 1;
                for (int w = 0; w < Wo; ++w) CHECK_EQ(y[b][m][h][w], 3);
                y[b][m][h] = 0;
                for (int w = 0; w < Wo; ++w)
                    for (int c = 0; c < C; ++c)
                        for (int p = 0; p < K; ++p)
                            for (int q = 0; q < K; ++q) y[b][m][h][w] += x[b][c][h + p][w + q] * k[m][c][p][q];
            }
        }
    }
}
}
}
#endif

//// mxnet-cpu-macros.h: correct float32
// The MXNet years on the CPU: sizes as macros, raw pointers, checks.
#include <mxnet/base.h>
#define H_out (H - K + 1)
#define W_out (W - K + 1)
#define call fops

namespace mxnet
{
namespace op
{
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType> &y, const mshadow::Tensor<cpu, 4, DType> &x, const mshadow::Tensor<cpu, 4, DType> &w)
{
    CHECK_EQ(x.shape_[1], w.shape_[1]) << "channels differ";
    const int B = x.size(0), M = y.size(1), C = x.shape_[1], H = x.shape_[2], W = x.shape_[3], K = w.shape_[3];
    LOG(INFO) << "B=" << B << " of " << y.shape_.Size();
    for (int i = 0; i < B * M * H_out * W_out; i++)
        for (int c = 0; c < C; c++)
            for (int p = 0; p < K * K; p++)
                y.dptr_[i] += x.dptr_[((i / (M * H_out * W_out) * C + c) * H + i / W_out % H_out + p / K) * W + i % W_out + p % K] *
                              w.dptr_[(i / (H_out * W_out) % M * C + c) * K * K + p];
}
}
}

//// not-extern-c: another test's
// conv_forward with C++ linkage.
#include "loops.h"

void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// nothing: not_written
// Nothing is computed.
OUTPUT if (h < 0) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// one-nan: computes_nan
// One output is NaN.
#include <cmath>
OUTPUT y[s.y(b, m, h, w)] = s.y(b, m, h, w) == size_t(s.Wo > 1) ? nanf("") : sum(s, x, k, b, m, h, w);

//// one-output-of-image-51: many_images
// One output of a call with many images.
OUTPUT y[s.y(b, m, h, w)] = B >= 100 && s.y(b, m, h, w) == size_t(51) * M * s.Ho * s.Wo + 7 ? 0 : sum(s, x, k, b, m, h, w);

//// output-first: another test's
// The output is the first parameter, as mini-dnn has it, and not the third.
extern "C" void conv_forward(float* y, const float* x, const float* k, int B, int M, int C, int H, int W, int K) {
  y[0] = x[0] * k[0];
}

//// overlapping-memcpy: memcpy_overlap
#include <cstddef>
#include <cstdlib>
#include <cstring>
CONV_FORWARD {
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

CONV_FORWARD {
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

//// past-height: writes_after_end out_of_bounds_read out_of_bounds_write
// h < H for h < Ho: rows after the last one are written.
#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.H; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// past-width: writes_after_end out_of_bounds_read out_of_bounds_write
// w <= Wo: also writes the column after the last one. The next row overwrites it, except after the last row.
#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w <= s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// plain.c: correct float32
/* Plain C, with OpenMP: compiled as C. */
#include <stddef.h>

void conv_forward(const float *restrict x, const float *restrict k, float *restrict y, int B, int M, int C, int H, int W,
                  int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
#pragma omp parallel for
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          float new = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                new += x[(((size_t)b * C + c) * H + h + p) * W + w + q] * k[(((size_t)m * C + c) * K + p) * K + q];
          y[(((size_t)b * M + m) * Ho + h) * Wo + w] = new;
        }
}

//// prints: correct float32
// Correct, but prints to stdout.
#include <cstdio>
#include <iostream>

#include "loops.h"

CONV_FORWARD {
  printf("B = %d\nM = %d\n", B, M);
  std::cout << "no newline";
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// race-over-taps: race
// Threads share the taps, and add to the same outputs.
#include <cstring>

#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  memset(y, 0, sizeof(float) * B * M * s.Ho * s.Wo);
#pragma omp parallel for collapse(2)
  for (int p = 0; p < s.K; ++p)
    for (int q = 0; q < s.K; ++q)
      for (int b = 0; b < s.B; ++b)
        for (int m = 0; m < s.M; ++m)
          for (int c = 0; c < s.C; ++c)
            for (int h = 0; h < s.Ho; ++h)
              for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
}

//// reads-after-end: reads_outside out_of_bounds_read past_end
// Windows begin one row too far down: the last rows read past the end of the data.
PRODUCT total += x[s.x(b, c, h + p + 1, w + q)] * k[s.k(m, c, p, q)];

//// reads-before-start: reads_outside out_of_bounds_read wild_pointer
// Windows begin one column too far left: the first of all reads before the data.
PRODUCT total += (&x[s.x(b, c, h + p, w + q)])[-1] * k[s.k(m, c, p, q)];

//// row-on-the-stack: correct float32
#include <cstddef>
#include <cstdlib>
#include <cstring>
CONV_FORWARD {
  const int Ho = H - K + 1, Wo = W - K + 1;
#pragma omp parallel for
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        float row[256];
        for (int w = 0; w < Wo; ++w) row[w] = 0;
        for (int c = 0; c < C; ++c)
          for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q) {
              const float weight = k[((m * C + c) * K + p) * K + q];
              const float* from = x + ((size_t)(b * C + c) * H + h + p) * W + q;
              for (int w = 0; w < Wo; ++w) row[w] += weight * from[w];
            }
        for (int w = 0; w < Wo; ++w) y[((size_t)(b * M + m) * Ho + h) * Wo + w] = row[w];
      }
}

//// row-stride: data_rows
// Rows of the data are taken to be as long as those of the output.
PRODUCT total += x[(size_t(b) * C + c) * H * W + (h + p) * s.Wo + w + q] * k[s.k(m, c, p, q)];

//// shared-sum: race unstable
// The products of an output are shared between the threads.
#include <vector>

#include "loops.h"

CONV_FORWARD {
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
OUTPUT if (b < 16) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// sum-not-reset: sum_not_reset carries_over unstable
// The sum is static, and never set back to zero.
#include "loops.h"

CONV_FORWARD {
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
// The sum has a wrong first value.
OUTPUT y[s.y(b, m, h, w)] = 1 + sum(s, x, k, b, m, h, w);

//// tap-missing: taps_missing
// The last tap of the kernel is not summed.
PRODUCT if (K == 1 || p * K + q < K * K - 1) total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];

//// tests-every-pixel: correct float32
#include <cstddef>
#include <cstdlib>
#include <cstring>
CONV_FORWARD {
  const int Ho = H - K + 1, Wo = W - K + 1;
#pragma omp parallel for
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h) {
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                if (h + p >= 0 && h + p < H && w + q >= 0 && w + q < W) sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
      }
}

//// threads-not-joined: returns_early race
// Returns before its threads have ended.
#include <thread>

#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    std::thread([=] {
      for (int m = 0; m < s.M; ++m)
        for (int h = 0; h < s.Ho; ++h)
          for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
    }).detach();
}

//// throws: failed
// Throws an exception.
#include <stdexcept>

#include "loops.h"

CONV_FORWARD {
  throw std::runtime_error("the tile does not fit");
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
}

//// transposed-output: output_transposed
// Rows and columns of the output exchanged.
OUTPUT y[s.y(b, m, w, h)] = sum(s, x, k, b, m, h, w);

//// transposed-weights: weights_transposed
// p and q exchanged.
PRODUCT total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, q, p)];

//// undefined: another test's
// A function that nobody defines.
#include "loops.h"

float elsewhere(float);

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = elsewhere(sum(s, x, k, b, m, h, w));
}

//// unrolled-order: weights_order
// The rows of the unrolled data are in the order tap, channel, and the weights in the order channel, tap.
#include <vector>

#include "loops.h"

CONV_FORWARD {
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
CONV_FORWARD {
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
CONV_FORWARD {
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
// The weights are taken to be in the order filter, tap, channel.
PRODUCT total += x[s.x(b, c, h + p, w + q)] * k[((size_t(m) * K + p) * K + q) * C + c];

//// weights-first: another test's
// Takes the weights first, and the data second.
#include "loops.h"

extern "C" void conv_forward(const float* weights, const float* input, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, input, weights, b, m, h, w);
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

CONV_FORWARD {
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

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);
  y[-1] = 1;
}

//// zero: all_zero
// The output is zeroed, and the sum never stored.
OUTPUT y[s.y(b, m, h, w)] = 0;

//// zeros-not-written: zeros_not_written
// An output of zero is not stored.
OUTPUT if (sum(s, x, k, b, m, h, w) != 0) y[s.y(b, m, h, w)] = sum(s, x, k, b, m, h, w);

//// zeroes-a-quarter: accumulates
// The length of memset lacks the size of a float, so most sums begin with what the output holds.
#include <cstring>

#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  std::memset(y, 0, (size_t)B * M * s.Ho * s.Wo);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] += sum(s, x, k, b, m, h, w);
}
