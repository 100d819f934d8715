// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <memory>

#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/dense_linear.hpp"
#include "rotorlin/layers/kronecker_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_encoder_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/layers/rotor_network.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"
#include "scale.hpp"

using namespace properties;

namespace {

/// y, dL/dx and dL/dparameters of a linear layer without bias: linear in x and in dL/dy.
template <class L>
void check_layer(L layer) {
  using S = typename L::Scalar;
  INFO(L::type_name);
  const Index in = layer.in_features(), out = layer.out_features();
  const Matrix<S> x = random<S>(in, 21, 1), g = random<S>(out, 21, 2), y = layer.forward(x);
  typename L::Workspace workspace;
  Matrix<S> grad_x(in, 21), scaled_grad_x(in, 21), scaled_y(out, 21);
  layer.zero_gradients();
  layer.forward(x, scaled_y, workspace);
  layer.backward(x, g, grad_x, workspace);
  const Index weights = layer.num_parameters() - (layer.has_bias() ? out : 0);
  const VectorX<S> gradients = layer.gradients().head(weights);  // those of the bias do not depend on x
  for (const double scale : scales) {
    CAPTURE(scale);
    const S s = static_cast<S>(scale);
    layer.forward(s * x, scaled_y, workspace);
    CHECK(difference(scaled_y, y, scale) < rounding<S>());
    layer.zero_gradients();
    layer.backward(s * x, g, scaled_grad_x, workspace);
    CHECK(difference(scaled_grad_x, grad_x, 1) < rounding<S>());
    CHECK(difference(layer.gradients().head(weights), gradients, scale) < rounding<S>());
    layer.zero_gradients();
    layer.forward(x, scaled_y, workspace);
    layer.backward(x, s * g, scaled_grad_x, workspace);
    CHECK(difference(scaled_grad_x, grad_x, scale) < rounding<S>());
    CHECK(difference(layer.gradients().head(weights), gradients, scale) < rounding<S>());
  }
}

}  // namespace

TEMPLATE_TEST_CASE("Layers at any scale: forward and backward are linear", "", float, double) {
  using S = TestType;
  for (const bool single : {false, true}) {
    for (const Index size : {8, 64, 256})
      check_layer(RotorLinear<S>(size, size, {.single_rotor = single, .bias = false}));
    check_layer(RotorLinear<S>(50, 20, {.single_rotor = single, .bias = false}));
  }
  check_layer(DenseLinear<S>(12, 10));
  check_layer(LowRankLinear<S>(12, 10, 3));
  check_layer(BlockHadamardLinear<S>(12, 10, 2));
  check_layer(KroneckerLinear<S>(12, 10, {.terms = 2}));
  check_layer(RotorEncoderLinear<S>(32, 10, {.rank = 4}));
  const auto dictionary = std::make_shared<const SharedDictionary<S>>(random<S>(12, 5, 6));
  check_layer(SharedDictionaryLinear<S>(dictionary, random<S>(5, 10, 7), CoefficientStorage::sparse));
}

namespace {

template <class S>
void check_network(double scale) {
  CAPTURE(scale);
  const RotorNetwork<S> network(32, 24,
                                {.hidden = 16, .depth = 1, .width = 2, .activation = Activation::relu});
  const Matrix<S> x = random<S>(32, 7, 1), scaled = network.forward(static_cast<S>(scale) * x);
  CHECK(rotorlin::detail::all_finite(scaled));
  if (scale > 1) CHECK(difference(scaled, network.forward(x), 1) < 1e-3);  // epsilon no longer counts
}

}  // namespace

TEMPLATE_TEST_CASE("Networks at any scale: behind a normalisation the scale of the input is gone", "", float,
                   double) {
  for (const double scale : scales) check_network<TestType>(scale);
}
