// SPDX-License-Identifier: MIT
// Makes the seeds beside it: make_seeds tests/fuzz/seeds. From the repository's folder:
//     clang++ -std=c++20 -Iinclude -Iexamples -isystem /usr/include/eigen3 tests/fuzz/seeds/make_seeds.cpp
//     -lz
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/llama.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "rotorlin/layers/any_layer.hpp"

namespace fs = std::filesystem;
using namespace rotorlin;

namespace {

fs::path folder;

void put(const std::string& target, const std::string& name, const std::string& bytes) {
  fs::create_directories(folder / target);
  std::ofstream(folder / target / name, std::ios::binary) << bytes;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// "HEADER \0 VALUES", as fuzz.hpp takes it.
std::string apart(const SafetensorsWriter& writer) {
  const std::string file = text_of(writer.bytes());
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  return file.substr(sizeof length, length) + '\0' + file.substr(sizeof length + length);
}

template <class L>
void put_layer(const std::string& name, const L& layer) {
  SafetensorsWriter writer;
  write_layer(writer, "", layer);
  put("layers", name, apart(writer));
}

void make_safetensors() {
  SafetensorsWriter writer;
  writer.set_metadata("format", "pt");
  writer.add("a", Matrix<double>(Matrix<double>::Identity(2, 3)));
  writer.add("b", VectorX<float>(VectorX<float>::Ones(3)));
  writer.add("h", VectorX<Eigen::half>(VectorX<Eigen::half>::Ones(2)));
  writer.add("i", Eigen::Vector2i(1, -1));
  writer.add_raw("f4", DType("F4"), {2, 2}, std::vector<std::byte>(2));
  writer.add("empty", Matrix<float>(0, 4));
  put("safetensors", "several", apart(writer));
  put("safetensors", "whole_file", text_of(writer.bytes()));
  put("safetensors", "null_metadata",
      std::string(
          R"({"__metadata__":null,"x":{"dtype":"BOOL","more":[{}],"shape":[1],"data_offsets":[0,1]}})") +
          '\0' + '\1');
}

void make_layers() {
  put_layer("dense", DenseLinear<float>(2, 3));
  put_layer("low_rank", LowRankLinear<double>(3, 2, 1));
  put_layer("block_hadamard", BlockHadamardLinear<float>(3, 4, 2));
  put_layer("kronecker", KroneckerLinear<float>(4, 6, {.terms = 2}));
  put_layer("rotor", RotorLinear<float>(4, 4));
  put_layer("rotor_encoder", RotorEncoderLinear<float>(8, 4, {.rank = 2}));
  Sequential<float> block(4), model(8);
  block.add(RotorLinear<float>(4, 4))
      .add(ActivationLayer<float>(4, {.activation = Activation::prelu}))
      .add_input();
  model.add(block).add(ActivationLayer<float>(8, {.normalize = true})).add(DenseLinear<float>(8, 2));
  put_layer("sequential", model);
  put_layer("rotor_chunks", RotorLinear<float>(6, 4, {.chunk = 2, .width = 2, .single_rotor = true}));
  put_layer("network", RotorNetwork<float>(4, 4, {.hidden = 4, .depth = 1, .width = 2}));
  put_layer("network_plain", RotorNetwork<float>(4, 4, {.hidden = 2, .depth = 0, .use_permutations = false}));
}

void make_shared() {
  const auto dictionary = [](Index rows, Index rank, std::vector<Index> identity) {
    return std::make_shared<const SharedDictionary<float>>(Matrix<float>(Matrix<float>::Ones(rows, rank)),
                                                           std::move(identity));
  };
  const auto whole = dictionary(3, 2, {}), partial = dictionary(1, 2, {2, 0});
  Matrix<float> c(2, 3);
  c << 1, 0, 2, 0, 3, 0;
  const std::vector<NamedSharedLayer<float>> layers = {
      {"a", {whole, c, CoefficientStorage::dense, DictionarySide::input, VectorX<float>::Ones(3)}},
      {"b", {whole, c, CoefficientStorage::sparse, DictionarySide::input}},
      {"c", {partial, c.transpose(), CoefficientStorage::sparse, DictionarySide::output}}};
  SafetensorsWriter writer;
  write_shared_layers(writer, layers);
  put("shared_dictionaries", "three", apart(writer));
}

void make_llama() {
  for (const bool tied : {true, false}) {
    const examples::Llama model({.dim = 2,
                                 .hidden = 3,
                                 .layers = 1,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .vocabulary = 3,
                                 .sequence = 2,
                                 .tied = tied});
    fs::create_directories(folder / "llama");
    model.save(folder / "llama" / (tied ? "tied" : "classifier"));
  }
}

void make_tokenizer() {
  std::string bytes = "ab a";
  bytes += '\0';
  for (const std::string text : {" ", "a", "b", "ab", " a", "aba"}) {
    const float score = static_cast<float>(text.size());
    const auto length = static_cast<std::int32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&score), 4);
    bytes.append(reinterpret_cast<const char*>(&length), 4);
    bytes += text;
  }
  put("tokenizer", "six", bytes);
}

void make_idx() {
  const std::string idx = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
  put("idx", "plain", idx);
  const gzFile file = gzopen((folder / "idx" / "gzip").c_str(), "wb");
  gzwrite(file, idx.data(), static_cast<unsigned>(idx.size()));
  gzclose(file);
}

void make_npy() {
  const auto file = [&](const std::string& name, char version, const std::string& header,
                        const std::string& values) {
    std::string bytes = std::string("\x93NUMPY") + version + '\0' + static_cast<char>(header.size()) + '\0';
    if (version > 1) bytes += std::string(2, '\0');
    put("npy", name, bytes + header + values);
  };
  file("floats", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", std::string(24, '?'));
  file("fortran", 2, "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 1, 1), }\n", std::string(16, '?'));
  file("empty", 1, "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 1152921504606846976), }\n", "");
}

void make_index() {
  put("checkpoint_index", "two_shards",
      R"({"metadata":{"total_size":8},"weight_map":{"a.weight":"model-00001-of-00002.safetensors",)"
      R"("b.weight":"model-00002-of-00002.safetensors"}})");
  put("checkpoint_index", "config", R"({"model_type":"llama","hidden_size":8})");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  folder = argv[1];
  make_safetensors();
  make_layers();
  make_shared();
  make_llama();
  make_tokenizer();
  make_idx();
  make_npy();
  make_index();
}
