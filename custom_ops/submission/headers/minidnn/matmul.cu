// The matrix product that matmul.h declares. Tiles of A and B are in shared memory, and each thread computes a value of C.
#include "matmul.h"

__global__ void matrixMultiplyShared(const float* A, const float* B, float* C, int numARows, int numAColumns,
                                     int numBRows, int numBColumns, int numCRows, int numCColumns) {
  __shared__ float a[MATMUL_TILE_WIDTH][MATMUL_TILE_WIDTH], b[MATMUL_TILE_WIDTH][MATMUL_TILE_WIDTH];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * MATMUL_TILE_WIDTH + y, column = blockIdx.x * MATMUL_TILE_WIDTH + x;
  float sum = 0;
  for (int first = 0; first < numAColumns; first += MATMUL_TILE_WIDTH) {
    a[y][x] = row < numARows && first + x < numAColumns ? A[(size_t)row * numAColumns + first + x] : 0;
    b[y][x] = column < numBColumns && first + y < numBRows ? B[(size_t)(first + y) * numBColumns + column] : 0;
    __syncthreads();
    for (int i = 0; i < MATMUL_TILE_WIDTH; ++i) sum += a[y][i] * b[i][x];
    __syncthreads();
  }
  if (row < numCRows && column < numCColumns) C[(size_t)row * numCColumns + column] = sum;
}
