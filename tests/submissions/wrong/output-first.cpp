// The output is the first parameter, as mini-dnn has it, and not the third.
extern "C" void conv_forward(float* y, const float* x, const float* k, int B, int M, int C, int H, int W, int K) {
  y[0] = x[0] * k[0];
}
