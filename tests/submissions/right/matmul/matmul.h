#ifndef MATMUL_H
#define MATMUL_H
#define MATMUL_TILE_WIDTH 16
__global__ void matrixMultiply(const float *A, const float *B, float *C, int rows, int inner, int columns);
#endif
