// SPDX-License-Identifier: MIT
/// \file
/// The matrix of a rotor layer whose parameters stand still: where the sandwiches of many pairs cost more
/// than the matrix that they stand for, the layer's forward pass goes through that.
///
/// The matrix costs as much as in_features samples through the sandwiches. It is made when that many have
/// gone through with the same parameters: training, which changes them at every step, never pays for it, and
/// inference pays at most twice what it would have paid had the future been known.
#pragma once

#include <cstring>
#include <mutex>
#include <new>

#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/rotor/chunking.hpp"

namespace rotorlin::detail {

/// Whether a batch goes faster through the matrix of such a layer than through its sandwiches, both ready.
/// One sample at a time the matrix waits for memory, larger batches for multiplications. From measurements
/// with AVX-512 in both precisions (rotorlin_ratios --only wide); where the two are close it matters little.
template <class S>
bool matrix_is_faster(const RotorChunking<S>& shape, Index batch) {
  const double entries = static_cast<double>(shape.in) * static_cast<double>(shape.out);
  const double pairs = static_cast<double>(shape.pairs());
  const auto work_of = [&](Kernel kernel) {
    return visit_kernel<S>(kernel, [&]<class K>(K) { return K::work(shape.n); });
  };
  const double work = work_of(shape.kernel);
  const Index singles_per_tile =
      visit_kernel<S>(shape.sample_kernel, [&]<class K>(K) { return K::singles_per_tile(shape.n); });
  const double bytes = entries * sizeof(S);
  constexpr double mebibyte = 1 << 20;
  if (batch > singles_per_tile) {
    // Of few samples Eigen's product makes less once its panels leave the second cache.
    const bool slow = batch < 64 && bytes > mebibyte / 2;
    return pairs * work >= (slow ? 1.8 : 1) * entries;
  }
  // Nanoseconds a sample.
  const double scale = static_cast<double>(sizeof(S)) / sizeof(float);
  const double sandwiches = 250 + pairs * (100 + 0.022 * scale * work_of(shape.sample_kernel));
  const double stream = bytes <= mebibyte ? 0.035 : bytes <= 2 * mebibyte ? 0.08 : 0.15;
  return sandwiches >= 60 + scale * stream * entries;
}

/// The matrix for the last parameters seen, once enough samples have asked for it. Safe to be used by several
/// threads at once, as Cached; a copy is empty.
template <class S>
class StandingMatrix {
 public:
  StandingMatrix() = default;
  StandingMatrix(const StandingMatrix&) {}
  StandingMatrix& operator=(const StandingMatrix&) {
    samples_ = 0;
    ready_ = false;
    return *this;
  }

  /// The matrix, or null as long as fewer than `needed` samples came with these parameters, `batch` more now
  /// counted. build(matrix) makes it; where memory does not suffice there is none.
  template <class F>
  const Matrix<S>* get(const S* parameters, Index count, Index batch, Index needed, const F& build) {
    const std::lock_guard lock(mutex_);
    if (snapshot_.size() != count ||
        std::memcmp(parameters, snapshot_.data(), static_cast<std::size_t>(count) * sizeof(S)) != 0) {
      ready_ = false;
      samples_ = 0;
      snapshot_ = Eigen::Map<const VectorX<S>>(parameters, count);
    }
    if (ready_) return &matrix_;
    samples_ += batch < needed - samples_ ? batch : needed - samples_;
    if (samples_ < needed) return nullptr;
    try {
      build(matrix_);
      ready_ = true;
    } catch (const std::bad_alloc&) {
      samples_ = 0;
      return nullptr;
    }
    return &matrix_;
  }

 private:
  std::mutex mutex_;
  bool ready_ = false;
  Index samples_ = 0;
  VectorX<S> snapshot_;
  Matrix<S> matrix_;
};

}  // namespace rotorlin::detail
