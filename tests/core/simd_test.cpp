// SPDX-License-Identifier: MIT
#include "rotorlin/core/simd.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "rotorlin/core/random.hpp"

using namespace rotorlin;

namespace {

template <class S, int W>
void check_tiles() {
  for (Index features : {1, 2, 3, 15, 16, 17, 31, 40}) {
    for (Index samples = 1; samples <= W; ++samples) {
      CAPTURE(W, features, samples);
      Matrix<S> x(features + 3, samples);  // a stride larger than the features
      Random(1).fill_uniform(x, -1.0, 1.0);
      std::vector<S> tile(static_cast<std::size_t>(features * W), S(9));
      detail::load_tile<S, W>(x.data(), x.rows(), features, samples, tile.data());
      bool right = true;
      for (Index f = 0; f < features; ++f) {
        for (Index s = 0; s < W; ++s) {
          right &= tile[static_cast<std::size_t>(f * W + s)] == (s < samples ? x(f, s) : S(0));
        }
      }
      CHECK(right);
      Matrix<S> y = Matrix<S>::Constant(features + 3, samples, S(7));
      detail::store_tile<S, W>(tile.data(), features, y.data(), y.rows(), samples);
      CHECK(y.topRows(features) == x.topRows(features));
      CHECK((y.bottomRows(3).array() == S(7)).all());  // nothing beyond the features
    }
  }
}

template <class S, int W>
void check_multiply(Index rows, Index depth, Index cols) {
  CAPTURE(W, rows, depth, cols);
  Matrix<S> a(rows, depth);
  Matrix<S> b(depth, cols * W);
  Random random(4);
  random.fill_uniform(a, -1.0, 1.0);
  random.fill_uniform(b, -1.0, 1.0);
  std::vector<S> panels(static_cast<std::size_t>(rows * depth));
  std::vector<S> c(static_cast<std::size_t>(rows * cols * W), S(1));
  detail::pack_panels(
      rows, depth, [&](Index i, Index k) { return a(i, k); }, panels.data());
  using RowMajor = Eigen::Matrix<S, Dynamic, Dynamic, Eigen::RowMajor>;
  const RowMajor b_rows = b;
  const RowMajor a_rows = a;
  const detail::PackMatrix<const S> right{b_rows.data(), cols * W, W};
  const detail::PackMatrix<S> result{c.data(), cols * W, W};
  const RowMajor expected = a * b;
  const auto found = [&] { return Eigen::Map<const RowMajor>(c.data(), rows, cols * W); };
  const S tolerance = static_cast<S>(depth) * Eigen::NumTraits<S>::epsilon();
  detail::multiply<S, W>(panels.data(), rows, depth, right, cols, result);
  CHECK((found() - expected).cwiseAbs().maxCoeff() <= tolerance);
  detail::multiply<S, W, true>(panels.data(), rows, depth, right, cols, result);
  CHECK((found() - 2 * expected).cwiseAbs().maxCoeff() <= 3 * tolerance);
  detail::multiply_unpacked<S, W>(a_rows.data(), depth, rows, depth, right, cols, result);
  CHECK((found() - expected).cwiseAbs().maxCoeff() <= tolerance);
}

}  // namespace

TEST_CASE("Batches become packs and come back") {
  check_tiles<float, detail::native_lanes<float>>();
  check_tiles<double, detail::native_lanes<double>>();
  check_tiles<float, 4>();
  check_tiles<long double, 1>();
}

TEST_CASE("The matrix product on packs, any number of rows and columns") {
  for (Index rows : {1, 2, 3, 5, 8, 15, 64}) {
    for (Index cols : {1, 2, 3, 8}) {
      check_multiply<float, detail::native_lanes<float>>(rows, 7, cols);
      check_multiply<double, detail::native_lanes<double>>(rows, 16, cols);
      check_multiply<long double, 1>(rows, 3, cols);
    }
  }
}

TEST_CASE("Lanes: exclusive or and sums") {
  constexpr int W = detail::native_lanes<float>;
  float values[W];
  for (int l = 0; l < W; ++l) values[l] = static_cast<float>(l);
  const auto pack = detail::load<float, W>(values);
  float out[W];
  detail::store<float, W>(out, detail::xor_lanes<float, W, 3>(pack));
  for (int l = 0; l < W; ++l) CHECK(out[l] == static_cast<float>(l ^ 3));
  CHECK(detail::sum_lanes<float, W>(pack) == static_cast<float>(W * (W - 1) / 2));
}
