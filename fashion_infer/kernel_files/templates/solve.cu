// Template for LeetGPU's 2D convolution of arrays in device memory:
// output[i][j] = sum over p,q of input[i+p][j+q] * kernel[p][q].
#include <cuda_runtime.h>

__global__ void convolve(const float* input, const float* kernel, float* output, int input_rows, int input_cols,
                         int kernel_rows, int kernel_cols) {
  const int rows = input_rows - kernel_rows + 1, cols = input_cols - kernel_cols + 1;
  const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows || j >= cols) return;
  float sum = 0;
  for (int p = 0; p < kernel_rows; ++p)
    for (int q = 0; q < kernel_cols; ++q) sum += input[(i + p) * input_cols + j + q] * kernel[p * kernel_cols + q];
  output[i * cols + j] = sum;
}

extern "C" void solve(const float* input, const float* kernel, float* output, int input_rows, int input_cols,
                      int kernel_rows, int kernel_cols) {
  const int rows = input_rows - kernel_rows + 1, cols = input_cols - kernel_cols + 1;
  const dim3 block(16, 16), grid((cols + 15) / 16, (rows + 15) / 16);
  convolve<<<grid, block>>>(input, kernel, output, input_rows, input_cols, kernel_rows, kernel_cols);
}
