// SPDX-License-Identifier: MIT
#include "rotorlin/files/registry.hpp"

#include <catch2/catch.hpp>
#include <variant>

#include "support/temporary_folder.hpp"

using namespace rotorlin;
using Catch::Contains;

TEST_CASE("a layer of any type is loaded by what its file says") {
  const test::TemporaryFolder folder;
  const auto check = [&]<class L>(const L& layer) {
    save(layer, folder / "layer");
    const AnyLayer<double> again = load_any<double>(folder / "layer");
    INFO(L::type_name);
    REQUIRE(std::holds_alternative<L>(again));
    CHECK(std::get<L>(again).describe() == layer.describe());
    const Matrix<double> x = Matrix<double>::Random(layer.in_features(), 2);
    std::visit([&](const auto& any) { CHECK(any.forward(x) == layer.forward(x)); }, again);
  };
  check(DenseLinear<double>(3, 2));
  check(LowRankLinear<double>(3, 2, 1));
  check(BlockHadamardLinear<double>(3, 2, 2));
  check(KroneckerLinear<double>(4, 4));
  check(RotorLinear<double>(4, 4));
  check(RotorNetwork<double>(4, 4));
  check(RotorEncoderLinear<double>(16, 16));
  check(ActivationLayer<double>(5));
  Sequential<double> model(4);
  model.add(DenseLinear<double>(4, 3));
  check(model);
}

TEST_CASE("what tools/rotorlin_torch.py writes is a layer") {
  // Trained in PyTorch; loading replays its self-test.
  const auto layer = load_any<float>(ROTORLIN_GOLDEN_DIR "/../files/from_torch.safetensors");
  CHECK(std::get<Sequential<float>>(layer).out_features() == 2);
}

TEST_CASE("a layer of an unknown type is refused with those that are known") {
  const test::TemporaryFolder folder;
  SafetensorsWriter writer;
  write_layer(writer, "a.", DenseLinear<float>(3, 2));
  writer.set_metadata("a.layer", "Convolution");
  writer.write(folder / "strange");
  const SafetensorsFile file(folder / "strange");
  CHECK_THROWS_WITH(read_any_layer<float>(file, "a."),
                    Contains("strange") && Contains("'a.'") && Contains("'Convolution'") &&
                        Contains("DenseLinear") && Contains("RotorNetwork"));
  CHECK_THROWS_WITH(load_any<float>(folder / "strange"), Contains("prefixes 'a.'"));
}
