// SPDX-License-Identifier: MIT
#include "rotorlin/layers/sequential.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "rotorlin/core/random.hpp"
#include "rotorlin/files/registry.hpp"
#include "rotorlin/training/fit.hpp"
#include "support/layer_laws.hpp"
#include "support/temporary_folder.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace {

/// Rotors, a residual block within, groups of features, and every kind of parameter.
template <class S>
Sequential<S> example() {
  Sequential<S> block(6);
  block.add(DenseLinear<S>(6, 6, {.seed = 1}))
      .add(ActivationLayer<S>(6, {.activation = Activation::prelu, .normalize = true}))
      .add_input();
  Sequential<S> model(8);
  model
      .add(RotorLinear<S>(4, 3, {.seed = 2}))  // two groups
      .add(ActivationLayer<S>(6, {.activation = Activation::gelu, .normalize = true}))
      .add(block)
      .add(LowRankLinear<S>(6, 5, {.rank = 2, .seed = 3}));
  return model;
}

}  // namespace

TEST_CASE("layers one after another are a layer") {
  test::check_layer_laws(example<double>());
  test::check_layer_laws(ActivationLayer<double>(5, {.activation = Activation::prelu, .normalize = true}));
}

TEST_CASE("a sequence is what its layers make of each other") {
  const RotorLinear<float> rotor(8, 6, {.seed = 1});
  const DenseLinear<float> dense(6, 6, {.seed = 2});
  const Matrix<float> x = test::random_matrix<float>(8, 5, 3);
  Sequential<float> model(8);
  model.add(rotor).add(ActivationLayer<float>(6)).add(dense);
  const Matrix<float> hidden = rotor.forward(x).cwiseMax(0);
  CHECK(test::relative_difference(model.forward(x), dense.forward(hidden)) < 1e-6);
  CHECK(model.num_parameters() == rotor.num_parameters() + dense.num_parameters());
  CHECK(model.layer<DenseLinear<float>>(2).parameters() == dense.parameters());
  CHECK(model.parameters_of(1).size == 0);

  // The parameters are those of the sequence, from the next call on.
  model.parameters() *= 2;
  CHECK(model.layer<RotorLinear<float>>(0).parameters() == 2 * rotor.parameters());
  Sequential<float> again(8);
  again.add(model.layer<RotorLinear<float>>(0))
      .add(ActivationLayer<float>(6))
      .add(model.layer<DenseLinear<float>>(2));
  CHECK(model.forward(x) == again.forward(x));

  Sequential<float> residual(6);
  residual.add(dense).add_input();
  CHECK(test::relative_difference(residual.forward(hidden), dense.forward(hidden) + hidden) < 1e-6);
}

TEST_CASE("an activation layer is its function") {
  const Matrix<double> x = test::random_matrix<double>(37, 11, 4);
  CHECK(ActivationLayer<double>(37).forward(x) == x.cwiseMax(0));
  CHECK(ActivationLayer<double>(37).num_parameters() == 0);
  CHECK(ActivationLayer<double>(37, {.activation = Activation::leaky_relu, .slope = 0.1}).forward(x) ==
        x.cwiseMax(0.1 * x));
  const Matrix<double> y =
      ActivationLayer<double>(37, {.activation = Activation::none, .normalize = true}).forward(x);
  CHECK(y.colwise().mean().cwiseAbs().maxCoeff() < 1e-14);
  CHECK((y.colwise().squaredNorm().array() / 37 - 1).abs().maxCoeff() < 1e-3);
  CHECK_THROWS_WITH(ActivationLayer<double>(4, {.activation = static_cast<Activation>(99)}), Contains("99"));
  CHECK_THROWS_WITH(ActivationLayer<double>(4, {.epsilon = 0}), Contains("epsilon = 0"));
  CHECK_THROWS_WITH(ActivationLayer<double>(0), Contains("in = 0"));
}

