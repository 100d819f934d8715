// SPDX-License-Identifier: MIT
#include "rotorlin/layers/shared_dictionary_linear.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "rotorlin/files/shared_dictionary_file.hpp"
#include "support/allocation_counter.hpp"
#include "support/layer_laws.hpp"
#include "support/temporary_folder.hpp"

using namespace rotorlin;
using Catch::Contains;
using test::random_matrix;

namespace {

template <class S>
std::shared_ptr<const SharedDictionary<S>> random_dictionary(Index features, Index rank, bool identity) {
  if (!identity) return std::make_shared<SharedDictionary<S>>(random_matrix<S>(features, rank, 1));
  std::vector<Index> rows(static_cast<std::size_t>(features));
  std::iota(rows.begin(), rows.end(), Index{0});
  Random(2).shuffle(rows);
  rows.resize(static_cast<std::size_t>(rank));
  return std::make_shared<SharedDictionary<S>>(random_matrix<S>(features - rank, rank, 3), rows);
}

/// Sparse coefficients have an empty column and a full one.
template <class S>
SharedDictionaryLinear<S> random_layer(std::shared_ptr<const SharedDictionary<S>> dictionary, Index own,
                                       CoefficientStorage storage, DictionarySide side, bool bias) {
  const bool input = side == DictionarySide::input;
  Matrix<S> c =
      input ? random_matrix<S>(dictionary->rank(), own, 4) : random_matrix<S>(own, dictionary->rank(), 4);
  if (storage == CoefficientStorage::sparse) {
    for (Index j = 0; j < c.cols(); ++j) {
      for (Index i = 0; i < c.rows(); ++i) {
        if (j == 1 ? true : j != 0 && (i + j) % 3 != 0) c(i, j) = 0;
      }
    }
  }
  const VectorX<S> b =
      bias ? VectorX<S>(random_matrix<S>(input ? own : dictionary->features(), 1, 5)) : VectorX<S>();
  return {dictionary, c, storage, side, b};
}

}  // namespace

TEST_CASE("SharedDictionaryLinear obeys the laws of layers") {
  for (const bool identity : {false, true}) {
    for (const auto storage : {CoefficientStorage::dense, CoefficientStorage::sparse}) {
      for (const auto side : {DictionarySide::input, DictionarySide::output}) {
        CAPTURE(identity, static_cast<int>(storage), static_cast<int>(side));
        test::check_layer_laws(
            random_layer(random_dictionary<double>(6, 4, identity), 5, storage, side, identity));
        test::check_layer_laws(
            random_layer(random_dictionary<float>(5, 3, identity), 7, storage, side, !identity));
      }
    }
  }
}

