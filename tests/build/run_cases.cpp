// Reads requests from stdin, runs them through the C API, and writes answers to stdout; see Emulated. It is for a
// library of another architecture, which Python cannot load. Numbers have 64 bits; strings and arrays follow their
// length. An answer is a status and an array of floats, or if the status is not 0, the error message.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fashion_ops.h"

namespace {

void read(void* to, size_t bytes) {
  if (bytes && fread(to, 1, bytes, stdin) != bytes) exit(0);  // end of input, maybe within a request
}

int64_t number() {
  int64_t value;
  read(&value, sizeof value);
  return value;
}

template <typename T>
std::vector<T> array() {
  std::vector<T> values(static_cast<size_t>(number()));
  read(values.data(), values.size() * sizeof(T));
  return values;
}

std::string text() {
  const std::vector<char> letters = array<char>();
  return {letters.begin(), letters.end()};
}

void answer(int64_t status, const std::vector<float>& y) {
  const std::string message = fops_last_error();
  const int64_t size = static_cast<int64_t>(status ? message.size() : y.size());
  fwrite(&status, sizeof status, 1, stdout);
  fwrite(&size, sizeof size, 1, stdout);
  if (status)
    fwrite(message.data(), 1, message.size(), stdout);
  else
    fwrite(y.data(), sizeof(float), y.size(), stdout);
  fflush(stdout);
}

void convolution() {
  const std::string kernel = text();
  fops_conv c;
  for (int64_t* size : {&c.B, &c.C, &c.H, &c.W, &c.M, &c.K}) *size = number();
  c.x_type = static_cast<fops_dtype>(number());
  const std::vector<char> x = array<char>();
  const std::vector<float> k = array<float>();
  std::vector<float> y(static_cast<size_t>(c.B * c.M * (c.H - c.K + 1) * (c.W - c.K + 1)));
  answer(fops_conv_forward_cpu(kernel.c_str(), &c, x.data(), k.data(), y.data(), FOPS_NOT_LOGGED), y);
}

// A request has the shape, the nodes, the weights of each input, and batches: threads, images, type and values.
void network() {
  struct Node {
    std::string op, name;
    std::vector<std::string> words;  // keys, then values
    std::vector<const char*> attributes;
    std::vector<int32_t> inputs;
  };
  const std::vector<int64_t> shape = array<int64_t>();
  std::vector<Node> kept(static_cast<size_t>(number()));
  std::vector<fops_node> nodes;
  for (Node& node : kept) {
    node.op = text();
    node.name = text();
    node.words.resize(static_cast<size_t>(number()));
    for (std::string& word : node.words) word = text();
    for (const std::string& word : node.words) node.attributes.push_back(word.c_str());
    node.inputs = array<int32_t>();
    const size_t count = node.attributes.size() / 2;
    nodes.push_back({node.op.c_str(), node.name.c_str(), node.attributes.data(), node.attributes.data() + count,
                     static_cast<int>(count), node.inputs.data(), static_cast<int>(node.inputs.size()),
                     static_cast<int32_t>(nodes.size())});
  }
  fops_network* net = nullptr;
  fops_status status = fops_network_create(nodes.data(), static_cast<int>(nodes.size()), shape.data(),
                                           static_cast<int>(shape.size()), FOPS_CPU, 0, "float32", &net);
  std::vector<std::vector<float>> weights(static_cast<size_t>(number()));
  for (auto& values : weights) values = array<float>();
  std::vector<const float*> pointers;
  for (const auto& values : weights) pointers.push_back(values.empty() ? nullptr : values.data());
  const std::vector<uint64_t> versions(weights.size(), 1);
  if (!status) status = fops_network_set_weights(net, pointers.data(), versions.data());
  fops_stage_info last = {};
  if (!status) status = fops_network_stage(net, fops_network_stage_count(net) - 1, &last);
  for (int64_t batches = number(); batches > 0; --batches) {
    fops_set_threads(static_cast<int>(number()));
    const int64_t n = number();
    const auto type = static_cast<fops_dtype>(number());
    const std::vector<char> data = array<char>();
    std::vector<float> y(static_cast<size_t>(n * last.out[0] * last.out[1] * last.out[2]));
    answer(status ? status : fops_network_forward(net, n, data.data(), type, y.data(), 0), y);
  }
  fops_network_destroy(net);
}

}  // namespace

int main() {
  for (;;) {
    const std::string what = text();
    if (what == "convolution") convolution();
    if (what == "network") network();
    if (what == "isa") {
      const std::string name = fops_cpu_isa();
      answer(0, std::vector<float>(name.begin(), name.end()));
    }
  }
}
