// The operator `New` of the course's symbol files, registered with MXNet 1.9.1.
//
// The course's symbols set the attributes kernel="(K, K)" and num_filter="M". Before it binds a symbol, fashion_infer adds
// the attributes of adapter.h: how to run the node (backend, device, kernel), its name in messages (layer), and its number
// in the op-time log. A node without a number is not logged.
// MXNet keeps the attributes of a library's operator as text without checking them, so unknown attributes are ignored.
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "fashion_ops.h"
#include "mxnet/adapter.h"
#include "mxnet/attributes.h"

using fops::attribute;
using fops::Attributes;
using mxnet::ext::CustomOp;
using mxnet::ext::MX_SUCCESS;
using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;
using mxnet::ext::OpResource;

namespace {

constexpr int kMXFloat32 = 0, kMXUint8 = 3, kMXUnknown = -1;

MXReturnValue error(const Attributes& attributes, const std::string& message) {
  const std::string layer = attribute(attributes, fops::kLayerAttribute, "");
  return fops::failed((layer.empty() ? "New" : "New '" + layer + "'") + ": " + message);
}

std::string text(const std::vector<unsigned int>& shape) {
  std::ostringstream out;
  out << "(";
  for (size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  out << ")";
  return out.str();
}

bool sizes(const Attributes& attributes, int64_t* K, int64_t* M, std::string* why) {
  std::vector<long> kernel, filters;
  const std::string k = attribute(attributes, "kernel", ""), m = attribute(attributes, "num_filter", "");
  if (!fops::integers(k, &kernel) || kernel.size() > 2 || kernel[0] < 1 || kernel[0] > 1 << 20)
    *why = "attribute kernel must be a positive size such as (5, 5), not '" + k + "'";
  else if (kernel.size() == 2 && kernel[0] != kernel[1])
    *why = "attribute kernel must be square, not " + k;
  else if (!fops::integers(m, &filters) || filters.size() != 1 || filters[0] < 1 || filters[0] > 1 << 30)
    *why = "attribute num_filter must be a positive number, not '" + m + "'";
  else {
    *K = kernel[0];
    *M = filters[0];
    return true;
  }
  return false;
}

MXReturnValue parse_attributes(const Attributes& attributes, int* inputs, int* outputs) {
  *inputs = 2;
  *outputs = 1;
  int64_t K, M;
  std::string why;
  if (!sizes(attributes, &K, &M, &why)) return error(attributes, why);
  const std::string backend = attribute(attributes, fops::kBackendAttribute, "cpu");
  if (backend != "cpu" && backend != "gpu")
    return error(attributes,
                 std::string("attribute ") + fops::kBackendAttribute + " must be cpu or gpu, not '" + backend + "'");
  return MX_SUCCESS;
}

MXReturnValue infer_type(const Attributes& attributes, std::vector<int>* in, std::vector<int>* out) {
  int& data = in->at(0);
  if (data == kMXUnknown) data = kMXFloat32;
  if (data != kMXFloat32 && data != kMXUint8) return error(attributes, "data must be float32 or uint8");
  if (in->at(1) != kMXUnknown && in->at(1) != kMXFloat32) return error(attributes, "weight must be float32");
  in->at(1) = kMXFloat32;
  out->at(0) = kMXFloat32;
  return MX_SUCCESS;
}

MXReturnValue infer_shape(const Attributes& attributes, std::vector<std::vector<unsigned int>>* in,
                          std::vector<std::vector<unsigned int>>* out) {
  int64_t K, M;
  std::string why;
  if (!sizes(attributes, &K, &M, &why)) return error(attributes, why);
  const std::vector<unsigned int>& data = in->at(0);
  if (data.size() != 4) return error(attributes, "data must have shape (B, C, H, W), not " + text(data));
  const fops_conv conv = {data[0], data[1], data[2], data[3], M, K, FOPS_FLOAT32};
  if (fops_conv_check(FOPS_CPU, "auto", &conv, nullptr)) return error(attributes, fops_last_error());
  const std::vector<unsigned int> weight = {(unsigned)M, data[1], (unsigned)K, (unsigned)K};
  if (!in->at(1).empty() && in->at(1) != weight)
    return error(attributes, "data " + text(data) + ", num_filter " + std::to_string(M) + " and kernel " +
                                 std::to_string(K) + " need a weight of shape " + text(weight) + ", not " +
                                 text(in->at(1)));
  in->at(1) = weight;
  out->at(0) = {data[0], (unsigned)M, data[2] - (unsigned)K + 1, data[3] - (unsigned)K + 1};
  return MX_SUCCESS;
}

fops_conv describe(const MXTensor& data, const MXTensor& weight) {
  const fops_dtype type = data.dtype == mxnet::ext::kUint8 ? FOPS_UINT8 : FOPS_FLOAT32;
  const auto &x = data.shape, &k = weight.shape;
  return {x[0], x[1], x[2], x[3], k[0], k[2], type};
}

// Runs the convolution on tensors in host memory: on the CPU, or on a GPU with copies to the device and back.
MXReturnValue forward_host(const Attributes& attributes, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                           const OpResource&) {
  MXTensor &data = inputs->at(0), &weight = inputs->at(1), &output = outputs->at(0);
  const fops_conv conv = describe(data, weight);
  const std::string kernel = attribute(attributes, fops::kKernelAttribute, "auto");
  const int node = fops::number_of(attributes, FOPS_NOT_LOGGED);
  const float* k = weight.data<float>();
  float* y = output.data<float>();
  const int device = atoi(attribute(attributes, fops::kDeviceAttribute, "0").c_str());
  const fops_status status = attribute(attributes, fops::kBackendAttribute, "cpu") == "gpu"
                                 ? fops_conv_forward_staged(kernel.c_str(), device, &conv, data.data_ptr, k, y, node)
                                 : fops_conv_forward_cpu(kernel.c_str(), &conv, data.data_ptr, k, y, node);
  return status == FOPS_OK ? MX_SUCCESS : error(attributes, fops_last_error());
}

// Runs the convolution on tensors in the memory of MXNet's GPU context, on that context's stream.
MXReturnValue forward_device(const Attributes& attributes, std::vector<MXTensor>* inputs,
                             std::vector<MXTensor>* outputs, const OpResource& resource) {
  MXTensor &data = inputs->at(0), &weight = inputs->at(1), &output = outputs->at(0);
  const fops_conv conv = describe(data, weight);
  const std::string kernel = attribute(attributes, fops::kKernelAttribute, "auto");
  const int node = fops::number_of(attributes, FOPS_NOT_LOGGED);
  const fops_status status = fops_conv_forward_timed(kernel.c_str(), &conv, data.data_ptr, weight.data<float>(),
                                                     output.data<float>(), resource.get_cuda_stream(), node);
  return status == FOPS_OK ? MX_SUCCESS : error(attributes, fops_last_error());
}

MXReturnValue backward(const Attributes& attributes, std::vector<MXTensor>*, std::vector<MXTensor>*,
                       const OpResource&) {
  return error(attributes, "the operator has a forward pass only; train with Convolution");
}

}  // namespace

REGISTER_OP(New)
    .setForward(forward_host, "cpu")
    .setForward(forward_device, "gpu")
    .setBackward(backward, "cpu")
    .setBackward(backward, "gpu")
    .setParseAttrs(parse_attributes)
    .setInferType(infer_type)
    .setInferShape(infer_shape);

MXReturnValue initialize(int version) {
  // Other releases of MXNet may have another lib_api.h, so only release 1.9.1 is accepted.
  if (version == 10901) return MX_SUCCESS;
  return fops::failed("the operator library is built for MXNet 1.9.1, and this is " + std::to_string(version / 10000) +
                      "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100) +
                      ": install mxnet==1.9.1");
}
