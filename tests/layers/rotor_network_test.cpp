// SPDX-License-Identifier: MIT
#include "rotorlin/layers/rotor_network.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>

#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;
using test::random_matrix;
using test::relative_difference;

namespace {

RotorNetworkOptions network_options(Index hidden, Index depth, Index width,
                                    Activation activation = Activation::prelu) {
  RotorNetworkOptions result;
  result.hidden = hidden;
  result.depth = depth;
  result.width = width;
  result.activation = activation;
  result.seed = 3;
  return result;
}

/// A network whose parameters are all different from their first values.
template <class S>
RotorNetwork<S> generic(Index in, Index out, const RotorNetworkOptions& o) {
  RotorNetwork<S> network(in, out, o);
  network.parameters() += S(0.3) * random_matrix<S>(network.num_parameters(), 1, 17);
  return network;
}

double activation_of(Activation activation, double z, double weight) {
  switch (activation) {
    case Activation::none:
      return z;
    case Activation::relu:
      return std::max(z, 0.0);
    case Activation::prelu:
      return z > 0 ? z : weight * z;
    case Activation::gelu:
      return z / 2 * (1 + std::erf(z / std::sqrt(2.0)));
    case Activation::silu:
      return z / (1 + std::exp(-z));
    case Activation::leaky_relu:
      return z > 0 ? z : 0.01 * z;
    case Activation::elu:
      return z > 0 ? z : std::expm1(z);
  }
  return 0;
}

/// The network as its documentation defines it, out of its rotor layers.
template <class S>
Matrix<double> by_definition(const RotorNetwork<S>& network, const Matrix<S>& input) {
  const RotorNetworkOptions& o = network.options();
  const Matrix<double> x = input.template cast<double>();
  const auto rotor = [&](Index i, const Matrix<double>& h) {
    const RotorLinear<S> layer = network.rotor(i);
    RotorLinear<double> exact(layer.in_features(), layer.out_features(), layer.options());
    exact.parameters() = layer.parameters().template cast<double>();
    return exact.forward(h);
  };
  const auto branch = [&](Index i, const Matrix<double>& h) {
    const Matrix<double> y = rotor(i, h);
    Matrix<double> z = y;
    const double weight = o.activation == Activation::prelu ? static_cast<double>(network.prelu_weight()) : 0;
    for (Index s = 0; s < y.cols(); ++s) {
      for (Index j = 0; j < y.rows(); ++j)
        z(j, s) = y(o.use_permutations ? network.permutation(i)[static_cast<std::size_t>(j)] : j, s);
      if (o.normalize) {
        const VectorX<double> centred = z.col(s).array() - z.col(s).mean();
        z.col(s) =
            centred / std::sqrt(centred.squaredNorm() / static_cast<double>(centred.size()) + o.epsilon);
      }
    }
    return Matrix<double>(
        z.unaryExpr([&](double value) { return activation_of(o.activation, value, weight); }));
  };
  Matrix<double> h = branch(0, x);
  if (o.residual && x.rows() == h.rows()) h += x;
  for (Index k = 0; k < o.depth; ++k) {
    Matrix<double> sum = Matrix<double>::Zero(h.rows(), h.cols());
    for (Index b = 0; b < o.width; ++b)
      sum += static_cast<double>(network.branch_weights()[k * o.width + b]) * branch(network.branch(k, b), h);
    h = sum;
  }
  const Index last = network.output_rotor();
  if (!o.parallel_output) {
    Matrix<double> y = rotor(last, h);
    if (o.residual && y.rows() == h.rows()) y += h;
    return y;
  }
  Matrix<double> y = Matrix<double>::Zero(network.out_features(), h.cols());
  for (Index b = 0; b < o.width; ++b)
    y += static_cast<double>(network.branch_weights()[o.depth * o.width + b]) * rotor(last + b, h);
  return y;
}

}  // namespace

