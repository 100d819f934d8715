// SPDX-License-Identifier: MIT
// One layer, used by several threads from its first call on. The thread sanitizer finds what does not show.
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "rotorlin/layers/any_layer.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

using namespace rotorlin;

namespace {

/// Threads that run the layer, copy it and assign it, none of them after another.
template <class L>
void share(const L& layer) {
  INFO(L::type_name);
  using S = typename L::Scalar;
  Matrix<S> x(layer.in_features(), 35);
  Random(1).fill_uniform(x, -1, 1);
  const Matrix<S> expected = L(layer).forward(x);
  for (int round = 0; round < 5; ++round) {
    const L shared = layer;  // not prepared yet
    std::vector<Matrix<S>> results(4);
    std::vector<std::optional<L>> copies(4);
    L assigned = layer;
    assigned.parameters() *= S(2);
    (void)assigned.forward(x);
    {
      std::vector<std::jthread> threads;
      for (auto& result : results) threads.emplace_back([&] { result = shared.forward(x); });
      for (auto& copy : copies) threads.emplace_back([&] { copy.emplace(shared); });
      threads.emplace_back([&] { assigned = shared; });
    }
    for (const auto& result : results) CHECK(result == expected);
    for (const auto& copy : copies) CHECK(copy->forward(x) == expected);
    CHECK(assigned.forward(x) == expected);
  }
}

}  // namespace

TEST_CASE("Layers are run, copied and assigned from by several threads at once") {
  for (const Kernel kernel : {Kernel::parity_blocks, Kernel::spinor, Kernel::shears, Kernel::dense}) {
    share(RotorLinear<float>(40, 24, {.single_rotor = true, .kernel = kernel}));
  }
  share(RotorNetwork<float>(32, 24, {.hidden = 16, .depth = 1, .width = 2}));
  share(RotorNetwork<double>(8, 8, {.hidden = 8, .depth = 1, .width = 2, .kernel = Kernel::dense}));
  share(DenseLinear<float>(12, 10));
  share(LowRankLinear<float>(12, 10, 3));
  share(BlockHadamardLinear<float>(12, 10, 4));
  share(KroneckerLinear<float>(12, 10));
  share(RotorEncoderLinear<float>(16, 8, {.rank = 2}));
  Sequential<float> model(16);
  model.add(RotorLinear<float>(16, 8)).add(ActivationLayer<float>(8)).add(DenseLinear<float>(8, 4));
  share(model);
  Matrix<float> atoms(12, 5), coefficients(5, 10);
  Random(2).fill_uniform(atoms, -1, 1);
  Random(3).fill_uniform(coefficients, -1, 1);
  const auto dictionary = std::make_shared<const SharedDictionary<float>>(atoms);
  share(SharedDictionaryLinear<float>(dictionary, coefficients, CoefficientStorage::sparse));
}
