// Runs networks from several threads through the C API, for the sanitizers; see test_sanitizers.py. The exit code is 1
// if a call fails, or a network's output differs between two passes. Other tests check the values.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "fashion_ops.h"

namespace {

constexpr int kSide = 20;  // side of an image, large enough for a convolution and two pools of 4x4

// A network on 1x20x20 pixels: 7 filters of 5x5, the given activation, two pools with the given window, stride and
// convention, 33 units, the activation, 10 units, softmax.
struct Network {
  explicit Network(unsigned seed, const char* activation = "tanh", const char* window = "(2, 2)",
                   const char* stride = "(2, 2)", const char* convention = "valid")
      : random(seed) {
    static const char *kernel[] = {"kernel", "num_filter"}, *k55[] = {"(5, 5)", "7"}, *act[] = {"act_type"},
                      *units[] = {"num_hidden"}, *u33[] = {"33"}, *u10[] = {"10"},
                      *pool[] = {"kernel", "stride", "pooling_convention", "pool_type"};
    const char *act_type[] = {activation}, *pooled[] = {window, stride, convention, "max"};
    static const int conv_in[] = {0, 1}, act_in[] = {2}, pool_in[] = {3}, again_in[] = {4}, fc_in[] = {5, 6, 7},
                     act2_in[] = {8}, fc2_in[] = {9, 10, 11}, softmax_in[] = {12};
    const fops_node nodes[] = {
        {"null", "data", nullptr, nullptr, 0, nullptr, 0, 0},
        {"null", "w0", nullptr, nullptr, 0, nullptr, 0, 1},
        {"New", "conv", kernel, k55, 2, conv_in, 2, 2},
        {"Activation", "activation0", act, act_type, 1, act_in, 1, 3},
        {"Pooling", "pool0", pool, pooled, 4, pool_in, 1, 4},
        {"Pooling", "pool1", pool, pooled, 4, again_in, 1, 5},
        {"null", "w1", nullptr, nullptr, 0, nullptr, 0, 6},
        {"null", "b1", nullptr, nullptr, 0, nullptr, 0, 7},
        {"FullyConnected", "dense0", units, u33, 1, fc_in, 3, 8},
        {"Activation", "activation1", act, act_type, 1, act2_in, 1, 9},
        {"null", "w2", nullptr, nullptr, 0, nullptr, 0, 10},
        {"null", "b2", nullptr, nullptr, 0, nullptr, 0, 11},
        {"FullyConnected", "dense1", units, u10, 1, fc2_in, 3, 12},
        {"softmax", "softmax", nullptr, nullptr, 0, softmax_in, 1, 13},
    };
    const int64_t shape[] = {1, kSide, kSide};
    ok = fops_network_create(nodes, 14, shape, 3, FOPS_CPU, 0, "float32", &network) == FOPS_OK && set_weights(1);
  }
  ~Network() { fops_network_destroy(network); }

  bool set_weights(uint64_t version) {
    std::normal_distribution<float> normal(0, 0.01f);
    std::vector<std::vector<float>> values;
    std::vector<const float*> pointers;
    std::vector<uint64_t> versions;
    for (int i = 0; i < fops_network_input_count(network); ++i) {
      values.emplace_back(static_cast<size_t>(fops_network_input_size(network, i)));
      for (float& value : values.back()) value = normal(random);
      pointers.push_back(values.back().data());
      versions.push_back(version);
    }
    return fops_network_set_weights(network, pointers.data(), versions.data()) == FOPS_OK;
  }

  // Returns whether two passes over n images give the same scores, and the predicted classes have the largest ones.
  bool steady(int64_t n) {
    std::vector<uint8_t> pixels(static_cast<size_t>(n) * kSide * kSide);
    for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random());
    std::vector<float> first(static_cast<size_t>(n) * 10), second(first.size());
    return fops_network_forward(network, n, pixels.data(), FOPS_UINT8, first.data(), 1) == FOPS_OK &&
           fops_network_forward(network, n, pixels.data(), FOPS_UINT8, second.data(), 0) == FOPS_OK &&
           !memcmp(first.data(), second.data(), first.size() * sizeof(float)) && predicts(n, pixels, first);
  }

  bool predicts(int64_t n, const std::vector<uint8_t>& pixels, const std::vector<float>& scores) {
    std::vector<int32_t> classes(static_cast<size_t>(n));
    if (fops_network_predict(network, n, pixels.data(), FOPS_UINT8, classes.data()) != FOPS_OK) return false;
    for (int64_t i = 0; i < n; ++i) {
      const float* row = scores.data() + i * 10;
      if (classes[i] != std::max_element(row, row + 10) - row) return false;
    }
    return true;
  }

  std::mt19937 random;
  fops_network* network = nullptr;
  bool ok;
};

}  // namespace

int main() {
  fops_set_threads(3);
  std::vector<int> failed(3, 0);
  Network shared(99);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([t, &failed, &shared] {
      Network own(t);
      std::vector<uint8_t> pixels(50 * kSide * kSide, static_cast<uint8_t>(t));
      std::vector<float> out(50 * 10);
      failed[t] |= !own.ok;
      for (const int64_t n : {1, 5, 64, 700}) failed[t] |= !own.steady(n);
      failed[t] |= !own.set_weights(2) || !own.steady(70);
      const char *sides[] = {"(1, 1)", "(2, 2)", "(3, 3)", "(4, 4)"};
      for (int size = 0; size < 4; ++size)
        for (int stride = 0; stride < 4; ++stride)
          for (const char* convention : {"valid", "full"}) {
            if (convention[0] == 'f' && stride > size) continue;  // not fused
            Network each(t, "relu", sides[size], sides[stride], convention);
            failed[t] |= !each.ok || !each.steady(1) || !each.steady(9);
          }
      for (int i = 0; i < 5; ++i)  // one network from all threads
        failed[t] |= fops_network_forward(shared.network, 50, pixels.data(), FOPS_UINT8, out.data(), 1) != FOPS_OK;
      fops_set_threads(1 + t);
    });
  for (std::thread& thread : threads) thread.join();
  for (const int f : failed)
    if (f) {
      fprintf(stderr, "a network failed, or was not steady: %s\n", fops_last_error());
      return 1;
    }
  return 0;
}