TEST_CASE("A rotor network obeys the laws of layers") {
  auto o = network_options(8, 2, 2);
  SECTION("as published") { test::check_layer_laws(generic<double>(12, 10, o)); }
  SECTION("single rotors, residual, one branch") {
    o.single_rotor = o.residual = true;
    o.width = 1;
    test::check_layer_laws(generic<double>(8, 8, o));
  }
  SECTION("parallel output, residual, no hidden blocks") {
    o.parallel_output = o.residual = true;
    o.depth = 0;
    test::check_layer_laws(generic<double>(8, 8, o));
  }
  SECTION("hidden features that are no power of two") {
    o.hidden = 6;
    o.parallel_output = true;
    test::check_layer_laws(generic<double>(5, 7, o));
  }
  SECTION("neither normalisation nor permutations") {
    o.normalize = o.use_permutations = false;
    test::check_layer_laws(generic<double>(12, 10, o));
  }
  SECTION("the smallest") {
    o = network_options(2, 1, 1);
    o.normalize = false;
    test::check_layer_laws(generic<double>(2, 2, o));
  }
  SECTION("float") { test::check_layer_laws(generic<float>(40, 33, network_options(32, 1, 3))); }
}

TEST_CASE("Gradients of every activation are exact, through every kernel") {
  for (const auto& [activation, name] : activation_names) {
    for (const bool single : {false, true}) {
      auto o = network_options(8, 1, 2, activation);
      o.single_rotor = single;
      RotorNetwork<double> network = generic<double>(8, 9, o);
      INFO(name);
      test::check_gradients_of_layer(test::ErasedLayer<double>(network));

      const Matrix<double> x = random_matrix<double>(8, 70, 1), grad_y = random_matrix<double>(9, 70, 2);
      const auto gradients = [&](const RotorNetwork<double>& source, Kernel kernel) {
        auto own = source.options();
        own.kernel = kernel;
        RotorNetwork<double> copy(8, 9, own);
        copy.parameters() = source.parameters();
        RotorNetwork<double>::Workspace workspace;
        Matrix<double> grad_x(8, 70);
        copy.backward(x, grad_y, grad_x, workspace);
        Matrix<double> all(copy.num_parameters() + grad_x.size() + 9 * 70, 1);
        all << copy.gradients(), grad_x.reshaped(), copy.forward(x).reshaped();
        return all;
      };
      const Matrix<double> expected = gradients(network, Kernel::spinor);
      for (const Kernel kernel : {Kernel::parity_blocks, Kernel::dense, Kernel::shears}) {
        if (kernel == Kernel::shears && !single) continue;
        CHECK(relative_difference(gradients(network, kernel), expected) < 1e-12);
      }
    }
  }
}

TEST_CASE("A rotor network is what its documentation defines") {
  for (const auto& [activation, name] : activation_names) {
    for (const int variant : {0, 1, 2, 3, 4}) {
      auto o = network_options(variant == 4 ? 64 : 16, 2, 2, activation);
      o.residual = variant == 1;
      o.parallel_output = variant == 2;
      o.use_permutations = o.normalize = variant != 3;
      o.epsilon = variant == 4 ? 0.1 : 1e-5;
      const Index in = variant == 0 ? 21 : o.hidden, out = variant == 4 ? 130 : 16;
      const RotorNetwork<double> network = generic<double>(in, out, o);
      const RotorNetwork<float> small = generic<float>(in, out, o);
      for (const Index batch : {1, 3, 17, 40}) {
        CAPTURE(name, variant, batch);
        const Matrix<double> x = random_matrix<double>(in, batch, 5);
        CHECK(relative_difference(network.forward(x), by_definition(network, x)) < 1e-13);
        const Matrix<float> x32 = x.cast<float>();
        const Matrix<double> y = by_definition(small, x32);
        CHECK(relative_difference(small.forward(x32).cast<double>(), y) < 2e-5);
      }
    }
  }
}

TEST_CASE("Counts of parameters") {
  // 8 rotors of 2 * 55 + 1, 6 branch weights, 1 weight of prelu (the paper rounds up to 896)
  CHECK(RotorNetwork<float>(2048, 2048).num_parameters() == 895);
  CHECK(RotorNetwork<float>(256, 256).num_parameters() == 463);
  const RotorNetwork<float> network(784, 10);
  CHECK(network.hidden_features() == 512);
  CHECK(network.num_rotors() == 8);
  CHECK(network.output_rotor() == 7);
  CHECK(network.branch(1, 2) == 6);
  CHECK(network.rotor(7).out_features() == 10);
  RotorNetworkOptions o;
  o.depth = 0;
  o.parallel_output = true;
  o.activation = Activation::gelu;
  o.single_rotor = true;
  const RotorNetwork<float> flat(16, 16, o);
  CHECK(flat.num_parameters() == 4 * 7 + 3);
  CHECK(flat.branch_weights().size() == 3);
}

