// SPDX-License-Identifier: MIT
#include "rotorlin/files/import_pytorch.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "rotorlin/layers/merge.hpp"
#include "support/layer_laws.hpp"
#include "support/temporary_folder.hpp"

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
  return rotor_network_from_state_dict<double>(state, 12, 10, o, CheckpointConvention::sandwich);
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
  StateDict state = to_state_dict(network, CheckpointConvention::sandwich);
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
  const RotorNetwork<double> again =
      rotor_network_from_state_dict<double>(read, 12, 10, o, CheckpointConvention::sandwich);
  CHECK(again.parameters() == network.parameters());
  const Matrix<double> x = random_matrix<double>(12, 3, 1);
  CHECK(again.forward(x) == network.forward(x));
  CHECK_THROWS_WITH(
      import_rotor_network<double>(folder / "checkpoint", 12, 10, o, CheckpointConvention::sandwich),
      Contains("layers.0.0.bivectors_left") && Contains("missing"));
}

TEST_CASE("Checkpoints that do not fit are refused by the name of the tensor") {
  const StateDict good =
      to_state_dict(RotorNetwork<double>(12, 10, options()), CheckpointConvention::sandwich);
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

TEST_CASE("A rotor layer goes to the authors' names and back; conventions negate the bivectors") {
  for (const bool one_chunk : {true, false}) {
    RotorLinearOptions o;
    o.chunk = 8;
    o.bias_inside_alpha = one_chunk;
    const Index in = one_chunk ? 8 : 12;
    RotorLinear<float> layer(in, 8, o);
    layer.bias() = random_matrix<float>(8, 1, 2);
    layer.alpha().setConstant(1.5f);
    o.bias_inside_alpha = false;  // the importer's business
    const StateDict state = to_state_dict(layer, CheckpointConvention::sandwich);
    const RotorLinear<float> again =
        rotor_linear_from_state_dict<float>(state, in, 8, o, CheckpointConvention::sandwich);
    CHECK(again.parameters() == layer.parameters());
    CHECK(again.options().bias_inside_alpha == one_chunk);
    const Matrix<float> x = random_matrix<float>(in, 2, 1);
    CHECK(again.forward(x) == layer.forward(x));
    const auto reversed =
        rotor_linear_from_state_dict<float>(state, in, 8, o, CheckpointConvention::reversed_single_chunk);
    CHECK(reversed.bivectors_left() == (one_chunk ? -1.0f : 1.0f) * layer.bivectors_left());
    CHECK(reversed.alpha() == layer.alpha());
    if (one_chunk)  // r~ x s is the transpose of r x s~
      CHECK(relative_difference(reversed.to_dense(), layer.to_dense().transpose()) < 1e-5);
    o.bias = false;
    CHECK_THROWS_WITH(rotor_linear_from_state_dict<float>(state, in, 8, o, CheckpointConvention::sandwich),
                      Contains("bias") && Contains("unknown"));
  }
}

namespace {

constexpr CheckpointConvention conventions[] = {
    CheckpointConvention::sandwich, CheckpointConvention::reversed_single_chunk,
    CheckpointConvention::reversed_multi_chunk, CheckpointConvention::reversed};

StateTensor state_tensor(const Matrix<double>& batch) {  // PyTorch's batch x features
  return {{batch.cols(), batch.rows()}, batch.reshaped()};
}

}  // namespace

TEST_CASE("Without a convention or a sample an import is refused, not guessed") {
  const RotorNetwork<double> network(12, 10, options());
  const StateDict state = to_state_dict(network, CheckpointConvention::sandwich);
  CHECK_THROWS_WITH(rotor_network_from_state_dict<double>(state, 12, 10, options()),
                    Contains("CheckpointConvention") && Contains("CheckpointSample"));
  const RotorLinear<float> layer(8, 8);
  CHECK_THROWS_WITH(rotor_linear_from_state_dict<float>(to_state_dict(layer, conventions[0]), 8, 8, {}),
                    Contains("CheckpointConvention") && Contains("CheckpointSample"));
  CHECK_THROWS_WITH(rotor_linear_from_state_dict<float>(to_state_dict(layer, conventions[0]), 8, 8, {},
                                                        static_cast<CheckpointConvention>(7)),
                    Contains("7"));
  CHECK_THROWS_WITH(to_state_dict(layer, static_cast<CheckpointConvention>(-1)), Contains("-1"));
}

TEST_CASE("The convention is found by a sample of the original network's output") {
  // 12 -> 8 and 8 -> 10 are of several chunks, 8 -> 8 in the middle of one: each convention is another
  // network.
  for (const bool single : {false, true}) {
    auto o = options();
    o.single_rotor = single;
    RotorNetwork<double> network(12, 10, o);
    network.parameters() += 0.3 * random_matrix<double>(network.num_parameters(), 1, 2);
    CheckpointSample sample;
    sample.x = random_matrix<double>(12, 5, 3);
    sample.y = network.forward(sample.x);
    const Matrix<double> x = random_matrix<double>(12, 3, 4);
    for (const CheckpointConvention written : conventions) {
      CAPTURE(single, to_string(written));
      StateDict state = to_state_dict(network, written);
      const auto found = rotor_network_from_state_dict<double>(state, 12, 10, o, sample);
      CHECK(found.parameters() == network.parameters());
      const auto in_float = rotor_network_from_state_dict<float>(state, 12, 10, o, sample);
      CHECK(relative_difference(in_float.forward(x.cast<float>()).cast<double>(), network.forward(x)) < 1e-5);
      for (const CheckpointConvention named : conventions) {
        const ConventionSource both(named, sample);
        if (named == written) {
          CHECK(rotor_network_from_state_dict<double>(state, 12, 10, o, both).parameters() ==
                network.parameters());
        } else {
          CHECK_THROWS_WITH(rotor_network_from_state_dict<double>(state, 12, 10, o, both),
                            Contains("not reproduced") && Contains(to_string(named)));
          CHECK(relative_difference(rotor_network_from_state_dict<double>(state, 12, 10, o, named).forward(x),
                                    network.forward(x)) > 0.1);
        }
      }
      // ... that the checkpoint holds itself
      state["sample_input"] = state_tensor(sample.x);
      state["sample_output"] = state_tensor(sample.y);
      CHECK(rotor_network_from_state_dict<double>(state, 12, 10, o).parameters() == network.parameters());
      if (written != conventions[0])
        CHECK_THROWS_WITH(rotor_network_from_state_dict<double>(state, 12, 10, o, conventions[0]),
                          Contains("not reproduced"));
      state.erase("sample_output");
      CHECK_THROWS_WITH(rotor_network_from_state_dict<double>(state, 12, 10, o), Contains("sample_output"));
    }
  }
}

TEST_CASE("Layers of one chunk alone know two conventions; a rotor of nothing knows one") {
  RotorLinear<double> layer(8, 8);
  layer.bivectors_left() = 0.5 * random_matrix<double>(layer.bivectors_left().rows(), 1, 1);
  layer.bivectors_right() = 0.5 * random_matrix<double>(layer.bivectors_left().rows(), 1, 2);
  CheckpointSample sample;
  sample.x = random_matrix<double>(8, 4, 3);
  sample.y = layer.forward(sample.x);
  for (const CheckpointConvention written : conventions) {
    CHECK(
        rotor_linear_from_state_dict<double>(to_state_dict(layer, written), 8, 8, {}, sample).parameters() ==
        layer.parameters());
  }
  layer.bivectors_left().setZero();
  layer.bivectors_right().setZero();
  sample.y = layer.forward(sample.x);
  CHECK(rotor_linear_from_state_dict<double>(to_state_dict(layer, conventions[0]), 8, 8, {}, sample)
            .parameters() == layer.parameters());
}

TEST_CASE("Samples that decide nothing, or fit nothing, are refused") {
  RotorNetwork<double> network(12, 10, options());
  const StateDict state = to_state_dict(network, CheckpointConvention::reversed_single_chunk);
  CheckpointSample sample;
  sample.x = random_matrix<double>(12, 5, 3);
  sample.y = network.forward(sample.x);
  const auto import_with = [&](const CheckpointSample& s) {
    return rotor_network_from_state_dict<double>(state, 12, 10, options(), s);
  };
  CHECK_NOTHROW(import_with(sample));
  CheckpointSample other = sample;
  other.x = sample.x.transpose();
  CHECK_THROWS_WITH(import_with(other), Contains("5 x 12") && Contains("12 x batch"));
  other = sample;
  other.x.resize(12, 0);
  other.y.resize(10, 0);
  CHECK_THROWS_AS(import_with(other), std::invalid_argument);
  other = sample;
  other.y.setZero();
  CHECK_THROWS_WITH(import_with(other), Contains("zero"));
  other.y(0, 0) = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(import_with(other), std::domain_error);
  other = sample;
  other.y = random_matrix<double>(10, 5, 9);
  CHECK_THROWS_WITH(import_with(other), Contains("not reproduced") && Contains("options"));
  other = sample;
  other.tolerance = 100;  // all pass: the smallest error counts
  CHECK(import_with(other).parameters() == network.parameters());
  other.y = 100 * random_matrix<double>(10, 5, 9);
  CHECK_THROWS_WITH(import_with(other), Contains("apart"));
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
