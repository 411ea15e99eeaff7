// The part of mshadow that kernel files of fa2017 to fa2019 use: shapes, streams and dense tensors.
#ifndef MSHADOW_TENSOR_H_
#define MSHADOW_TENSOR_H_

#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
struct Stream {
  void Wait() {}
};
#ifdef __CUDACC__
template <>
struct Stream<gpu> {
  cudaStream_t stream_;
  void Wait() { MSHADOW_CUDA_CALL(cudaStreamSynchronize(stream_)); }
  static cudaStream_t GetStream(Stream<gpu>* stream) { return stream == nullptr ? nullptr : stream->stream_; }
};
#endif

template <int dimension>
struct Shape {
  static const int kDimension = dimension;
  index_t shape_[dimension];
  MSHADOW_XINLINE index_t& operator[](int i) { return shape_[i]; }
  MSHADOW_XINLINE const index_t& operator[](int i) const { return shape_[i]; }
  MSHADOW_XINLINE bool operator==(const Shape& other) const {
    for (int i = 0; i < dimension; ++i)
      if (shape_[i] != other.shape_[i]) return false;
    return true;
  }
  MSHADOW_XINLINE bool operator!=(const Shape& other) const { return !(*this == other); }
  MSHADOW_XINLINE size_t Size() const { return ProdShape(0, dimension); }
  MSHADOW_XINLINE size_t ProdShape(int first, int end) const {
    size_t size = 1;
    for (int i = first; i < end; ++i) size *= shape_[i];
    return size;
  }
  MSHADOW_XINLINE Shape<dimension - 1> SubShape() const {
    Shape<dimension - 1> sub;
    for (int i = 1; i < dimension; ++i) sub.shape_[i - 1] = shape_[i];
    return sub;
  }
};

// Prints a shape as Python prints a tuple: (3,) or (3,4).
template <int dimension>
std::ostream& operator<<(std::ostream& stream, const Shape<dimension>& shape) {
  stream << '(' << shape[0];
  for (int i = 1; i < dimension; ++i) stream << ',' << shape[i];
  return stream << (dimension == 1 ? ",)" : ")");
}

MSHADOW_XINLINE Shape<1> Shape1(index_t a) { return Shape<1>{{a}}; }
MSHADOW_XINLINE Shape<2> Shape2(index_t a, index_t b) { return Shape<2>{{a, b}}; }
MSHADOW_XINLINE Shape<3> Shape3(index_t a, index_t b, index_t c) { return Shape<3>{{a, b, c}}; }
MSHADOW_XINLINE Shape<4> Shape4(index_t a, index_t b, index_t c, index_t d) { return Shape<4>{{a, b, c, d}}; }

// How an assignment stores a number into an element.
namespace sv {
#define FOPS_SAVER(name, op)                           \
  struct name {                                        \
    template <typename T>                              \
    MSHADOW_XINLINE static void Save(T& to, T value) { \
      to op value;                                     \
    }                                                  \
  };
FOPS_SAVER(saveto, =)
FOPS_SAVER(plusto, +=)
FOPS_SAVER(minusto, -=)
FOPS_SAVER(multo, *=)
FOPS_SAVER(divto, /=)
#undef FOPS_SAVER
}  // namespace sv

template <typename Saver, typename DType>
void SaveScalar(DType* data, size_t count, DType value, Stream<cpu>*) {
  for (size_t i = 0; i < count; ++i) Saver::Save(data[i], value);
}
#ifdef __CUDACC__
template <typename Saver, typename DType>
__global__ void SaveScalarKernel(DType* data, size_t count, DType value) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) Saver::Save(data[i], value);
}
template <typename Saver, typename DType>
void SaveScalar(DType* data, size_t count, DType value, Stream<gpu>* stream) {
  if (count == 0) return;
  SaveScalarKernel<Saver><<<(count + 255) / 256, 256, 0, Stream<gpu>::GetStream(stream)>>>(data, count, value);
  MSHADOW_CUDA_CALL(cudaGetLastError());
}
#endif

template <typename Device, int dimension, typename DType = default_real_t>
struct Tensor;

// The members that tensors of all dimensions have. `t = 0` stores 0 into all elements; `t = other` lets t refer to the
// memory of the other tensor.
template <typename Device, int dimension, typename DType>
struct TensorBase {
  typedef Tensor<Device, dimension, DType> Self;
  static const bool kDevCPU = Device::kDevCPU;
  static const int kSubdim = dimension - 1;
  DType* dptr_;
  Shape<dimension> shape_;
  index_t stride_;
  Stream<Device>* stream_;