TEST_CASE("sparse products agree with dense ones for every batch") {
  for (const auto side : {DictionarySide::input, DictionarySide::output}) {
    auto dictionary = random_dictionary<double>(9, 7, true);
    auto sparse = random_layer(dictionary, 6, CoefficientStorage::sparse, side, true);
    SharedDictionaryLinear<double> dense(dictionary, sparse.coefficients(), CoefficientStorage::dense, side,
                                         sparse.bias());
    CHECK(sparse.nonzeros() < dense.nonzeros());
    for (const Index batch : {1, 2, 3, 8, 31, 33, 100}) {
      const Matrix<double> x = random_matrix<double>(sparse.in_features(), batch, 6),
                           g = random_matrix<double>(sparse.out_features(), batch, 7);
      CHECK(test::relative_difference(sparse.forward(x), dense.forward(x)) < 1e-13);
      Matrix<double> from_sparse(x.rows(), batch), from_dense(x.rows(), batch);
      SharedDictionaryLinear<double>::Workspace workspace;
      sparse.zero_gradients();
      dense.zero_gradients();
      sparse.backward(x, g, from_sparse, workspace);
      dense.backward(x, g, from_dense, workspace);
      CHECK(test::relative_difference(from_sparse, from_dense) < 1e-13);
      const Eigen::Map<const Matrix<double>> all(dense.gradients().data(), sparse.pattern().rows,
                                                 sparse.pattern().cols());
      for (Index j = 0, p = 0; j < all.cols(); ++j) {
        for (; p < static_cast<Index>(sparse.pattern().starts[static_cast<std::size_t>(j) + 1]); ++p) {
          const Index i = sparse.pattern().indices[static_cast<std::size_t>(p)];
          CHECK(sparse.gradients()[p] == Approx(all(i, j)).margin(1e-12));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("blocks of samples and single ones agree with the matrix, at sizes beyond every tile", "",
                   float, double) {
  using S = TestType;
  const double tolerance = std::is_same_v<S, float> ? 1e-5 : 1e-14;
  for (const bool identity : {false, true}) {
    for (const auto storage : {CoefficientStorage::dense, CoefficientStorage::sparse}) {
      for (const auto side : {DictionarySide::input, DictionarySide::output}) {
        const auto layer = random_layer(random_dictionary<S>(205, 139, identity), 77, storage, side, true);
        const Matrix<S> dense = layer.to_dense();
        typename SharedDictionaryLinear<S>::Workspace workspace;
        for (const Index batch : {1, 2, 15, 17, 100, 129, 300}) {
          CAPTURE(identity, static_cast<int>(storage), static_cast<int>(side), batch);
          // columns of larger matrices, and what lies around the result stays
          const Matrix<S> x = random_matrix<S>(dense.cols() + 3, batch, 6);
          Matrix<S> y = Matrix<S>::Constant(dense.rows() + 2, batch, 7);
          layer.forward(x.topRows(dense.cols()), y.topRows(dense.rows()), workspace);
          const Matrix<S> expected = (dense * x.topRows(dense.cols())).colwise() + layer.bias();
          CHECK(test::relative_difference(Matrix<S>(y.topRows(dense.rows())), expected) < tolerance);
          CHECK((y.bottomRows(2).array() == 7).all());
        }
      }
    }
  }
}

TEST_CASE("a dictionary of identity rows alone is a dense layer, and one of zeros has a parameter") {
  const auto nothing =
      std::make_shared<SharedDictionary<float>>(Matrix<float>(0, 4), std::vector<Index>{2, 0, 1, 3});
  const Matrix<float> c = random_matrix<float>(4, 3, 1), x = random_matrix<float>(4, 5, 2);
  const SharedDictionaryLinear<float> layer(nothing, c);
  CHECK(nothing->features() == 4);
  CHECK(layer.to_dense().col(2) == c.row(0).transpose());
  CHECK(test::relative_difference(layer.forward(x), layer.to_dense() * x) < 1e-6);

  const SharedDictionaryLinear<float> zero(nothing, Matrix<float>::Zero(4, 3), CoefficientStorage::sparse);
  CHECK(zero.nonzeros() == 1);
  CHECK(zero.forward(x).isZero(0));
}

TEST_CASE("what does not make a layer is refused") {
  using Rows = std::vector<Index>;
  const auto dictionary = random_dictionary<float>(5, 3, false);
  const Matrix<float> c = Matrix<float>::Ones(3, 2);
  CHECK_THROWS_WITH(SharedDictionaryLinear<float>(dictionary, Matrix<float>::Ones(4, 2)),
                    Contains("4 x 2") && Contains("3 x out"));
  CHECK_THROWS_AS(SharedDictionaryLinear<float>(nullptr, c), std::invalid_argument);
  CHECK_THROWS_AS(SharedDictionaryLinear<float>(dictionary, c, CoefficientStorage::dense,
                                                DictionarySide::input, VectorX<float>::Zero(3)),
                  std::invalid_argument);
  CHECK_THROWS_WITH(SharedDictionaryLinear<float>(dictionary, c, static_cast<CoefficientStorage>(2)),
                    Contains("storage = 2"));
  CHECK_THROWS_WITH(
      SharedDictionaryLinear<float>(dictionary, c, CoefficientStorage::dense, static_cast<DictionarySide>(5)),
      Contains("side = 5"));
  CHECK_THROWS_AS(SharedDictionary<float>(Matrix<float>(3, 0)), std::invalid_argument);
  CHECK_THROWS_AS(SharedDictionary<float>(Matrix<float>::Zero(2, 2), Rows{0}), std::invalid_argument);
  CHECK_THROWS_AS(SharedDictionary<float>(Matrix<float>::Zero(2, 2), Rows{0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(SharedDictionary<float>(Matrix<float>::Zero(2, 2), Rows{0, 4}), std::invalid_argument);
  CHECK_THROWS_AS(SharedDictionary<float>(Matrix<float>::Constant(2, 2, NAN)), std::domain_error);
  ColumnPattern pattern{3, {0, 1, 2}, {0, 3}};
  const auto from_pattern = [&] {
    return SharedDictionaryLinear<float>(dictionary, pattern, VectorX<float>::Ones(2), DictionarySide::input,
                                         {});
  };
  CHECK_THROWS_AS(from_pattern(), std::invalid_argument);
  pattern.indices = {0, 2};
  CHECK(from_pattern().nonzeros() == 2);
  pattern.starts = {0, 2, 1};
  CHECK_THROWS_AS(from_pattern(), std::invalid_argument);
}

TEST_CASE("files hold a dictionary once, and layers come back sharing it") {
  const test::TemporaryFolder folder;
  const auto first = random_dictionary<float>(6, 4, true), second = random_dictionary<float>(5, 3, false),
             nothing = std::make_shared<const SharedDictionary<float>>(Matrix<float>(0, 2),
                                                                       std::vector<Index>{1, 0});
  std::vector<NamedSharedLayer<float>> layers;
  const auto add = [&](const char* name, const auto& dictionary, CoefficientStorage storage,
                       DictionarySide side, bool bias) {
    layers.push_back({name, random_layer<float>(dictionary, 7, storage, side, bias)});
  };
  add("a.q", first, CoefficientStorage::dense, DictionarySide::input, true);
  add("a.k", first, CoefficientStorage::sparse, DictionarySide::input, false);
  add("down", second, CoefficientStorage::dense, DictionarySide::output, false);
  add("up", second, CoefficientStorage::sparse, DictionarySide::output, true);
  add("plain", nothing, CoefficientStorage::dense, DictionarySide::input, false);
  save_shared_layers(layers, folder / "layers");
  CHECK(folder.count_files() == 1);

  const auto again = load_shared_layers<float>(folder / "layers");
  REQUIRE(again.size() == layers.size());
  const Matrix<float> x = random_matrix<float>(7, 3, 9);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    CHECK(again[i].name == layers[i].name);
    CHECK(again[i].layer.describe() == layers[i].layer.describe());
    CHECK(again[i].layer.parameters() == layers[i].layer.parameters());
    CHECK(again[i].layer.to_dense() == layers[i].layer.to_dense());
  }
  CHECK(again[0].layer.dictionary() == again[1].layer.dictionary());
  CHECK(again[2].layer.dictionary() == again[3].layer.dictionary());
  CHECK(again[0].layer.dictionary() != again[2].layer.dictionary());
  CHECK(load_shared_layers<double>(folder / "layers")[1].layer.to_dense().isApprox(
      layers[1].layer.to_dense().cast<double>(), 1e-6));

  SECTION(
      "values are stored in 16 bits where that is asked for, and self-tests are those of what is stored") {
    for (const auto& [dtype, epsilon] : {std::pair(DType::bf16, 0x1p-8), std::pair(DType::f16, 0x1p-11)}) {
      save_shared_layers(layers, folder / "half", {.dtype = dtype});
      const SafetensorsFile file(folder / "half");
      for (const char* name : {"dictionaries.0.atoms", "a.q.coefficients", "a.k.values", "up.values"})
        CHECK(file.info(name).dtype == dtype);
      CHECK(file.info("a.q.bias").dtype == DType::f32);
      const auto half = read_shared_layers<float>(file);
      const auto rounded = rounded_layers(layers, {.dtype = dtype});
      for (std::size_t i = 0; i < layers.size(); ++i) {
        CHECK(half[i].layer.parameters() == rounded[i].layer.parameters());
        CHECK(half[i].layer.describe() == layers[i].layer.describe());
        CHECK(half[i].layer.to_dense() == rounded[i].layer.to_dense());
        const double difference =
            test::relative_difference(half[i].layer.to_dense(), layers[i].layer.to_dense());
        CHECK(difference > 0);
        CHECK(difference < 4 * epsilon);
      }
      CHECK(half[0].layer.dictionary() == half[1].layer.dictionary());
    }
    save_shared_layers(layers, folder / "wide", {.dtype = DType::f64});
    CHECK(load_shared_layers<float>(folder / "wide")[0].layer.parameters() == layers[0].layer.parameters());

    auto huge = layers;
    huge[2].layer.parameters()[1] = 1e5f;
    CHECK_THROWS_WITH(save_shared_layers(huge, folder / "huge", {.dtype = DType::f16}),
                      Contains("'down'") && Contains("range of F16"));
    CHECK_NOTHROW(save_shared_layers(huge, folder / "huge", {.dtype = DType::bf16}));
    CHECK_THROWS_WITH(save_shared_layers(layers, folder / "u8", {.dtype = DType::u8}),
                      Contains("dtype = U8"));
    CHECK_THROWS_AS(save_shared_layers(layers, folder / "f4", {.dtype = DType("F4")}), std::invalid_argument);
    CHECK_FALSE(std::filesystem::exists(folder / "u8"));
  }

  SECTION("forged files do not load") {
    const SafetensorsFile file(folder / "layers");
    CHECK(file.info("dictionaries.0.atoms").shape == std::vector<Index>{2, 4});
    const auto forged = [&](const std::string& changed, const auto& change) {
      SafetensorsWriter writer;
      for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
      for (const TensorInfo& tensor : file.tensors()) {
        if (tensor.name == changed) {
          change(writer);
        } else {
          writer.add_raw(tensor.name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
        }
      }
      writer.write(folder / "forged");
      return load_shared_layers<float>(folder / "forged");
    };
    const auto nothing_added = [](SafetensorsWriter&) {};
    for (const char* missing : {"a.k.values", "a.k.mask", "dictionaries.1.atoms", "a.q.coefficients"}) {
      CHECK_THROWS_AS(forged(missing, nothing_added), std::runtime_error);
    }
    CHECK_THROWS_WITH(forged("a.k.mask",
                             [](SafetensorsWriter& writer) {
                               writer.add("a.k.mask", VectorX<std::uint8_t>::Constant(4, 255));
                             }),
                      Contains("a.k") && Contains("forged"));
    CHECK_THROWS_WITH(
        forged("a.q.bias",
               [](SafetensorsWriter& writer) { writer.add("a.q.bias", VectorX<float>::Constant(7, 100)); }),
        Contains("a.q") && Contains("self-test"));
    CHECK_THROWS_AS(forged("dictionaries.0.identity_rows",
                           [](SafetensorsWriter& writer) {
                             writer.add("dictionaries.0.identity_rows",
                                        VectorX<std::int32_t>::Constant(4, 2));
                           }),
                    std::runtime_error);
  }
  SECTION("numbers that no layer can have are refused, before anything of their size is made") {
    const SafetensorsFile file(folder / "layers");
    const std::string list = file.metadata().at("shared_dictionary_layers");
    const auto with_list = [&](const std::string& text) {
      SafetensorsWriter writer;
      writer.set_metadata("shared_dictionary_layers", text);
      for (const TensorInfo& tensor : file.tensors())
        writer.add_view(tensor.name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
      writer.write(folder / "forged");
      const std::size_t largest = test::largest_allocation_of([&] {
        CHECK_THROWS_AS(load_shared_layers<float>(folder / "forged"), std::runtime_error);
        CHECK_THROWS_WITH(load_shared_layers<float>(folder / "forged"),
                          Contains("forged") && !Contains("json.exception"));
      });
      CHECK(largest < 4 * std::filesystem::file_size(folder / "forged"));
    };
    const nlohmann::json good = nlohmann::json::parse(list);
    for (const std::size_t layer : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
      for (const char* key : {"in", "out"}) {
        for (const char* number : {"1e30", "-1", "18446744073709551615", "9223372036854775807", "4e9", "0",
                                   "8.5", "1000000000000", "null", "true", "[]", "\"7\""}) {
          nlohmann::json changed = good;
          changed[layer][key] = nlohmann::json::parse(number);
          INFO(key << " of " << layer << " is " << number);
          with_list(changed.dump());
        }
      }
    }
    for (const char* key : {"name", "dictionary", "side", "storage", "self_test"}) {
      for (const char* value : {"null", "7", "\"x\"", "{}"}) {
        nlohmann::json changed = good;
        changed[0][key] = nlohmann::json::parse(value);
        with_list(changed.dump());
      }
      nlohmann::json changed = good;
      changed[0].erase(key);
      with_list(changed.dump());
    }
    nlohmann::json twice = good;
    twice.push_back(good[0]);
    with_list(twice.dump());
    for (const char* text : {"", "[", "3", "[3]", "{\"a\":3}", "[[]]"}) with_list(text);
  }

  layers.push_back(layers[0]);
  CHECK_THROWS_AS(save_shared_layers(layers, folder / "twice"), std::invalid_argument);
  layers.back().name = "a\xff";
  CHECK_THROWS_WITH(save_shared_layers(layers, folder / "twice"),
                    Contains("UTF-8") && !Contains("json.exception"));
  CHECK_THROWS_AS(save_shared_layers(layers, folder / "twice"), std::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(folder / "twice"));
}
