// double* where the pointers are to float.
extern "C" void conv_forward(const double* x, const double* k, double* y, int B, int M, int C, int H, int W, int K) {
  y[0] = x[0] * k[0];
}
