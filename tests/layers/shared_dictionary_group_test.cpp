// SPDX-License-Identifier: MIT
#include "rotorlin/layers/shared_dictionary_group.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "rotorlin/core/random.hpp"
#include "support/allocation_counter.hpp"

using namespace rotorlin;
using Catch::Contains;

namespace {

using Shared = SharedDictionaryLinear<float>;
using Group = SharedDictionaryGroup<float>;

Matrix<float> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<float> m(rows, cols);
  Random(seed).fill_uniform(m, -1, 1);
  return m;
}

std::shared_ptr<const SharedDictionary<float>> random_dictionary(bool identity) {
  if (!identity) return std::make_shared<SharedDictionary<float>>(random_matrix(70, 43, 1));
  std::vector<Index> rows(43);
  std::iota(rows.begin(), rows.end(), Index{13});
  return std::make_shared<SharedDictionary<float>>(random_matrix(27, 43, 1), rows);
}

Shared random_layer(const Shared::Dictionary& dictionary, Index own, CoefficientStorage storage,
                    DictionarySide side, std::uint64_t seed) {
  const bool input = side == DictionarySide::input;
  Matrix<float> c = input ? random_matrix(43, own, seed) : random_matrix(own, 43, seed);
  if (storage == CoefficientStorage::sparse) {
    for (Index i = 0; i < c.size(); ++i) {
      if (i * i % 7 > 2) c.data()[i] = 0;
    }
  }
  const VectorX<float> bias =
      seed % 2 == 0 ? VectorX<float>(random_matrix(input ? own : 70, 1, seed + 9)) : VectorX<float>();
  return {dictionary, c, storage, side, bias};
}

/// Two layers of the group with other widths (input side), a dense and a sparse one among them.
std::vector<Shared> three_layers(DictionarySide side, bool identity) {
  const auto dictionary = random_dictionary(identity);
  const bool input = side == DictionarySide::input;
  std::vector<Shared> layers;
  layers.push_back(random_layer(dictionary, 51, CoefficientStorage::dense, side, 2));
  layers.push_back(random_layer(dictionary, input ? 130 : 51, CoefficientStorage::sparse, side, 3));
  layers.push_back(random_layer(dictionary, input ? 5 : 51, CoefficientStorage::sparse, side, 4));
  return layers;
}

std::vector<const Shared*> pointers(const std::vector<Shared>& layers) {
  std::vector<const Shared*> result;
  for (const Shared& layer : layers) result.push_back(&layer);
  return result;
}

}  // namespace

TEST_CASE("A group gives what its layers give one by one, and allocates nothing the second time") {
  for (const auto side : {DictionarySide::input, DictionarySide::output}) {
    for (const bool identity : {false, true}) {
      const auto layers = three_layers(side, identity);
      const Group group(pointers(layers));
      CHECK(group.size() == 3);
      CHECK(group.in_features() == layers[0].in_features());
      CHECK(&group.layer(1) == &layers[1]);
      Group::Workspace workspace;
      for (const Index batch : {1, 2, 16, 17, 130, 1}) {
        CAPTURE(static_cast<int>(side), identity, batch);
        const Matrix<float> x = random_matrix(layers[0].in_features(), batch, 20);
        // rows of one matrix, as q, k and v of an attention may lie
        Index rows = 0;
        for (const Shared& layer : layers) rows += layer.out_features();
        Matrix<float> y = Matrix<float>::Constant(rows + 1, batch, 7);
        std::vector<MatrixRef<float>> outputs;
        rows = 0;
        for (const Shared& layer : layers) {
          outputs.emplace_back(y.middleRows(rows, layer.out_features()));
          rows += layer.out_features();
        }
        group.forward(x, outputs, workspace);
        const long before = test::allocations();
        group.forward(x, outputs, workspace);
        CHECK(test::allocations() == before);
        for (std::size_t i = 0; i < 3; ++i) CHECK(outputs[i] == layers[i].forward(x));
        CHECK((y.bottomRows(1).array() == 7).all());
        CHECK(group.forward(x)[2] == outputs[2]);
      }
    }
  }
}

TEST_CASE("Layers that have not all in common are no group") {
  const auto layers = three_layers(DictionarySide::input, false);
  const auto refuses = [](std::vector<const Shared*> group, const char* reason) {
    CHECK_THROWS_WITH(Group(std::move(group)), Contains(reason));
  };
  refuses({}, "no layers");
  refuses({&layers[0], nullptr}, "layer 1 is a null pointer");
  const auto equal = three_layers(DictionarySide::input, false);
  refuses({&layers[0], &equal[0]}, "dictionary and side are not shared and the same");
  const auto dictionary = layers[0].dictionary();
  const auto square = random_layer(dictionary, 70, CoefficientStorage::dense, DictionarySide::output, 2);
  refuses({&layers[0], &square}, "not the same");
  const auto other = random_layer(dictionary, 9, CoefficientStorage::dense, DictionarySide::output, 2);
  refuses({&square, &other}, "layer 1 has 9 inputs, layer 0 70");
}

TEST_CASE("Outputs that are no memory of their own are refused, and so are other shapes") {
  auto layers = three_layers(DictionarySide::input, true);
  const Group group(pointers(layers));
  Group::Workspace workspace;
  Matrix<float> x = random_matrix(70, 4, 1), a(51, 4), b(130, 4), c(5, 4);
  const auto refuses = [&](std::vector<MatrixRef<float>> outputs, const char* reason) {
    CHECK_THROWS_WITH(group.forward(x, outputs, workspace), Contains(reason));
  };
  refuses({a, b}, "2 outputs for 3 layers");
  refuses({a, c, b}, "expected 130 x 4");
  refuses({a, b, x.topRows(5)}, "x and y share the same memory");
  refuses({a, b, a.topRows(5)}, "outputs 0 and 2 share the same memory");
  refuses({a, b, Eigen::Map<Matrix<float>>(layers[0].parameters().data(), 5, 4)}, "the layer's parameters");
  const Matrix<float> narrow = x.topRows(69);
  std::vector<MatrixRef<float>> outputs = {a, b, c};
  CHECK_THROWS_WITH(group.forward(narrow, outputs, workspace), Contains("expected 70 x"));
}
