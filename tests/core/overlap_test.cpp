// SPDX-License-Identifier: MIT
#include "rotorlin/core/overlap.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace rotorlin;

TEST_CASE("Matrices share memory exactly where some entry is in both") {
  using Strided = Eigen::Map<Matrix<float>, 0, Eigen::OuterStride<>>;
  std::vector<float> memory(200);
  const auto map = [&](Index offset, Index rows, Index cols, Index stride) {
    return Strided(memory.data() + 60 + offset, rows, cols, Eigen::OuterStride<>(stride));
  };
  const auto by_entries = [](const Strided& a, const Strided& b) {
    for (Index i = 0; i < a.rows() * a.cols(); ++i) {
      for (Index j = 0; j < b.rows() * b.cols(); ++j) {
        if (&a(i % a.rows(), i / a.rows()) == &b(j % b.rows(), j / b.rows())) return true;
      }
    }
    return false;
  };
  for (const Index rows : {0, 1, 3}) {
    for (const Index cols : {0, 1, 4}) {
      for (const Index stride : {-5, 0, 1, 3, 5, 8}) {
        const Strided a = map(0, rows, cols, stride);
        for (const Index other_rows : {1, 2, 4}) {
          for (const Index other_stride : {-4, 1, 2, 5, 7}) {
            for (Index offset = -40; offset <= 40; ++offset) {
              const Strided b = map(offset, other_rows, 3, other_stride);
              CAPTURE(rows, cols, stride, other_rows, other_stride, offset);
              const bool expected = by_entries(a, b);
              if (detail::share_memory(a, b) != expected) CHECK(detail::share_memory(a, b) == expected);
              if (detail::share_memory(b, a) != expected) CHECK(detail::share_memory(b, a) == expected);
            }
          }
        }
      }
    }
  }
  SUCCEED();
}

TEST_CASE("Matrices whose columns lie over each other") {
  std::vector<float> memory(30);
  for (const Index stride : {-3, -2, -1, 0, 1, 2, 3, 4}) {
    const Eigen::Map<Matrix<float>, 0, Eigen::OuterStride<>> m(memory.data() + 12, 3, 2,
                                                               Eigen::OuterStride<>(stride));
    CHECK(detail::overlaps_itself(m) == (std::abs(stride) < 3));
    CHECK_FALSE(detail::overlaps_itself(m.leftCols(1)));
  }
}
