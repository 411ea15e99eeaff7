// The matrix product that the course supplies since sp2025, with its name, parameters and tile width.
#ifndef SRC_LAYER_MATMUL_H
#define SRC_LAYER_MATMUL_H

#define MATMUL_TILE_WIDTH 16

// C = A * B, all in rows. Launch it with blocks of MATMUL_TILE_WIDTH x MATMUL_TILE_WIDTH threads that cover C.
__global__ void matrixMultiplyShared(const float* A, const float* B, float* C, int numARows, int numAColumns,
                                     int numBRows, int numBColumns, int numCRows, int numCColumns);

#endif
