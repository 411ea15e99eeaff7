// Drives networks of the C API from several threads, for the sanitizers; see test_sanitizers.py. Exit code 1 when a
// network's output differs from one pass to the next: what it should be is tested elsewhere.
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "fashion_ops.h"

namespace {

// 1x14x14 pixels, 7 filters of 5x5, tanh, pool, 33 units, tanh, 10 units, softmax.
struct Network {
  explicit Network(unsigned seed) : random(seed) {
    static const char *kernel[] = {"kernel", "num_filter"}, *k55[] = {"(5, 5)", "7"}, *act[] = {"act_type"},
                      *tanh[] = {"tanh"}, *units[] = {"num_hidden"}, *u33[] = {"33"}, *u10[] = {"10"},
                      *pool[] = {"kernel", "stride", "pool_type"}, *p22[] = {"(2, 2)", "(2, 2)", "max"};
    static const int conv_in[] = {0, 1}, act_in[] = {2}, pool_in[] = {3}, fc_in[] = {4, 5, 6}, act2_in[] = {7},
                     fc2_in[] = {8, 9, 10}, softmax_in[] = {11};
    const fops_node nodes[] = {
        {"null", "data", nullptr, nullptr, 0, nullptr, 0, 0},
        {"null", "w0", nullptr, nullptr, 0, nullptr, 0, 1},
        {"New", "conv", kernel, k55, 2, conv_in, 2, 2},
        {"Activation", "tanh0", act, tanh, 1, act_in, 1, 3},
        {"Pooling", "pool", pool, p22, 3, pool_in, 1, 4},
        {"null", "w1", nullptr, nullptr, 0, nullptr, 0, 5},
        {"null", "b1", nullptr, nullptr, 0, nullptr, 0, 6},
        {"FullyConnected", "dense0", units, u33, 1, fc_in, 3, 7},
        {"Activation", "tanh1", act, tanh, 1, act2_in, 1, 8},
        {"null", "w2", nullptr, nullptr, 0, nullptr, 0, 9},
        {"null", "b2", nullptr, nullptr, 0, nullptr, 0, 10},
        {"FullyConnected", "dense1", units, u10, 1, fc2_in, 3, 11},
        {"softmax", "softmax", nullptr, nullptr, 0, softmax_in, 1, 12},
    };
    const int64_t shape[] = {1, 14, 14};
    ok = fops_network_create(nodes, 13, shape, 3, FOPS_CPU, 0, "float32", &network) == FOPS_OK && set_weights(1);
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

  // n items, twice: the same both times.
  bool steady(int64_t n) {
    std::vector<uint8_t> pixels(static_cast<size_t>(n) * 14 * 14);
    for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random());
    std::vector<float> first(static_cast<size_t>(n) * 10), second(first.size());
    return fops_network_forward(network, n, pixels.data(), FOPS_UINT8, first.data(), 1) == FOPS_OK &&
           fops_network_forward(network, n, pixels.data(), FOPS_UINT8, second.data(), 0) == FOPS_OK &&
           !memcmp(first.data(), second.data(), first.size() * sizeof(float));
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
      std::vector<uint8_t> pixels(50 * 14 * 14, static_cast<uint8_t>(t));
      std::vector<float> out(50 * 10);
      failed[t] |= !own.ok;
      for (const int64_t n : {1, 5, 64, 700}) failed[t] |= !own.steady(n);
      failed[t] |= !own.set_weights(2) || !own.steady(70);
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
