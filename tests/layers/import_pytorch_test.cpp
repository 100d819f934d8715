// SPDX-License-Identifier: MIT
#include "rotorlin/layers/import_pytorch.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "rotorlin/layers/merge.hpp"
#include "support/layer_laws.hpp"

using namespace rotorlin;
using Catch::Matchers::Contains;
using test::random_matrix;
using test::relative_difference;

namespace {

RotorNetworkOptions options() {
  RotorNetworkOptions o;
  o.hidden = 8;
  o.depth = 1;
  o.width = 2;
  o.seed = 5;
  return o;
}

RotorNetwork<double> import(const StateDict& state, RotorNetworkOptions o = options()) {
  return rotor_network_from_state_dict<double>(state, 12, 10, o);
}

}  // namespace

TEST_CASE("A network goes to the authors' names and back, through a file") {
  auto o = options();
  const int variant = GENERATE(0, 1, 2);
  o.parallel_output = variant == 1;
  o.single_rotor = variant == 1;
  o.use_permutations = o.normalize = variant != 2;
  RotorNetwork<double> network(12, 10, o);
  network.parameters() += 0.1 * random_matrix<double>(network.num_parameters(), 1, 2);
  StateDict state = to_state_dict(network);
  CHECK(state.count("layers.0.0.bivectors_left") == 1);
  CHECK(state.count("layers.1.branches.1.0.bivectors_right") == (o.single_rotor ? 0 : 1));
  CHECK(state.count("layers.1.alphas") == 1);
  CHECK(state.count(variant == 1 ? "layers.2.branches.1.0.alpha" : "layers.2.0.alpha") == 1);
  CHECK(state.count("layers.2.alphas") == (variant == 1 ? 1 : 0));
  CHECK(state.count(variant == 2 ? "layers.0.1.weight" : "layers.0.3.weight") == 1);
  CHECK(state.count("layers.1.branches.0.1.perm") == (variant == 2 ? 0 : 1));
  CHECK(state["layers.0.0.bivectors_left"].shape == std::vector<Index>{2, 3});

  // What PyTorch writes besides: the shared weight under every name, and the divisors.
  const std::string modules = variant == 2 ? ".1.weight" : ".3.weight";
  for (const char* branch : {"layers.1.branches.0", "layers.1.branches.1"})
    state[branch + modules] = state["layers.0" + modules];
  state["layers.0.0.count"] = {{8}, VectorX<double>::Constant(8, 2)};

  const test::TemporaryFolder folder;
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : state) {
    if (name.ends_with("perm")) {
      const VectorX<std::int64_t> values = tensor.values.cast<std::int64_t>();
      writer.add("net." + name, values);
    } else if (tensor.shape.size() == 2) {  // given as it lies in memory, row-major
      writer.add("net." + name,
                 Matrix<double>(tensor.values.reshaped(tensor.shape[1], tensor.shape[0]).transpose()));
    } else {
      writer.add("net." + name, tensor.values);
    }
  }
  writer.write(folder / "checkpoint");
  o.hidden = o.use_permutations ? 0 : 8;
  const StateDict read = read_state_dict(SafetensorsFile(folder / "checkpoint"), "net.");
  const RotorNetwork<double> again = rotor_network_from_state_dict<double>(read, 12, 10, o);
  CHECK(again.parameters() == network.parameters());
  const Matrix<double> x = random_matrix<double>(12, 3, 1);
  CHECK(again.forward(x) == network.forward(x));
  CHECK_THROWS_WITH(import_rotor_network<double>(folder / "checkpoint", 12, 10, o),
                    Contains("layers.0.0.bivectors_left") && Contains("missing"));
}