  MSHADOW_XINLINE TensorBase() : dptr_(nullptr), shape_(), stride_(0), stream_(nullptr) {}
  MSHADOW_XINLINE explicit TensorBase(const Shape<dimension>& shape)
      : TensorBase(nullptr, shape) {}  // no memory until AllocSpace
  MSHADOW_XINLINE TensorBase(DType* data, const Shape<dimension>& shape, Stream<Device>* stream = nullptr)
      : dptr_(data), shape_(shape), stride_(shape[dimension - 1]), stream_(stream) {}
  MSHADOW_XINLINE void set_stream(Stream<Device>* stream) { stream_ = stream; }
  MSHADOW_XINLINE index_t size(int i) const { return shape_[i]; }
  MSHADOW_XINLINE size_t MSize() const { return shape_.Size(); }
  MSHADOW_XINLINE bool CheckContiguous() const { return true; }
  MSHADOW_XINLINE Tensor<Device, 1, DType> FlatTo1D() const {
    return Tensor<Device, 1, DType>(dptr_, Shape1(static_cast<index_t>(MSize())), stream_);
  }
  MSHADOW_XINLINE Tensor<Device, 2, DType> FlatTo2D() const {
    const index_t rows = static_cast<index_t>(shape_.ProdShape(0, dimension - 1));
    return Tensor<Device, 2, DType>(dptr_, Shape2(rows, shape_[dimension - 1]), stream_);
  }
  MSHADOW_XINLINE Self Slice(index_t begin, index_t end) const {
    Shape<dimension> part = shape_;
    part[0] = end - begin;
    return Self(dptr_ + begin * shape_.ProdShape(1, dimension), part, stream_);
  }
  Self& operator=(DType value) { return Save<sv::saveto>(value); }
  Self& operator+=(DType value) { return Save<sv::plusto>(value); }
  Self& operator-=(DType value) { return Save<sv::minusto>(value); }
  Self& operator*=(DType value) { return Save<sv::multo>(value); }
  Self& operator/=(DType value) { return Save<sv::divto>(value); }

 private:
  template <typename Saver>
  Self& Save(DType value) {
    SaveScalar<Saver>(dptr_, MSize(), value, stream_);
    return static_cast<Self&>(*this);
  }
};

// A tensor in existing memory. t[b][m][h][w] is an element.
template <typename Device, int dimension, typename DType>
struct Tensor : TensorBase<Device, dimension, DType> {
  using TensorBase<Device, dimension, DType>::TensorBase;
  using TensorBase<Device, dimension, DType>::operator=;
  MSHADOW_XINLINE Tensor<Device, dimension - 1, DType> operator[](index_t i) const {
    const Shape<dimension - 1> sub = this->shape_.SubShape();
    return Tensor<Device, dimension - 1, DType>(this->dptr_ + i * sub.Size(), sub, this->stream_);
  }
};

template <typename Device, typename DType>
struct Tensor<Device, 1, DType> : TensorBase<Device, 1, DType> {
  using TensorBase<Device, 1, DType>::TensorBase;
  using TensorBase<Device, 1, DType>::operator=;
  MSHADOW_XINLINE DType& operator[](index_t i) { return this->dptr_[i]; }
  MSHADOW_XINLINE const DType& operator[](index_t i) const { return this->dptr_[i]; }
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

template <int dimension, typename DType>
void Copy(Tensor<cpu, dimension, DType> to, const Tensor<cpu, dimension, DType>& from, Stream<cpu>* = nullptr) {
  CHECK_EQ(to.shape_, from.shape_);
  memcpy(to.dptr_, from.dptr_, to.MSize() * sizeof(DType));
}
#ifdef __CUDACC__
template <typename To, typename From, int dimension, typename DType>
void Copy(Tensor<To, dimension, DType> to, const Tensor<From, dimension, DType>& from, Stream<gpu>* stream = nullptr) {
  CHECK_EQ(to.shape_, from.shape_);
  MSHADOW_CUDA_CALL(cudaMemcpyAsync(to.dptr_, from.dptr_, to.MSize() * sizeof(DType), cudaMemcpyDefault,
                                    Stream<gpu>::GetStream(stream)));
}
#endif

}  // namespace mshadow

#endif