TEST_CASE("Normalisation of samples that are constant, zero or far from zero") {
  auto o = network_options(16, 1, 2);
  const RotorNetwork<double> network = generic<double>(16, 16, o);
  Matrix<double> x(16, 4);
  x.col(0).setZero();
  x.col(1).setConstant(1e-200);
  x.col(2).setConstant(1e12);
  x.col(3) = random_matrix<double>(16, 1, 1);
  const Matrix<double> y = network.forward(x);
  CHECK(y.allFinite());
  CHECK(relative_difference(y, by_definition(network, x)) < 1e-12);
  RotorNetwork<double> copy = network;
  RotorNetwork<double>::Workspace workspace;
  Matrix<double> grad_x(16, 4);
  copy.backward(x, y, grad_x, workspace);
  CHECK(grad_x.allFinite());
  CHECK(copy.gradients().allFinite());

  // What is constant behind the rotor is zero behind the normalisation: an identity rotor shows it.
  o.depth = 0;
  o.normalize = true;
  RotorNetwork<float> identity(16, 16, o);
  for (Index i = 0; i < 2; ++i) identity.rotor_parameters(i).head(12).setZero();
  CHECK(identity.forward(Matrix<float>::Constant(16, 1, 1e4f)).isZero(0.01f));
  const VectorX<float> far = 1000 + random_matrix<float>(16, 1, 4).array();
  const VectorX<float> z = far.array() - far.mean();
  const VectorX<float> unit = z / std::sqrt(z.squaredNorm() / 16 + 1e-5f);
  const Matrix<float> result = identity.forward(far);
  for (Index j = 0; j < 16; ++j) {
    const float expected = unit[identity.permutation(0)[static_cast<std::size_t>(j)]];
    CHECK(std::abs(result(j, 0) - (expected > 0 ? expected : 0.25f * expected)) < 1e-3f);
  }

  Matrix<double> bad = x;
  bad(3, 1) = std::numeric_limits<double>::quiet_NaN();
  const Matrix<double> with_nan = network.forward(bad);
  CHECK(with_nan.col(1).array().isNaN().all());
  CHECK(with_nan.col(3) == y.col(3));
}

TEST_CASE("Linear networks collapse to their matrix") {
  auto o = network_options(16, 2, 3, Activation::none);
  o.normalize = false;
  for (const int variant : {0, 1, 2}) {
    o.residual = variant == 1;
    o.parallel_output = variant == 2;
    const RotorNetwork<double> network = generic<double>(16, 20, o);
    const DenseLinear<double> dense = network.collapse();
    const Matrix<double> x = random_matrix<double>(16, 5, 1);
    CHECK(relative_difference(dense.forward(x), network.forward(x)) < 1e-13);
    CHECK_FALSE(dense.has_bias());
  }
  CHECK_THROWS_WITH(RotorNetwork<double>(16, 16).collapse(),
                    Contains("prelu") && Contains("normalisation") && Contains("activation none"));
}

TEST_CASE("One network serves several threads, and follows its parameters") {
  RotorNetwork<float> network = generic<float>(64, 48, network_options(64, 1, 2));
  const Matrix<float> x = random_matrix<float>(64, 37, 1);
  const Matrix<float> expected = RotorNetwork<float>(network).forward(x);
  std::vector<Matrix<float>> results(4);
  {
    const RotorNetwork<float>& shared = network;
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = shared.forward(x); });
  }
  for (const auto& result : results) CHECK(result == expected);

  for (Index k = 0; k < network.num_parameters(); ++k) {  // every one of them, through a view
    auto view = network.parameters();
    const float kept = view[k];
    view[k] += 0.5f;
    CHECK(network.forward(x) != expected);
    view[k] = kept;
  }
  CHECK(network.forward(x) == expected);
  RotorNetwork<float> other = network;
  other.branch_weights()[0] = 3;
  std::swap(network, other);
  CHECK(other.forward(x) == expected);
  CHECK(network.forward(x) != expected);
  auto permutation = other.permutation(1);
  std::swap(permutation[0], permutation[5]);
  other.set_permutation(1, permutation);
  CHECK(other.forward(x) != expected);
}

