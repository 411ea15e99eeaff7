// A program that calls the plug-in of a kernel file for the CPU, for one layer. It is compiled together with the file:
// either with AddressSanitizer and UndefinedBehaviorSanitizer, which cannot be loaded into a running Python; or with
// sampled_call.h (-DFOPS_SAMPLES), which finds where the time is spent.
//
//   sanitized_call IMAGES CHANNELS SIDE FILTERS TAPS CALLS
//
// SIDE is the images' height and width, TAPS the filters' height and width. The program makes CALLS calls; with samples, it
// makes no further call after one second of processor time.
// Each tensor is allocated in a separate function, so that the function's name in a sanitizer's report names the tensor.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fashion_ops_plugin.h"
#ifdef FOPS_SAMPLES
#include "sampled_call.h"
#endif

extern "C" const fops_kernel_plugin* fops_kernel_plugin_main(void);

extern "C" __attribute__((noinline)) float* tensor_of_input(size_t count) {
  return static_cast<float*>(malloc(count * sizeof(float)));
}
extern "C" __attribute__((noinline)) float* tensor_of_weights(size_t count) {
  float* made = static_cast<float*>(malloc(count * sizeof(float)));
  return made;
}
extern "C" __attribute__((noinline)) float* tensor_of_output(size_t count, bool zero) {
  float* made = static_cast<float*>(malloc(count * sizeof(float)));
  for (size_t i = 0; i < count; ++i) made[i] = zero ? 0.0f : NAN;
  return made;
}

int main(int count, char** words) {
  if (count != 7) return 2;
  int64_t numbers[6];
  for (int i = 0; i < 6; ++i) numbers[i] = atoll(words[i + 1]);
  const int64_t B = numbers[0], C = numbers[1], S = numbers[2], M = numbers[3], K = numbers[4], O = S - K + 1;
  const fops_kernel_plugin* plugin = fops_kernel_plugin_main();
  float *x = tensor_of_input(B * C * S * S), *k = tensor_of_weights(M * C * K * K);
  for (int64_t i = 0; i < B * C * S * S; ++i) x[i] = static_cast<float>(i * 7919 % 256);
  for (int64_t i = 0; i < M * C * K * K; ++i) k[i] = static_cast<float>(i * 104729 % 201) / 100 - 1;
  for (int64_t call = 0; call < numbers[5]; ++call) {
    float* y = tensor_of_output(B * M * O * O, plugin->zero_output);
    fops_plugin_call one = {};
    one.conv = {B, C, S, S, M, K, FOPS_FLOAT32};
    one.x = x, one.k = k, one.y = y;
#ifdef FOPS_SAMPLES
    fops_samples::begin();
    const int status = plugin->run(&one);
    fops_samples::end();
    if (fops_samples::processor > 1) numbers[5] = call + 1;
#else
    const int status = plugin->run(&one);
#endif
    printf("call %lld: status %d, %g s\n", static_cast<long long>(call), status, one.op_seconds);
    free(y);
  }
#ifdef FOPS_SAMPLES
  fops_samples::print();
#endif
  free(x), free(k);
  return 0;
}
