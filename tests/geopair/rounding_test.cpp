// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/rounding.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

using namespace rotorlin;
using Catch::Contains;

namespace {

/// A weight of 24 x 20 that a dictionary of 12 atoms explains but for some noise, activations that are
/// correlated, and the layer of these atoms and coefficients.
struct Problem {
  RoundingTarget target;
  NamedSharedLayer<float> layer;
};

Problem problem(DictionarySide side, CoefficientStorage storage) {
  const Index out = 24, in = 20, rank = 12;
  const bool input = side == DictionarySide::input;
  std::srand(1);
  const Matrix<float> d = Matrix<float>::Random(input ? in : out, rank);
  Matrix<float> c = Matrix<float>::Random(input ? rank : in, input ? out : rank);
  if (storage == CoefficientStorage::sparse) {
    for (Index i = 0; i < c.size(); ++i) {
      if (i % 12 > 6) c.data()[i] = 0;
    }
  }
  const Matrix<double> x =
      Matrix<double>::Random(in, 200) + 2 * Matrix<double>::Random(in, 3) * Matrix<double>::Random(3, 200);
  SharedDictionaryLinear<float> layer(std::make_shared<const SharedDictionary<float>>(d), c, storage, side,
                                      VectorX<float>::Ones(out));
  const Matrix<double> weight = layer.to_dense().cast<double>() + 0.01 * Matrix<double>::Random(out, in);
  return {{weight, x * x.transpose()}, {"layer", layer}};
}

}  // namespace

TEST_CASE("coefficients that are fitted to rounded atoms lose less") {
  for (const DictionarySide side : {DictionarySide::input, DictionarySide::output}) {
    for (const CoefficientStorage kind : {CoefficientStorage::dense, CoefficientStorage::sparse}) {
      CAPTURE(static_cast<int>(side), static_cast<int>(kind));
      const Problem p = problem(side, kind);
      for (const StorageOptions& storage :
           {StorageOptions{.dtype = DType::bf16}, StorageOptions{.bits = 8}, StorageOptions{.bits = 4}}) {
        const auto plain = rounded_layers<float>({p.layer}, storage);
        const auto refitted = refitted_layers({p.layer}, storage, [&](std::size_t) { return p.target; });
        const double before = detail::output_error(p.target, plain[0].layer),
                     after = detail::output_error(p.target, refitted[0].layer);
        CAPTURE(storage.bits, before, after);
        CHECK(after <= before);
        if (storage.bits == 4) CHECK(after < 0.9 * before);
        CHECK(refitted[0].layer.bias() == p.layer.layer.bias());
        CHECK(refitted[0].layer.pattern().indices == p.layer.layer.pattern().indices);
        // it is what a file gives back
        const auto stored = rounded_layers(refitted, storage);
        CHECK(stored[0].layer.parameters() == refitted[0].layer.parameters());
        CHECK(stored[0].layer.dictionary()->stored() == refitted[0].layer.dictionary()->stored());
      }
      // nothing is left to gain: the error is at right angles to every column's atoms, in the metric
      const Matrix<double> c = detail::refitted_coefficients(p.layer.layer, p.target);
      const Matrix<double> d = p.layer.layer.dictionary()->to_dense().cast<double>();
      if (side == DictionarySide::input) {
        Matrix<double> slope = d.transpose() * p.target.gram * (p.target.weight.transpose() - d * c);
        slope = slope.cwiseProduct(detail::support_of(p.layer.layer, c.rows(), c.cols()));
        CHECK(slope.norm() < 1e-6 * p.target.gram.norm());
      }
    }
  }
  const Problem p = problem(DictionarySide::input, CoefficientStorage::dense);
  CHECK_THROWS_WITH(refitted_layers({p.layer}, {.bits = 8},
                                    [&](std::size_t) {
                                      return RoundingTarget{p.target.weight.transpose(), p.target.gram};
                                    }),
                    Contains("'layer' is 24 x 20"));
}
