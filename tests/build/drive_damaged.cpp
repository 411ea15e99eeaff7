// Passes damaged networks and invalid convolutions to the C API, for the sanitizers; see test_sanitizers.py.
//
//   drive_damaged SEED COUNT
//
// Most rounds change nodes, attributes, links or the shape of a correct network in one to four places, and create it.
// The others check a convolution with random sizes. What the library accepts is run if its tensors are small. When it
// refuses, it must leave a message; otherwise the exit code is 1. The sanitizers report memory errors.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fashion_ops.h"

namespace {

constexpr double kLargest = 1 << 18;  // largest number of values per tensor in networks that are run

struct Node {
  std::string op, name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<int> inputs;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<int64_t> shape;
  std::string precision = "float32";
};

std::mt19937_64 source;

int below(size_t n) { return static_cast<int>(source() % n); }

template <typename T>
const T& one_of(const std::vector<T>& all) {
  return all[below(all.size())];
}

Graph whole() {
  return {{{"null", "data", {}, {}},
           {"null", "w0", {}, {}},
           {"New", "conv0", {{"kernel", "(5, 5)"}, {"num_filter", "7"}}, {0, 1}},
           {"Activation", "activation0", {{"act_type", "tanh"}}, {2}},
           {"Pooling", "pool0", {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pool_type", "max"}}, {3}},
           {"null", "w1", {}, {}},
           {"Convolution", "conv1", {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"no_bias", "True"}}, {4, 5}},
           {"Flatten", "flatten0", {}, {6}},
           {"null", "w2", {}, {}},
           {"null", "b2", {}, {}},
           {"FullyConnected", "dense0", {{"num_hidden", "10"}}, {7, 8, 9}},
           {"softmax", "softmax", {}, {10}}},
          {1, 20, 20}};
}

const std::vector<std::string> kOps = {"null", "New", "Convolution", "FullyConnected", "Activation", "tanh", "relu",
                                       "Pooling", "Flatten", "softmax", "SoftmaxOutput", "_Native", "", "Nöw",
                                       "BatchNorm", std::string(5000, 'o')};
const std::vector<std::string> kKeys = {"kernel", "num_filter", "stride", "pad", "dilate", "num_group", "no_bias",
                                        "layout", "num_hidden", "flatten", "act_type", "pool_type", "global_pool",
                                        "pooling_convention", "axis", "temperature", "", "__fops_node__", "unknown"};
const std::vector<std::string> kValues = {
    "", "0", "1", "2", "-1", "5", "(5, 5)", "(0, 0)", "(2, 2)", "(20, 20)", "(21, 21)", "(-3, -3)", "(5,", "5, 6",
    "(1, 2, 3)", "()", "None", "True", "False", "5.0", "1e9", "nan", "2147483647", "2147483648", "4294967296",
    "9223372036854775807", "99999999999999999999999", "-9223372036854775808", "(3037000500, 3037000500)", "NHWC",
    "full", "same", "avg", "relu", "%s%n%d", "\x1b[31m", "\xff\xfe", std::string(3000, '9'), std::string(70000, '(')};
const std::vector<int64_t> kSizes = {0, 1, 2, 3, 5, 9, 20, 28, -1, 1 << 20, INT64_C(1) << 31, INT64_C(1) << 40,
                                     INT64_MAX, INT64_MIN};

void damage(Graph* g) {
  Node& node = g->nodes[below(g->nodes.size())];
  switch (below(12)) {
    case 0: node.op = one_of(kOps); break;
    case 1: node.name = one_of(kValues); break;
    case 2: node.attributes.emplace_back(one_of(kKeys), one_of(kValues)); break;
    case 3:
    case 4:
    case 5:
      if (!node.attributes.empty()) node.attributes[below(node.attributes.size())].second = one_of(kValues);
      break;
    case 6:
      if (!node.attributes.empty()) node.attributes.erase(node.attributes.begin() + below(node.attributes.size()));
      break;
    case 7: node.inputs.push_back(below(g->nodes.size() + 4) - 2); break;
    case 8:
      if (!node.inputs.empty()) node.inputs[below(node.inputs.size())] = below(g->nodes.size() + 4) - 2;
      break;
    case 9:
      if (!node.inputs.empty()) node.inputs.pop_back();
      break;
    case 10:
      if (below(8) == 0) g->precision = one_of(kValues);
      else if (below(4) == 0) g->shape.push_back(one_of(kSizes));
      else if (g->shape.size() > 1 && below(4) == 0) g->shape.pop_back();
      else g->shape[below(g->shape.size())] = one_of(kSizes);
      break;
    default:  // duplicate or remove a node
      if (below(2)) g->nodes.insert(g->nodes.begin() + below(g->nodes.size()), Node(node));
      else if (g->nodes.size() > 1) g->nodes.erase(g->nodes.begin() + below(g->nodes.size()));
  }
}

// Runs an accepted network if its tensors are small. Returns whether they are.
bool run(fops_network* network, const Graph& g) {
  std::vector<std::vector<float>> values;
  double largest = 1;
  for (int i = 0; i < fops_network_input_count(network); ++i)
    largest = std::fmax(largest, static_cast<double>(fops_network_input_size(network, i)));
  fops_stage_info info = {};
  double outputs = 0;
  for (int i = 0; i < fops_network_stage_count(network); ++i) {
    if (fops_network_stage(network, i, &info)) abort();
    outputs = static_cast<double>(info.out[0]) * info.out[1] * info.out[2];
    largest = std::fmax(largest, outputs);
    largest = std::fmax(largest, static_cast<double>(info.in[0]) * info.in[1] * info.in[2]);
  }
  double item = 1;
  for (const int64_t size : g.shape) item *= static_cast<double>(size);
  largest = std::fmax(largest, item);
  if (largest > kLargest) return false;
  std::vector<const float*> pointers;
  std::vector<uint64_t> versions;
  for (int i = 0; i < fops_network_input_count(network); ++i) {
    const int64_t size = fops_network_input_size(network, i);
    values.emplace_back(static_cast<size_t>(size), 0.01f);
    pointers.push_back(size ? values.back().data() : nullptr);
    versions.push_back(1);
  }
  if (fops_network_set_weights(network, pointers.data(), versions.data())) return true;
  const int n = 1 + below(5);
  std::vector<uint8_t> pixels(static_cast<size_t>(item) * n, 7);
  std::vector<float> numbers(pixels.begin(), pixels.end()), out(static_cast<size_t>(outputs) * n);
  const bool wide = below(2);
  const void* data = wide ? static_cast<const void*>(numbers.data()) : pixels.data();
  fops_network_forward(network, n, data, wide ? FOPS_FLOAT32 : FOPS_UINT8, out.data(), below(2));
  return true;
}

bool silent() { return !*fops_last_error(); }

bool network_round(int* taken) {
  Graph g = whole();
  for (int i = below(4); i >= 0; --i) damage(&g);
  std::vector<fops_node> nodes;
  std::vector<std::vector<const char*>> keys(g.nodes.size()), values(g.nodes.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& from = g.nodes[i];
    for (const auto& attribute : from.attributes) {
      keys[i].push_back(attribute.first.c_str());
      values[i].push_back(attribute.second.c_str());
    }
    nodes.push_back({from.op.c_str(), from.name.c_str(), keys[i].data(), values[i].data(),
                     static_cast<int>(keys[i].size()), from.inputs.data(), static_cast<int>(from.inputs.size()),
                     static_cast<int32_t>(i)});
  }
  fops_network* network = nullptr;
  const fops_status status =
      fops_network_create(nodes.data(), static_cast<int>(nodes.size()), g.shape.data(),
                          static_cast<int>(g.shape.size()), FOPS_CPU, 0, g.precision.c_str(), &network);
  if (status) return !silent();
  *taken += run(network, g);
  fops_network_destroy(network);
  return true;
}

bool convolution_round(int* taken) {
  fops_conv conv = {1 + below(3), 1 + below(3), 8, 8, 1 + below(9), 1 + below(6), FOPS_FLOAT32};
  int64_t* sizes[] = {&conv.B, &conv.C, &conv.H, &conv.W, &conv.M, &conv.K};
  for (int i = below(3); i > 0; --i) *sizes[below(6)] = one_of(kSizes);
  if (below(10) == 0) conv.x_type = static_cast<fops_dtype>(below(2) ? 1 : 77);
  const std::string kernel = below(5) ? (below(2) ? "auto" : "naive") : one_of(kValues);
  const char* chosen = nullptr;
  if (fops_conv_check(FOPS_CPU, kernel.c_str(), &conv, &chosen)) return !silent();
  const double x = static_cast<double>(conv.B) * conv.C * conv.H * conv.W;
  const double k = static_cast<double>(conv.M) * conv.C * conv.K * conv.K;
  const double y = static_cast<double>(conv.B) * conv.M * (conv.H - conv.K + 1) * (conv.W - conv.K + 1);
  if (std::fmax(x, std::fmax(k, y)) > kLargest) return true;
  std::vector<float> data(static_cast<size_t>(x), 1.0f), weights(static_cast<size_t>(k), 1.0f),
      out(static_cast<size_t>(y));
  ++*taken;
  return !fops_conv_forward_cpu(kernel.c_str(), &conv, data.data(), weights.data(), out.data(), below(3) - 1) ||
         !silent();
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long seed = argc > 1 ? strtoul(argv[1], nullptr, 10) : 1;
  const long count = argc > 2 ? strtol(argv[2], nullptr, 10) : 1000;
  fops_set_threads(2);
  int taken = 0;
  for (long round = 0; round < count; ++round) {
    source.seed(seed + static_cast<unsigned long>(round));  // so that SEED + ROUND with COUNT 1 repeats a round
    if (below(4) ? !network_round(&taken) : !convolution_round(&taken)) {
      fprintf(stderr, "seed %lu: refused without a word\n", seed + static_cast<unsigned long>(round));
      return 1;
    }
  }
  printf("%ld damaged, %d of them run\n", count, taken);
  return taken > count / 50 ? 0 : 1;  // fails if almost all were refused: little would be tested
}