TEST_CASE("what a workspace knows of the forward pass is not computed again") {
  Sequential<double> model = example<double>(), other = model;
  const Matrix<double> x = test::random_matrix<double>(8, 9, 5), g = test::random_matrix<double>(5, 9, 6);
  Matrix<double> y(5, 9), grad_x(8, 9), expected(8, 9);
  Sequential<double>::Workspace workspace, fresh;
  other.backward(x, g, expected, fresh);
  CHECK_THROWS_WITH(model.backward_again(x, g, grad_x, workspace), Contains("has not met a forward pass"));
  model.forward(x, y, workspace);
  model.backward_again(x, g, grad_x, workspace);
  CHECK(grad_x == expected);
  CHECK(model.gradients() == other.gradients());
  Sequential<double>::Workspace copy(workspace);
  CHECK_THROWS_WITH(model.backward_again(x, g, grad_x, copy), Contains("has not met a forward pass"));
  const Matrix<double> wide = test::random_matrix<double>(8, 10, 5);
  CHECK_THROWS_WITH(model.backward_again(wide, test::random_matrix<double>(5, 10, 6), grad_x, workspace),
                    Contains("10"));

  // The workspace of another sequence serves as well: layers find none of their own type there.
  Sequential<double> plain(8);
  for (int k = 0; k < 4; ++k) plain.add(DenseLinear<double>(8, 8));
  Matrix<double> plain_y(8, 9);
  plain.forward(x, plain_y, workspace);
  model.zero_gradients();
  model.backward(x, g, grad_x, workspace);
  CHECK(model.gradients() == other.gradients());
}

TEST_CASE("sequences of any depth are saved, loaded and fitted; what doesn't fit is refused") {
  const test::TemporaryFolder folder;
  Sequential<float> model = example<float>();
  save(model, folder / "model");
  const AnyLayer<float> again = load_any<float>(folder / "model");
  const Matrix<float> x = test::random_matrix<float>(8, 40, 7);
  CHECK(std::get<Sequential<float>>(again).forward(x) == model.forward(x));

  Sequential<float> teacher = model;
  Random(8).fill_uniform(model.parameters(), -0.5, 0.5);
  const FitResult result = fit(model, x, teacher.forward(x), {.epochs = 200});
  CHECK(result.relative_error < 0.6);

  CHECK_THROWS_WITH(Sequential<float>(8).add(DenseLinear<float>(5, 8)), Contains("5 -> 8 after 8 features"));
  CHECK_THROWS_WITH(Sequential<float>(8).forward(x), Contains("no layers"));
  CHECK_THROWS_WITH(Sequential<float>(8).add(DenseLinear<float>(8, 7)).add_input(),
                    Contains("8 features to 7"));
  CHECK_THROWS_WITH(Sequential<float>(0), Contains("in = 0"));
  CHECK_THROWS_WITH(model.layer<DenseLinear<float>>(0), Contains("is a RotorLinear"));
  CHECK_THROWS_WITH(model.layer<DenseLinear<float>>(4), Contains("layer 4 of 4"));

  const auto refused = [&](const std::string& key, const std::string& value, const std::string& says) {
    Description description = teacher.describe();
    description[key] = value;
    CHECK_THROWS_WITH(Sequential<float>::from_description(description), Contains(says));
  };
  refused("layers", "99999999999", "layer 4 of 99999999999 is not described");
  refused("layers", "0", "0 layers");
  refused("out", "6", "the description says 6");
  refused("0.layer", "Convolution", "unknown type 'Convolution'");
  refused("2.0.in", "7", "7 -> 6 after 6");
  refused("3.rank", "70", "rank = 70");
  std::string deep;
  for (int k = 0; k < 40; ++k) deep += "0.";
  refused(deep + "layer", "DenseLinear", "41 levels");

  // A few parameters that make very many features: shared by groups.
  Sequential<float> explosion(1);
  for (int k = 0; k < 4; ++k) explosion.add(DenseLinear<float>(1, 100, {.bias = false}));
  for (int k = 0; k < 4; ++k) explosion.add(DenseLinear<float>(100, 1, {.bias = false}));
  CHECK_THROWS_WITH(explosion.describe(), Contains("values a sample"));
}
