#pragma once
void image(const float* x, const float* k, float* y, int b, int M, int C, int H, int W, int K);