TEST_CASE("Checkpoints that do not fit are refused by the name of the tensor") {
  const StateDict good = to_state_dict(RotorNetwork<double>(12, 10, options()));
  CHECK_NOTHROW(import(good));
  for (const auto& [name, tensor] : good) {
    CAPTURE(name);
    StateDict state = good;
    state.erase(name);
    CHECK_THROWS_WITH(import(state), Contains(name) && Contains("missing"));
    state = good;
    state[name].shape.push_back(1);
    CHECK_THROWS_WITH(import(state), Contains(name) && Contains("shape") && Contains("expected"));
    state = good;
    state[name].values.setConstant(std::numeric_limits<double>::quiet_NaN());
    CHECK_THROWS_AS(import(state), std::domain_error);
  }
  const auto with = [&](const std::string& name, const StateTensor& tensor) {
    StateDict state = good;
    state[name] = tensor;
    return state;
  };
  const VectorX<double> eight = VectorX<double>::Constant(8, 1);
  CHECK_THROWS_WITH(import(with("layers.0.0.gamma", {{8}, eight})),
                    Contains("layers.0.0.gamma") && Contains("unknown"));
  CHECK_THROWS_WITH(import(with("layers.0.1.perm", {{8}, eight})),
                    Contains("permutation 0") && Contains("twice"));
  CHECK_THROWS_WITH(import(with("layers.0.1.perm", {{8}, eight * 1.5})), Contains("layers.0.1.perm"));
  CHECK_THROWS_WITH(import(with("layers.0.1.perm", {{8}, eight * 1e300})), Contains("layers.0.1.perm"));
  CHECK_THROWS_WITH(import(with("layers.0.0.count", {{8}, eight})), Contains("2 x 1 chunks of 8"));
  CHECK_THROWS_WITH(import(with("layers.1.branches.1.3.weight", {{1}, VectorX<double>::Constant(1, 0.5)})),
                    Contains("layers.1.branches.1.3.weight") && Contains("0.25"));
  auto o = options();
  o.activation = Activation::relu;
  CHECK_THROWS_WITH(import(good, o), Contains("layers.0.3.weight") && Contains("unknown"));
  o = options();
  o.depth = 2;
  CHECK_THROWS_WITH(import(good, o), Contains("missing"));
  o.depth = 0;
  CHECK_THROWS_AS(import(good, o), std::invalid_argument);
}

TEST_CASE("A rotor layer goes to the authors' names and back; orientations negate the bivectors") {
  for (const bool one_chunk : {true, false}) {
    RotorLinearOptions o;
    o.chunk = 8;
    o.bias_inside_alpha = one_chunk;
    const Index in = one_chunk ? 8 : 12;
    RotorLinear<float> layer(in, 8, o);
    layer.bias() = random_matrix<float>(8, 1, 2);
    layer.alpha().setConstant(1.5f);
    o.bias_inside_alpha = false;  // the importer's business
    const StateDict state = to_state_dict(layer);
    const RotorLinear<float> again = rotor_linear_from_state_dict<float>(state, in, 8, o);
    CHECK(again.parameters() == layer.parameters());
    CHECK(again.options().bias_inside_alpha == one_chunk);
    const Matrix<float> x = random_matrix<float>(in, 2, 1);
    CHECK(again.forward(x) == layer.forward(x));
    const auto reversed =
        rotor_linear_from_state_dict<float>(state, in, 8, o, Orientation::reversed_single_chunk);
    CHECK(reversed.bivectors_left() == (one_chunk ? -1.0f : 1.0f) * layer.bivectors_left());
    CHECK(reversed.alpha() == layer.alpha());
    if (one_chunk)  // r~ x s is the transpose of r x s~
      CHECK(relative_difference(reversed.to_dense(), layer.to_dense().transpose()) < 1e-5);
    o.bias = false;
    CHECK_THROWS_WITH(rotor_linear_from_state_dict<float>(state, in, 8, o),
                      Contains("bias") && Contains("unknown"));
  }
}

