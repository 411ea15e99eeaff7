#include "matmul.h"

// C = AB. Each layer of the grid has its own B and C.
__global__ void matrixMultiply(const float *A, const float *B, float *C, int rows, int inner, int columns)
{
    __shared__ float a[MATMUL_TILE_WIDTH][MATMUL_TILE_WIDTH], b[MATMUL_TILE_WIDTH][MATMUL_TILE_WIDTH];
    const int ty = threadIdx.y, tx = threadIdx.x;
    const int row = blockIdx.y * MATMUL_TILE_WIDTH + ty, column = blockIdx.x * MATMUL_TILE_WIDTH + tx;
    B += (size_t)blockIdx.z * inner * columns;
    C += (size_t)blockIdx.z * rows * columns;
    float sum = 0;
    for (int first = 0; first < inner; first += MATMUL_TILE_WIDTH)
    {
        a[ty][tx] = row < rows && first + tx < inner ? A[row * inner + first + tx] : 0;
        b[ty][tx] = first + ty < inner && column < columns ? B[(first + ty) * columns + column] : 0;
        __syncthreads();
        for (int i = 0; i < MATMUL_TILE_WIDTH; i++) sum += a[ty][i] * b[i][tx];
        __syncthreads();
    }
    if (row < rows && column < columns) C[row * columns + column] = sum;
}
