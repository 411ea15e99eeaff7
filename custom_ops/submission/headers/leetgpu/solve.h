// The header that LeetGPU's files of 2025 include. It declares the function that they define, with C linkage.
#ifndef SOLVE_H_
#define SOLVE_H_
extern "C" void solve(const float* input, const float* kernel, float* output, int input_rows, int input_cols,
                      int kernel_rows, int kernel_cols);
#endif
