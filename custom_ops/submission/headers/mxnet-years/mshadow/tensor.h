// The part of mshadow that kernel files of fa2017 to fa2019 use: shapes, streams and dense tensors.
#ifndef MSHADOW_TENSOR_H_
#define MSHADOW_TENSOR_H_

#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "dmlc/logging.h"
#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define MSHADOW_XINLINE inline __host__ __device__
#else
#define MSHADOW_XINLINE inline
#endif
#define MSHADOW_CINLINE inline

#define MSHADOW_CUDA_CALL(call)                                                      \
  {                                                                                  \
    const cudaError_t fops_error = (call);                                           \
    CHECK_EQ(fops_error, cudaSuccess) << "CUDA: " << cudaGetErrorString(fops_error); \
  }

namespace mshadow {

typedef unsigned index_t;
typedef float default_real_t;

struct cpu {
  static const bool kDevCPU = true;
  static const int kDevMask = 1;
};
struct gpu {
  static const bool kDevCPU = false;
  static const int kDevMask = 2;
};

namespace cuda {
const int kMemUnit = 32;
const int kMaxThreadsPerBlock = 1024;
const int kBaseThreadBits = 8;
const int kBaseThreadNum = 1 << kBaseThreadBits;
}  // namespace cuda

template <typename Device>
struct Stream {};
#ifdef __CUDACC__
template <>
struct Stream<gpu> {
  cudaStream_t stream_;
  static cudaStream_t GetStream(Stream<gpu>* stream) { return stream == nullptr ? nullptr : stream->stream_; }
};
#endif

template <int dimension>
struct Shape {
  static const int kDimension = dimension;
  index_t shape_[dimension];
  MSHADOW_XINLINE index_t& operator[](int i) { return shape_[i]; }
  MSHADOW_XINLINE const index_t& operator[](int i) const { return shape_[i]; }
  MSHADOW_XINLINE size_t Size() const {
    size_t size = 1;
    for (int i = 0; i < dimension; ++i) size *= shape_[i];
    return size;
  }
  MSHADOW_XINLINE Shape<dimension - 1> SubShape() const {
    Shape<dimension - 1> sub;
    for (int i = 1; i < dimension; ++i) sub.shape_[i - 1] = shape_[i];
    return sub;
  }
};

inline Shape<1> Shape1(index_t a) { return Shape<1>{{a}}; }
inline Shape<2> Shape2(index_t a, index_t b) { return Shape<2>{{a, b}}; }
inline Shape<3> Shape3(index_t a, index_t b, index_t c) { return Shape<3>{{a, b, c}}; }
inline Shape<4> Shape4(index_t a, index_t b, index_t c, index_t d) { return Shape<4>{{a, b, c, d}}; }

// A tensor in existing memory. t[b][m][h][w] is an element.
template <typename Device, int dimension, typename DType = default_real_t>
struct Tensor {
  static const int kSubdim = dimension - 1;
  DType* dptr_;
  Shape<dimension> shape_;
  index_t stride_;
  Stream<Device>* stream_;

  Tensor() : dptr_(nullptr), shape_(), stride_(0), stream_(nullptr) {}
  explicit Tensor(const Shape<dimension>& shape) : Tensor(nullptr, shape) {}  // without memory until AllocSpace
  Tensor(DType* data, const Shape<dimension>& shape, Stream<Device>* stream = nullptr)
      : dptr_(data), shape_(shape), stride_(shape[dimension - 1]), stream_(stream) {}
  index_t size(int i) const { return shape_[i]; }
  size_t MSize() const { return shape_.Size(); }
  bool CheckContiguous() const { return true; }
  Tensor<Device, dimension - 1, DType> operator[](index_t i) const {
    const Shape<dimension - 1> sub = shape_.SubShape();
    return Tensor<Device, dimension - 1, DType>(dptr_ + i * sub.Size(), sub, stream_);
  }
};

template <typename Device, typename DType>
struct Tensor<Device, 1, DType> {
  DType* dptr_;
  Shape<1> shape_;
  index_t stride_;
  Stream<Device>* stream_;

  Tensor() : dptr_(nullptr), shape_(), stride_(0), stream_(nullptr) {}
  explicit Tensor(const Shape<1>& shape) : Tensor(nullptr, shape) {}
  Tensor(DType* data, const Shape<1>& shape, Stream<Device>* stream = nullptr)
      : dptr_(data), shape_(shape), stride_(shape[0]), stream_(stream) {}
  index_t size(int i) const { return shape_[i]; }
  size_t MSize() const { return shape_.Size(); }
  DType& operator[](index_t i) { return dptr_[i]; }
  const DType& operator[](index_t i) const { return dptr_[i]; }
};

// Allocates memory for a tensor that has only a shape. Rows are not padded.
template <int dimension, typename DType>
void AllocSpace(Tensor<cpu, dimension, DType>* tensor, bool = false) {
  tensor->dptr_ = static_cast<DType*>(malloc(tensor->MSize() * sizeof(DType)));
}
template <int dimension, typename DType>
void FreeSpace(Tensor<cpu, dimension, DType>* tensor) {
  free(tensor->dptr_);
  tensor->dptr_ = nullptr;
}
#ifdef __CUDACC__
template <int dimension, typename DType>
void AllocSpace(Tensor<gpu, dimension, DType>* tensor, bool = false) {
  MSHADOW_CUDA_CALL(cudaMalloc(&tensor->dptr_, tensor->MSize() * sizeof(DType)));
}
template <int dimension, typename DType>
void FreeSpace(Tensor<gpu, dimension, DType>* tensor) {
  MSHADOW_CUDA_CALL(cudaFree(tensor->dptr_));
  tensor->dptr_ = nullptr;
}
#endif

}  // namespace mshadow

#endif
