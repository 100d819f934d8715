// SPDX-License-Identifier: MIT
/// \file
/// The dense side of all forward cases.
#pragma once

#include <algorithm>

#include "ratios/report.hpp"
#include "support/dense.hpp"
#include "support/layers.hpp"

namespace bench {

/// Layers in turn on our side of a cold case.
inline constexpr std::size_t cold_layers = 16;

/// W x with W of 2^n x 2^n: warm, the same W every time; cold, matrices of 256 MB in all, in turn. The order
/// of the weights in memory is the one that the library is faster with.
class DenseForward {
 public:
  DenseForward(const Report& report, Library library, int n, Index batch, bool cold)
      : library_(library),
        pool_(report.pool()),
        matrices_(cold ? Report::pool_size >> (2 * n) : 1),
        x_(random_matrix<float>(Index{1} << n, batch, 2)),
        y_(Index{1} << n, batch) {
    double best[2] = {1e30, 1e30};
    for (const bool by_rows : {false, true}) {
      by_rows_ = by_rows;
      Repeated calls(std::ref(*this), report.effort().min_seconds / 2);
      for (int i = 0; i < 3; ++i) best[by_rows] = std::min(best[by_rows], calls.microseconds());
    }
    by_rows_ = best[true] < best[false];
  }

  void operator()(std::size_t call) {
    const Index matrix = static_cast<Index>(call) % matrices_;
    dense_forward(library_, by_rows_, pool_ + matrix * x_.rows() * x_.rows(), x_, y_);
    keep(y_.data());
  }

  Work work(double our_flops) const {
    const double weights = static_cast<double>(x_.rows() * x_.rows());
    return {our_flops, 2 * weights * static_cast<double>(x_.cols()), matrices_ > 1 ? 4 * weights : 0};
  }

 private:
  Library library_;
  const float* pool_;
  Index matrices_;
  bool by_rows_ = false;
  rotorlin::Matrix<float> x_, y_;
};

}  // namespace bench