TEST_CASE("Equal seeds make equal networks, permutations are permutations") {
  auto o = network_options(32, 1, 2);
  const RotorNetwork<double> a(32, 32, o), b(32, 32, o);
  CHECK(a.parameters() == b.parameters());
  CHECK(a.describe() == b.describe());
  o.seed = 4;
  const RotorNetwork<double> c(32, 32, o);
  CHECK(a.parameters() != c.parameters());
  CHECK(a.permutation(0) != c.permutation(0));
  CHECK(a.permutation(0) != a.permutation(1));
  auto sorted = a.permutation(2);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) CHECK(sorted[i] == static_cast<int>(i));
}

TEST_CASE("Wrong permutations are refused") {
  RotorNetwork<double> network(4, 4, network_options(4, 1, 1));
  CHECK_THROWS_WITH(network.set_permutation(0, {0, 1, 2}), Contains("3 entries") && Contains("expected 4"));
  CHECK_THROWS_WITH(network.set_permutation(0, {0, 1, 2, 2}), Contains("2 twice") && Contains("0 to 3"));
  CHECK_THROWS_WITH(network.set_permutation(1, {0, 1, 2, 4}), Contains("entry 4"));
  CHECK_THROWS_WITH(network.set_permutation(1, {0, 1, 2, -1}), Contains("entry -1"));
  CHECK_THROWS_WITH(network.set_permutation(2, {0, 1, 2, 3}), Contains("number 2") && Contains("0 to 1"));
  CHECK_THROWS_AS(network.permutation(-1), std::invalid_argument);
  CHECK_THROWS_AS(network.rotor(3), std::invalid_argument);
}

TEST_CASE("Impossible networks are refused") {
  const auto make = [](Index in, Index out, RotorNetworkOptions o) {
    return RotorNetwork<float>(in, out, o);
  };
  CHECK_THROWS_WITH(make(1, 8, {}), Contains("in = 1, out = 8"));
  CHECK_THROWS_WITH(make(8, 0, {}), Contains("out = 0"));
  CHECK_THROWS_WITH(make(8, 8, network_options(1, 1, 1)), Contains("hidden = 1"));
  CHECK_THROWS_WITH(make(8, 8, network_options(8, -1, 1)), Contains("depth = -1"));
  CHECK_THROWS_WITH(make(8, 8, network_options(8, 1, 0)), Contains("width = 0"));
  CHECK_THROWS_AS(make(8, 8, network_options(8, Index{1} << 40, Index{1} << 40)), std::invalid_argument);
  CHECK_THROWS_AS(make(8, 8, network_options(8, 0, Index{1} << 40)), std::invalid_argument);
  CHECK_THROWS_AS(make(8, 8, network_options(Index{1} << 40, 1, 1)), std::invalid_argument);
  auto o = network_options(8, 1, 1);
  o.epsilon = 0;
  CHECK_THROWS_WITH(make(8, 8, o), Contains("epsilon = 0"));
  o.epsilon = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(make(8, 8, o), std::invalid_argument);
  CHECK_THROWS_WITH(make(8, 8, network_options(8, 1, 1, static_cast<Activation>(7))),
                    Contains("activation = 7") && Contains("Activation"));
  CHECK_THROWS_AS(make(8, 8, network_options(8, 1, 1, static_cast<Activation>(-1))), std::invalid_argument);
  o = network_options(8, 1, 1);
  o.kernel = static_cast<Kernel>(-2);
  CHECK_THROWS_WITH(make(8, 8, o), Contains("kernel = -2"));
  o = network_options(8, 1, 1, Activation::relu);
  CHECK_THROWS_WITH(make(8, 8, o).prelu_weight(), Contains("relu"));
  CHECK_THROWS_WITH(activation_from_string("tanh"), Contains("tanh") && Contains("leaky_relu"));

  const Description good = RotorNetwork<float>(8, 8, network_options(8, 1, 1)).describe();
  for (const auto& [key, text] : std::vector<std::pair<std::string, std::string>>{{"permutation.0", "0 1 2"},
                                                                                  {"permutation.0", "0 1,2"},
                                                                                  {"permutation.1", "1 2 "},
                                                                                  {"epsilon", "small"},
                                                                                  {"activation", "tanh"},
                                                                                  {"width", "0"}}) {
    Description bad = good;
    bad[key] = text;
    CHECK_THROWS_AS(RotorNetwork<float>::from_description(bad), std::invalid_argument);
  }
  for (const auto& [key, value] : good) {
    Description missing = good;
    missing.erase(key);
    CHECK_THROWS_WITH(RotorNetwork<float>::from_description(missing), Contains(key) && Contains("missing"));
  }
}