TEST_CASE("Consecutive rotor layers merge into one") {
  const auto make = [](Index width, bool single, std::uint64_t seed, Index size = 16) {
    RotorLinearOptions o;
    o.width = width;
    o.single_rotor = single;
    o.seed = seed;
    RotorLinear<double> layer(size, size, o);
    layer.alpha() = random_matrix<double>(layer.num_pairs(), 1, seed + 10);
    layer.bias() = random_matrix<double>(size, 1, seed + 20);
    return layer;
  };
  const Matrix<double> x = random_matrix<double>(16, 4, 1);
  for (const auto& [first, second] : std::vector<std::pair<RotorLinear<double>, RotorLinear<double>>>{
           {make(1, false, 1), make(1, false, 2)},
           {make(1, true, 1), make(1, true, 2)},
           {make(1, true, 1), make(1, false, 2)},
           {make(2, false, 1), make(3, true, 2)},
           {make(1, false, 1), make(1, false, 1)}}) {
    const RotorLinear<double> merged = merge(first, second);
    CHECK(relative_difference(merged.forward(x), second.forward(first.forward(x))) < 1e-13);
    CHECK(merged.options().width == first.options().width * second.options().width);
    CHECK(merged.options().single_rotor == (first.options().single_rotor && second.options().single_rotor));
  }
  const std::vector<RotorLinear<double>> chain = {make(1, false, 1), make(2, false, 2), make(2, false, 3),
                                                  make(1, true, 4)};
  const auto merged = merge_consecutive(chain);
  REQUIRE(merged.size() == 2);
  CHECK(relative_difference(merged[1].forward(merged[0].forward(x)),
                            chain[3].forward(chain[2].forward(chain[1].forward(chain[0].forward(x))))) <
        1e-13);

  // rotations by pi, by nothing, and two that undo each other
  RotorLinear<double> turn = make(1, true, 5), back = turn;
  turn.bivectors_left().setZero();
  turn.bivectors_left()(0, 0) = std::acos(-1.0) / 2;
  CHECK(relative_difference(merge(turn, turn).forward(x), turn.forward(turn.forward(x))) < 1e-13);
  turn = back;
  back.bivectors_left() *= -1;
  CHECK(relative_difference(merge(turn, back).forward(x), back.forward(turn.forward(x))) < 1e-13);

  RotorLinear<double> smallest(2, 2);
  const Matrix<double> two = random_matrix<double>(2, 4, 1);
  CHECK(relative_difference(merge(smallest, smallest).forward(two), smallest.forward(smallest.forward(two))) <
        1e-14);
  CHECK_THROWS_WITH(merge(make(1, false, 1, 16), make(1, false, 1, 32)),
                    Contains("16 x 16") && Contains("32 x 32") && Contains("one chunk"));
}

TEST_CASE("A network with nothing between its rotors is a chain of rotor layers") {
  auto o = options();
  o.hidden = 16;
  o.depth = 2;
  o.activation = Activation::none;
  o.normalize = o.use_permutations = false;
  for (const bool parallel : {false, true}) {
    o.parallel_output = parallel;
    for (const Index width : {1, 2}) {
      o.width = width;
      RotorNetwork<double> network(16, 16, o);
      network.parameters() += 0.1 * random_matrix<double>(network.num_parameters(), 1, 2);
      const auto chain = rotor_chain(network);
      REQUIRE(chain.size() == 4);
      const auto merged = merge_consecutive(chain);
      CHECK(merged.size() == (width == 1 ? 1 : parallel ? 3 : 2));
      const Matrix<double> x = random_matrix<double>(16, 3, 1);
      for (const auto& layers : {chain, merged}) {
        Matrix<double> y = x;
        for (const auto& layer : layers) y = layer.forward(y);
        CHECK(relative_difference(y, network.forward(x)) < 1e-13);
      }
    }
  }
  o.use_permutations = true;
  CHECK_THROWS_WITH(rotor_chain(RotorNetwork<double>(16, 16, o)), Contains("permutations"));
}
