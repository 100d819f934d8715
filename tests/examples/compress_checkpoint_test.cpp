// SPDX-License-Identifier: MIT
// The program compress_checkpoint, there and back, and what it must refuse.

#ifdef COMPRESS_CHECKPOINT

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/llama.hpp"
#include "compress_checkpoint/size_report.hpp"
#include "rotorlin/files/shared_dictionary_file.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "support/llama_folder.hpp"
#include "support/temporary_folder.hpp"

namespace {

using examples::all_projections;
using examples::Index;
using examples::Llama;
using examples::Matrix;

Matrix<float> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<float> m(rows, cols);
  rotorlin::Random(seed).fill_uniform(m, -0.3, 0.3);
  return m;
}

template <class T>
void write_raw(const std::filesystem::path& path, const std::string& header, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(sizeof(T) * values.size()));
}

class Program {
 public:
  Program() {
    Llama model({16, 40, 3, 2, 1, 32, 32, true});
    model.embedding() = random_matrix(16, 32, 1);
    model.final_norm().setConstant(1.5f);
    std::uint64_t seed = 2;
    for (Index l = 0; l < 3; ++l) {
      model.ffn_norm(l) = random_matrix(16, 1, ++seed);
      for (const auto p : all_projections)
        model.weight(p, l) = random_matrix(model.out_features(p), model.in_features(p), ++seed);
    }
    model.save(path("model.bin"));
    std::vector<std::uint16_t> tokens(3000);
    rotorlin::Random random(7);
    for (auto& token : tokens) token = static_cast<std::uint16_t>(32 * random.uniform());
    write_raw(path("tokens.u16"), "", tokens);
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  /// Whether it succeeds. @ stands for the folder of the test.
  bool run(const std::string& arguments) const {
    return shell(std::string(COMPRESS_CHECKPOINT) + " " + arguments + " > @log 2> @errors");
  }
  bool shell(const std::string& command) const { return std::system(placed(command).c_str()) == 0; }
  std::string errors() const { return examples::read_file(path("errors")); }
  std::string log() const { return examples::read_file(path("log")) + errors(); }
  /// The one line that a run which must fail says, "" where it does not fail.
  std::string refusal(const std::string& arguments) const {
    if (run(arguments)) return "";
    const std::string text = errors();
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(text.find("--calibration FILE, --evaluation FILE") == text.npos);  // the usage
    return text;
  }

  /// Runs it until `reached`, then sends SIGKILL; whether it died of that.
  bool kill_when(std::vector<std::string> arguments, const std::function<bool()>& reached) const {
    std::vector<char*> pointers;
    arguments.insert(arguments.begin(), COMPRESS_CHECKPOINT);
    for (std::string& argument : arguments) pointers.push_back((argument = placed(argument)).data());
    pointers.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if (reached()) ::kill(child, SIGKILL);
    }
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

 private:
  std::string placed(std::string text) const {
    for (std::size_t at = 0; (at = text.find('@', at)) != text.npos;)
      text.replace(at, 1, folder_.path().string() + "/");
    return text;
  }

  test::TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("A model of llama2.c is compressed and comes back", "[examples][compress]") {
  const Program program;
  const std::string model = "@model.bin --calibration @tokens.u16 ";
  const std::string options[] = {"", "--ratio 0.5 --method svd_llm",
                                 "--method geopair_dense --identity-gauge", "--method plain_svd --threads 2",
                                 "--ratio 0"};
  for (const std::string& option : options) {
    INFO(option);
    const bool compressed = program.run(model + option + " --iterations 4 --out @small.safetensors");
    INFO(program.log());
    REQUIRE(compressed);
    const bool restored = program.run("--decompress @small.safetensors --out @dense.bin " + model);
    INFO(program.log());
    REQUIRE(restored);
    Llama before = Llama::load(program.path("model.bin")), after = Llama::load(program.path("dense.bin"));
    CHECK(before.embedding() == after.embedding());
    CHECK(before.ffn_norm(2) == after.ffn_norm(2));
    CHECK(before.final_norm() == after.final_norm());
    const bool same = before.weight(examples::Projection::w2, 1) == after.weight(examples::Projection::w2, 1);
    CHECK(same == (option == "--ratio 0"));
  }
}

TEST_CASE("Layers share the side and the company that the options name", "[examples][compress]") {
  const Program program;
  const auto shared = [&](const std::string& options) {
    const bool compressed = program.run("@model.bin --calibration @tokens.u16 --iterations 1 " + options +
                                        " --out @small.safetensors");
    INFO(program.log());
    REQUIRE(compressed);
    const rotorlin::SafetensorsFile file(program.path("small.safetensors"));
    return nlohmann::json::parse(file.metadata().at("shared_dictionary_layers"));
  };
  const auto outputs = [&](const std::string& options) {
    int count = 0;
    for (const auto& layer : shared(options)) count += layer.at("side") == "output" ? 1 : 0;
    return count;
  };
  CHECK(outputs("") == 3);  // w2
  CHECK(outputs("--input-side") == 0);

  const auto mixes_types = [&](const std::string& options) {
    std::map<std::string, std::set<std::string>> types;  // of every dictionary
    for (const auto& layer : shared(options)) {
      const std::string name = layer.at("name");
      types[layer.at("dictionary")].insert(name.substr(name.rfind('.')));
    }
    return std::any_of(types.begin(), types.end(), [](const auto& each) { return each.second.size() > 1; });
  };
  const std::string pairs = "--method geopair_dense --pairing adjacent ";
  CHECK_FALSE(mixes_types(pairs));
  CHECK(mixes_types(pairs + "--across-types"));
}

TEST_CASE("Any safetensors checkpoint is compressed and comes back", "[examples][compress]") {
  const Program program;
  std::filesystem::create_directory(program.path("seen"));
  rotorlin::SafetensorsWriter checkpoint;
  const Matrix<float> norm = random_matrix(12, 1, 1);
  checkpoint.add("norm.weight", norm.col(0));
  checkpoint.set_metadata("format", "pt");
  for (int l = 0; l < 3; ++l) {
    const std::string name = "block." + std::to_string(l) + ".fc";
    checkpoint.add(name + ".weight", random_matrix(20, 12, 10 + static_cast<std::uint64_t>(l)));
    if (l == 0) {
      checkpoint.add(name + ".bias", random_matrix(20, 1, 5).col(0).cast<Eigen::half>());
      rotorlin::SafetensorsWriter seen;
      seen.add("batch.0", random_matrix(40, 12, 20));
      seen.add("batch.1", random_matrix(30, 12, 21).cast<double>());
      seen.write(program.path("seen/" + name + ".safetensors"));
    } else {
      std::vector<float> values(5 * 10 * 12);
      rotorlin::Random random(30);
      for (float& value : values) value = static_cast<float>(random.uniform());
      std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 10, 12), }";
      header.resize(117, ' ');
      write_raw(program.path("seen/" + name + ".npy"),
                std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n", values);
    }
  }
  checkpoint.write(program.path("model.safetensors"));
  const std::string model = "@model.safetensors --activations @seen --pattern 'block.*.fc.weight:fc' ";
  const bool compressed = program.run(model + "--iterations 4 --out @small.safetensors");
  INFO(program.log());
  REQUIRE(compressed);
  const bool restored = program.run("--decompress @small.safetensors --out @dense.safetensors " + model);
  INFO(program.log());
  REQUIRE(restored);
  const rotorlin::SafetensorsFile before(program.path("model.safetensors")),
      after(program.path("dense.safetensors"));
  CHECK(after.tensors().size() == before.tensors().size());
  CHECK(after.metadata() == before.metadata());
  CHECK(after.vector<float>("norm.weight") == before.vector<float>("norm.weight"));
  CHECK(after.info("block.0.fc.bias").dtype == rotorlin::DType::f16);
  CHECK(after.vector<float>("block.0.fc.bias") == before.vector<float>("block.0.fc.bias"));

  CHECK_FALSE(program.run("@model.safetensors --activations @seen --out @none.safetensors"));
  CHECK(program.log().find("matches a pattern") != std::string::npos);
  std::filesystem::resize_file(program.path("seen/block.1.fc.npy"), 500);
  CHECK_FALSE(program.run(model + "--out @none.safetensors"));
  CHECK(program.log().find("truncated") != std::string::npos);
  std::filesystem::remove(program.path("seen/block.1.fc.npy"));
  CHECK_FALSE(program.run(model + "--out @none.safetensors"));
  CHECK(program.log().find("no activations for 'block.1.fc.weight'") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(program.path("none.safetensors")));
}

TEST_CASE("Rounding to 16 bits and outputs of zero are no error of the way back", "[examples][compress]") {
  const Program program;
  rotorlin::SafetensorsWriter checkpoint, seen;
  checkpoint.add("block.0.fc.weight",
                 (random_matrix(20, 2, 1) * random_matrix(2, 12, 2)).cast<Eigen::bfloat16>());
  Matrix<float> reads_nothing = Matrix<float>::Zero(20, 12), x = random_matrix(40, 12, 3);
  reads_nothing.col(0).setOnes();
  x.col(0).setZero();
  checkpoint.add("block.1.fc.weight", reads_nothing);
  checkpoint.add("dictionaries.mine", random_matrix(3, 1, 4));
  checkpoint.write(program.path("model.safetensors"));
  seen.add("x", x);
  seen.write(program.path("block.0.fc.safetensors"));
  const std::string model = "@model.safetensors --activations @ --pattern 'block.*.fc.weight:fc:block.0.fc' ";
  for (const char* method : {"geopair_dense", "svd_llm", "geopair_sparse"}) {
    CAPTURE(method);
    const bool compressed = program.run(model + "--out @small.safetensors --method " + method);
    INFO(program.log());
    REQUIRE(compressed);
    const bool restored = program.run("--decompress @small.safetensors --out @dense.safetensors " + model);
    INFO(program.log());
    REQUIRE(restored);
    const rotorlin::SafetensorsFile after(program.path("dense.safetensors"));
    CHECK(after.tensors().size() == 3);
    CHECK(after.info("block.0.fc.weight").dtype == rotorlin::DType::bf16);
  }
}

TEST_CASE("A killed compression leaves its target as it was", "[examples][compress]") {
  const Program program;
  const auto target = program.path("small.safetensors");
  const std::string before = target.filename().string() + ".";
  rotorlin::SafetensorsWriter checkpoint, seen;
  checkpoint.add("block.0.fc.weight", random_matrix(20, 12, 1));
  checkpoint.add("block.1.fc.weight", random_matrix(20, 12, 2));
  checkpoint.add("embedding", Matrix<float>::Ones(2000, 4000));  // what takes long to write
  checkpoint.write(program.path("model.safetensors"));
  seen.add("x", random_matrix(40, 12, 3));
  seen.write(program.path("block.0.fc.safetensors"));
  // The largest file beside the target that will be or was a spool, or the target itself; 0 where none is.
  const auto unfinished = [&](bool spool) {
    std::uintmax_t size = 0;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(program.path(""))) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(before) || (name.find("spool") != name.npos) != spool) continue;
      const auto found = entry.file_size(gone);
      if (!gone) size = std::max(size, found + 1);
    }
    return size;
  };
  const auto clear = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(program.path(""))) {
      if (entry.path().filename().string().starts_with(target.filename().string()))
        std::filesystem::remove_all(entry.path());
    }
  };
  const std::string old = "what was there";
  for (const int moment : {0, 1, 2, 3}) {
    for (const bool exists : {false, true}) {
      CAPTURE(moment, exists);
      clear();
      if (exists) write_raw(target, old, std::vector<char>());
      const bool killed = program.kill_when(
          {"@model.safetensors", "--activations", "@", "--pattern", "block.*.fc.weight:fc:block.0.fc",
           "--iterations", "4", "--out", "@small.safetensors"},
          [&] {
            if (moment == 0) return unfinished(true) > 0;
            return unfinished(false) > (moment == 1 ? 0U : moment == 2 ? 1000U : 20000000U);
          });
      // where it was done before it could be killed, the file is whole
      const bool there = std::filesystem::exists(target);
      if (!there || examples::read_file(target) == old) {
        CHECK(there == exists);
        CHECK(killed);
      } else {
        CHECK(rotorlin::SafetensorsFile(target).contains("embedding"));
      }
    }
  }
}

namespace {

using Catch::Contains;

/// |(W - W') X| / |W X| of weights out x in, and samples in x count.
double error_of(const Matrix<float>& weight, const Matrix<float>& other, const Matrix<float>& x) {
  return ((weight - other) * x).norm() / (weight * x).norm();
}

/// A folder of Llama's names in two shards: `layers` layers of q and down, activations in `@seen`.
void write_sharded(const Program& program, int layers) {
  std::filesystem::create_directories(program.path("model"));
  std::filesystem::create_directories(program.path("seen"));
  nlohmann::json index{{"metadata", {{"total_size", 1}}}};
  rotorlin::SafetensorsWriter shards[2];
  const auto add = [&](int shard, const std::string& name, const Matrix<float>& m) {
    shards[shard].add(name, m);
    index["weight_map"][name] = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
  };
  add(0, "model.embed_tokens.weight", random_matrix(7, 16, 99));
  for (int l = 0; l < layers; ++l) {
    const std::string prefix = "model.layers." + std::to_string(l) + ".";
    const auto seed = 10 * static_cast<std::uint64_t>(l);
    add(0, prefix + "self_attn.q_proj.weight", random_matrix(16, 16, seed + 1));
    add(1, prefix + "mlp.down_proj.weight", random_matrix(16, 40, seed + 2));
    for (const auto& [name, features] : {std::pair("self_attn.q_proj", 16), std::pair("mlp.down_proj", 40)}) {
      rotorlin::SafetensorsWriter seen;
      seen.add("x", random_matrix(100, features, seed + 3));
      seen.write(program.path("seen/" + prefix + name + ".safetensors"));
    }
  }
  shards[1].set_metadata("format", "pt");
  for (int s = 0; s < 2; ++s)
    shards[s].write(program.path("model/model-0000" + std::to_string(s + 1) + "-of-00002.safetensors"));
  std::ofstream(program.path("model/model.safetensors.index.json")) << index.dump();
  std::ofstream(program.path("model/config.json")) << R"({"model_type": "mistral"})";
}

}  // namespace

TEST_CASE("A folder is what its index says, there and back", "[examples][compress]") {
  const Program program;
  write_sharded(program, 2);
  const std::string rest = " --activations @seen --iterations 2 --method svd_llm --out ";
  const auto bytes = [&](const std::string& name) { return examples::read_file(program.path(name)); };
  const bool plain = program.run("@model" + rest + "@plain.safetensors");
  INFO(program.log());
  REQUIRE(plain);
  CHECK_THAT(program.log(),
             Contains("preset llama (model_type 'mistral' in") && Contains("q: 2 of 16 x 16, F32"));
  rotorlin::SafetensorsWriter stray;
  stray.add("model.layers.0.self_attn.q_proj.weight", random_matrix(16, 16, 77));
  stray.add("stray", random_matrix(40, 40, 77));
  stray.write(program.path("model/consolidated.safetensors"));
  REQUIRE(program.run("@model" + rest + "@small.safetensors"));
  CHECK_THAT(program.log(), Contains("ignored: 'consolidated.safetensors'"));
  CHECK(bytes("plain.safetensors") == bytes("small.safetensors"));
  REQUIRE(program.run("@model/model.safetensors.index.json" + rest + "@small.safetensors"));
  CHECK(bytes("plain.safetensors") == bytes("small.safetensors"));

  // shards in, shards out; one file where one is named; the file knows its layers
  const bool restored =
      program.run("--decompress @small.safetensors --out @dense @model --activations @seen");
  INFO(program.log());
  REQUIRE(restored);
  CHECK_THAT(program.log(), Contains("relative errors of 4 layers as reported"));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(program.path("dense")))
    names.insert(entry.path().filename().string());
  CHECK(names == std::set<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                       "model-00002-of-00002.safetensors", "model.safetensors.index.json"});
  for (const char* same : {"config.json", "model.safetensors.index.json"})
    CHECK(bytes(std::string("dense/") + same) == bytes(std::string("model/") + same));
  for (const char* shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    const rotorlin::SafetensorsFile before(program.path(std::string("model/") + shard)),
        after(program.path(std::string("dense/") + shard));
    CHECK(before.metadata() == after.metadata());
    REQUIRE(before.tensors().size() == after.tensors().size());
    for (const auto& tensor : before.tensors()) {
      CHECK(after.info(tensor.name).dtype == tensor.dtype);
      CHECK(after.info(tensor.name).shape == tensor.shape);
    }
  }
  REQUIRE(program.run("--decompress @small.safetensors --out @one.safetensors"));
  CHECK(rotorlin::SafetensorsFile(program.path("one.safetensors")).tensors().size() == 5);
  CHECK_THAT(program.refusal("--decompress @small.safetensors --out @dense"),
             Contains("not an empty folder"));
  CHECK_THAT(program.refusal("--decompress @small.safetensors --out @model"),
             Contains("not an empty folder"));

  std::filesystem::rename(program.path("model/model-00002-of-00002.safetensors"), program.path("away"));
  CHECK_THAT(program.refusal("@model" + rest + "@none.safetensors"),
             Contains("'model-00002-of-00002.safetensors'"));
  std::filesystem::remove(program.path("model/model.safetensors.index.json"));
  CHECK_THAT(program.refusal("@model" + rest + "@none.safetensors"), Contains("don't form one checkpoint"));
  std::filesystem::remove(program.path("model/consolidated.safetensors"));
  CHECK_THAT(program.refusal("@model" + rest + "@none.safetensors"), Contains("1 of 2 files"));
  std::filesystem::rename(program.path("away"), program.path("model/model-00002-of-00002.safetensors"));
  REQUIRE(program.run("@model" + rest + "@small.safetensors"));
  CHECK_FALSE(std::filesystem::exists(program.path("none.safetensors")));
}

TEST_CASE("Weights stored in x out are compressed by their inputs", "[examples][compress]") {
  const Program program;
  std::filesystem::create_directories(program.path("model"));
  rotorlin::SafetensorsWriter checkpoint, seen;
  Matrix<float> x = random_matrix(200, 20, 1);
  for (Index j = 0; j < 20; ++j) x.col(j) *= std::exp(-0.3f * static_cast<float>(j));
  const Matrix<float> square = random_matrix(20, 20, 2), wide = random_matrix(20, 60, 3);
  checkpoint.add("h.0.attn.c_proj.weight", square);
  checkpoint.add("h.0.attn.c_proj.bias", random_matrix(20, 1, 4).col(0));
  checkpoint.add("h.0.attn.c_attn.weight", wide);
  checkpoint.add("h.0.attn.c_attn.bias", random_matrix(60, 1, 5).col(0));
  checkpoint.write(program.path("model/model.safetensors"));
  seen.add("x", x);
  for (const char* name : {"c_proj", "c_attn"})
    seen.write(program.path(std::string("h.0.attn.") + name + ".safetensors"));
  const std::string out = " --activations @ --method svd_llm --out @small.safetensors ";
  const auto check = [&] {
    const bool restored = program.run("--decompress @small.safetensors --out @dense.safetensors");
    INFO(program.log());
    REQUIRE(restored);
    const rotorlin::SafetensorsFile file(program.path("small.safetensors")),
        dense(program.path("dense.safetensors"));
    const auto layers = nlohmann::json::parse(file.metadata().at("compressed_checkpoint")).at("layers");
    const Matrix<float> samples = x.transpose();
    for (const auto& [name, weight] :
         {std::pair("h.0.attn.c_proj", square), std::pair("h.0.attn.c_attn", wide)}) {
      const Matrix<float> other = dense.matrix<float>(std::string(name) + ".weight");
      REQUIRE(other.rows() == weight.rows());
      const double error = error_of(weight.transpose(), other.transpose(), samples);
      CHECK(error == Approx(layers.at(name).at("relative_error").get<double>()).epsilon(1e-3));
      CHECK(error < 0.3);
    }
  };
  const std::string both = "'h.*.attn.c_proj.weight:p:transposed' --pattern 'h.*.attn.c_attn.weight:a'";
  for (const std::string& way : {std::string("@model --preset gpt2"), "@model --pattern " + both,
                                 std::string("@model --preset gpt2 --pattern 'h.*.attn.c_proj.weight:p' "
                                             "--pattern 'h.*.attn.c_attn.weight:a'")}) {
    CAPTURE(way);
    const bool compressed = program.run(way + out);
    INFO(program.log());
    REQUIRE(compressed);
    CHECK_THAT(program.log(), Contains("stored transposed"));
    check();
  }
  CHECK_THAT(program.refusal("@model" + out), Contains("add --preset gpt2"));
  CHECK_THAT(program.refusal("@model --pattern 'h.*.attn.c_proj.weight:p'" + out),
             Contains("is square") && Contains("Conv1D"));
  CHECK_THAT(program.refusal("@model --pattern 'h.*.attn.c_attn.weight:p:linear'" + out),
             Contains("20 x 60") && Contains(":transposed"));
  CHECK_THAT(program.refusal("@model --preset gpt3" + out), Contains("not one of llama, gpt2"));
  std::ofstream(program.path("model/config.json")) << R"({"model_type": "gpt2"})";
  REQUIRE(program.run("@model" + out));
  CHECK_THAT(program.log(), Contains("preset gpt2 (model_type 'gpt2'"));
  check();
  std::ofstream(program.path("model/config.json")) << R"({"model_type": "gpt_bigcode"})";
  CHECK_THAT(program.refusal("@model" + out),
             Contains("no model_type 'gpt_bigcode'") && !Contains("add --preset"));
}

TEST_CASE("A result larger than its source says so", "[examples][compress]") {
  const Program program;
  write_sharded(program, 1);  // small matrices, beside which what describes them counts
  const std::string model = "@model --activations @seen --method svd_llm --out @small.safetensors --ratio ";
  REQUIRE(program.run(model + "0"));
  CHECK_THAT(program.errors(), Contains("the compressed file is LARGER"));
  CHECK_THAT(examples::read_file(program.path("log")), Contains("WARNING: the compressed file is LARGER"));
  using examples::size_warning;
  CHECK(size_warning({10, 10, 100, 100}).empty());
  CHECK_THAT(size_warning({10, 10, 1101, 1000}), Contains("the compressed file is LARGER") &&
                                                     Contains("1,101 bytes instead of 1,000, 10.1 % more") &&
                                                     !Contains("weights"));
  CHECK_THAT(size_warning({20, 10, 90, 100}), Contains("weights are LARGER") && !Contains("file is"));
  CHECK_THAT(examples::size_report({20, 10, 90, 100}),
             Contains("20 bytes of weights instead of 10: 200.00 % kept"));
}

TEST_CASE("Weights of 16 bits stay 16 bits, and the ratio counts from them", "[examples][compress]") {
  const Program program;
  std::filesystem::create_directory(program.path("seen"));
  for (const bool half : {false, true}) {
    rotorlin::SafetensorsWriter checkpoint;
    for (int l = 0; l < 4; ++l) {
      const std::string name = "block." + std::to_string(l) + ".fc";
      const auto seed = static_cast<std::uint64_t>(l) + 1;
      const Matrix<float> weight = random_matrix(96, 48, seed);
      if (half) {
        checkpoint.add(name + ".weight", weight.cast<Eigen::half>());
      } else {
        checkpoint.add(name + ".weight", weight.cast<Eigen::bfloat16>());
      }
      checkpoint.add(name + ".bias", random_matrix(96, 1, seed + 50).col(0).cast<Eigen::bfloat16>());
      rotorlin::SafetensorsWriter seen;
      seen.add("x", random_matrix(200, 48, seed + 10));
      seen.write(program.path("seen/" + name + ".safetensors"));
    }
    checkpoint.write(program.path("model.safetensors"));
    const std::string model = "@model.safetensors --activations @seen --pattern 'block.*.fc.weight:fc' ";
    for (const std::string& options :
         {std::string("--method geopair_sparse"), std::string("--method svd_llm"),
          std::string("--method geopair_dense --identity-gauge")}) {
      CAPTURE(half, options);
      const bool compressed =
          program.run(model + options + " --iterations 4 --ratio 0.3 --out @small.safetensors");
      INFO(program.log());
      REQUIRE(compressed);
      CHECK_THAT(program.log(), !Contains("LARGER"));
      const rotorlin::SafetensorsFile file(program.path("small.safetensors"));
      CHECK(file.info("dictionaries.0.atoms").dtype == (half ? rotorlin::DType::f16 : rotorlin::DType::bf16));
      double kept = 0;
      for (const auto& tensor : file.tensors()) {
        if (!tensor.name.ends_with(".bias")) kept += static_cast<double>(tensor.end - tensor.begin);
      }
      const double dense = 4 * 96 * 48 * 2;
      CHECK(kept <= 0.7 * dense * 1.01);
      CHECK(kept >= 0.6 * dense);
      const bool restored = program.run("--decompress @small.safetensors --out @dense.safetensors " + model);
      INFO(program.log());
      REQUIRE(restored);
      CHECK(rotorlin::SafetensorsFile(program.path("dense.safetensors")).info("block.0.fc.bias").dtype ==
            rotorlin::DType::bf16);
    }
  }
}

TEST_CASE("Values of few bits: smaller still, and back", "[examples][compress]") {
  const Program program;
  std::filesystem::create_directory(program.path("seen"));
  rotorlin::SafetensorsWriter checkpoint;
  for (int l = 0; l < 2; ++l) {
    const std::string name = "block." + std::to_string(l) + ".fc";
    const auto seed = static_cast<std::uint64_t>(l) + 1;
    checkpoint.add(name + ".weight", random_matrix(96, 48, seed));
    rotorlin::SafetensorsWriter seen;
    seen.add("x", random_matrix(200, 48, seed + 10));
    seen.write(program.path("seen/" + name + ".safetensors"));
  }
  checkpoint.write(program.path("model.safetensors"));
  const std::string model = "@model.safetensors --activations @seen --pattern 'block.*.fc.weight:fc' ";
  for (const std::string& options : {std::string("--bits 8"), std::string("--bits 4 --method svd_llm")}) {
    CAPTURE(options);
    const bool compressed = program.run(model + options + " --iterations 4 --out @small.safetensors");
    INFO(program.log());
    REQUIRE(compressed);
    const bool eight = options == "--bits 8";
    const rotorlin::SafetensorsFile file(program.path("small.safetensors"));
    CHECK(file.info("dictionaries.0.atoms").dtype == (eight ? rotorlin::DType::i8 : rotorlin::DType::u8));
    CHECK(file.info("dictionaries.0.atoms.scales").dtype == rotorlin::DType::f16);
    double kept = 0;
    for (const auto& tensor : file.tensors()) kept += static_cast<double>(tensor.end - tensor.begin);
    CHECK(kept < (eight ? 0.3 : 0.15) * 2 * 96 * 48 * 4);
    const bool restored = program.run("--decompress @small.safetensors --out @dense.safetensors " + model);
    INFO(program.log());
    REQUIRE(restored);
    CHECK_THAT(program.log(), Contains("relative errors of 2 layers as reported"));
  }
  CHECK_THAT(program.refusal(model + "--bits 9 --out @none.safetensors"), Contains("--bits"));
}

TEST_CASE("What is read is not written, under whatever name", "[examples][compress]") {
  const Program program;
  write_sharded(program, 1);
  const std::string rest = " --activations @seen --method plain_svd --out ";
  REQUIRE(program.run("@model" + rest + "@small.safetensors"));
  std::filesystem::create_hard_link(program.path("model/model-00002-of-00002.safetensors"),
                                    program.path("hard.safetensors"));
  std::filesystem::create_symlink("small.safetensors", program.path("link.safetensors"));
  std::map<std::string, std::string> before;
  const auto snapshot = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(program.path(""))) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name != "log" && name != "errors")
        files[entry.path()] = examples::read_file(entry.path());
    }
    return files;
  };
  before = snapshot();
  const std::string q = "model.layers.0.self_attn.q_proj.safetensors";
  for (const std::string& out :
       {std::string("@model/model-00001-of-00002.safetensors"), std::string("@hard.safetensors"),
        std::string("@model/../seen/") + q, "@seen/" + q}) {
    CAPTURE(out);
    CHECK_THAT(program.refusal("@model" + rest + out), Contains("would be overwritten, and is read"));
  }
  const std::string back = "--decompress @small.safetensors --out ";
  for (const std::string& out : {std::string("@small.safetensors"), std::string("@link.safetensors"),
                                 std::string("@./small.safetensors")})
    CHECK_THAT(program.refusal(back + out), Contains("would be overwritten, and is read"));
  for (const std::string& out : {std::string("@hard.safetensors"), "@seen/" + q})
    CHECK_THAT(program.refusal(back + out + " @model --activations @seen"), Contains("would be overwritten"));
  CHECK_THAT(program.refusal("@model.bin --calibration @tokens.u16 --out @tokens.u16"),
             Contains("does not end in"));
  std::filesystem::copy_file(program.path("tokens.u16"), program.path("tokens.safetensors"));
  CHECK_THAT(program.refusal("@model.bin --calibration @tokens.safetensors --out @tokens.safetensors"),
             Contains("would be overwritten"));
  std::filesystem::remove(program.path("tokens.safetensors"));
  REQUIRE(program.shell("mkfifo @pipe.safetensors"));
  CHECK_THAT(program.refusal("@model" + rest + "@pipe.safetensors"), Contains("only regular files"));
  CHECK_THAT(program.refusal(back + "@pipe.safetensors"), Contains("only regular files"));
  std::filesystem::create_directory(program.path("folder.safetensors"));
  CHECK_THAT(program.refusal("@model" + rest + "@folder.safetensors"), Contains("is a folder"));
  CHECK(snapshot() == before);
}

TEST_CASE("Layers that no token reached are compressed as they are", "[examples][compress]") {
  const Program program;
  rotorlin::SafetensorsWriter checkpoint, seen, none;
  for (int e = 0; e < 3; ++e)
    checkpoint.add("experts." + std::to_string(e) + ".w1.weight",
                   random_matrix(20, 12, 1 + static_cast<std::uint64_t>(e)));
  checkpoint.write(program.path("model.safetensors"));
  seen.add("x", random_matrix(40, 12, 3));
  seen.write(program.path("experts.0.w1.safetensors"));
  none.add("x", Matrix<float>(0, 12));
  none.write(program.path("experts.1.w1.safetensors"));
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 12), }";
  header.resize(117, ' ');
  write_raw(program.path("experts.2.w1.npy"), std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n",
            std::vector<float>());
  const std::string model = "@model.safetensors --activations @ --pattern 'experts.*.w1.weight:w1' ";
  for (const char* method : {"geopair_dense", "svd_llm", "geopair_sparse"}) {
    const bool compressed = program.run(model + "--out @small.safetensors --method " + method);
    INFO(program.log());
    REQUIRE(compressed);
    CHECK_THAT(program.log(), Contains("no calibration tokens reached 'experts.1.w1', 'experts.2.w1'"));
    const bool restored = program.run("--decompress @small.safetensors --out @dense.safetensors " + model);
    INFO(program.log());
    CHECK(restored);
  }
}

TEST_CASE("Gram matrices serve as well as activations", "[examples][compress]") {
  const Program program;
  std::filesystem::create_directory(program.path("seen"));
  rotorlin::SafetensorsWriter checkpoint, grams, seen;
  const Matrix<float> x = random_matrix(100, 12, 3);
  const std::string q = "model.layers.0.self_attn.q_proj", k = "model.layers.0.self_attn.k_proj";
  checkpoint.add(q + ".weight", random_matrix(12, 12, 1));
  checkpoint.add(k + ".weight", random_matrix(8, 12, 2));
  checkpoint.write(program.path("model.safetensors"));
  seen.add("x", x);
  seen.write(program.path("seen/" + q + ".safetensors"));
  const auto write_grams = [&](const Matrix<double>& gram, const std::string& tokens) {
    rotorlin::SafetensorsWriter writer;
    writer.add(q, gram);
    writer.set_metadata("tokens", tokens);
    writer.set_metadata("same_inputs", nlohmann::json({{k, q}}).dump());
    writer.write(program.path("grams.safetensors"));
  };
  const Matrix<double> sum = x.cast<double>().transpose() * x.cast<double>();
  const std::string tokens = nlohmann::json({{q, 100}}).dump(), options = " --method svd_llm --out ";
  write_grams(sum, tokens);
  REQUIRE(program.run("@model.safetensors --activations @seen" + options + "@a.safetensors"));
  const bool compressed =
      program.run("@model.safetensors --grams @grams.safetensors" + options + "@b.safetensors");
  INFO(program.log());
  REQUIRE(compressed);
  const auto layers = [&](const char* name) {
    return rotorlin::load_shared_layers<double>(program.path(name));
  };
  for (std::size_t i = 0; i < 2; ++i)
    CHECK((layers("a.safetensors")[i].layer.to_dense() - layers("b.safetensors")[i].layer.to_dense()).norm() <
          1e-4);
  CHECK(program.run(
      "--decompress @b.safetensors --out @dense.safetensors @model.safetensors --grams @grams.safetensors"));

  const std::string command = "@model.safetensors --grams @grams.safetensors" + options + "@none.safetensors";
  write_grams(sum, nlohmann::json({{q, 0}}).dump());
  CHECK(program.run("@model.safetensors --grams @grams.safetensors" + options + "@c.safetensors"));
  CHECK_THAT(program.log(), Contains("no calibration tokens reached"));
  Matrix<double> wrong = sum;
  wrong(0, 1) += 5;
  write_grams(wrong, tokens);
  CHECK_THAT(program.refusal(command), Contains("not symmetric"));
  wrong(0, 1) = std::numeric_limits<double>::quiet_NaN();
  write_grams(wrong, tokens);
  CHECK_THAT(program.refusal(command), Contains("NaN"));
  write_grams(sum.topRows(5), tokens);
  CHECK_THAT(program.refusal(command), Contains("[5, 12]") && Contains("expected a Gram matrix"));
  write_grams(sum.topLeftCorner(5, 5), tokens);
  CHECK_THAT(program.refusal(command), Contains("12 x 12") && Contains("has 5 features"));
  for (const char* bad : {"[]", "x", "{\"a\": -1}", "{\"a\": \"b\"}"}) {
    write_grams(sum, bad);
    CHECK_THAT(program.refusal(command), Contains("grams.safetensors"));
  }
  CHECK_THAT(program.refusal(command + " --activations @seen"), Contains("choose one"));
  CHECK_FALSE(std::filesystem::exists(program.path("none.safetensors")));
}

TEST_CASE("A folder of Hugging Face's Llama is calibrated by its own forward pass", "[examples][compress]") {
  const Program program;
  Llama model = Llama::load(program.path("model.bin"));
  test::write_llama_folder<float>(program.path("folder"), model, 2);
  const std::string options = " --method svd_llm --ratio 0.4 --out @small.safetensors";
  const auto line = [&](const std::string& key) {
    const std::string log = program.log();
    const std::size_t at = log.find(key);
    return at == log.npos ? log : log.substr(at, log.find_first_of("\n ", at + key.size()) - at);
  };
  REQUIRE(program.run("@model.bin --calibration @tokens.u16" + options));
  const std::string error = line("relative error "), entropy = line("cross-entropy "), of = line("original ");
  REQUIRE(program.run("@folder --calibration @tokens.u16" + options));
  CHECK(line("relative error ") == error);
  CHECK(line("cross-entropy ") == entropy);
  CHECK(line("original ") == of);
  for (const std::string target : {"@dense", "@dense.safetensors"}) {  // the latter without a config.json
    const bool back =
        program.run("--decompress @small.safetensors --out " + target + " @folder --calibration @tokens.u16");
    INFO(program.log());
    REQUIRE(back);
    CHECK_THAT(program.log(), Contains("relative errors of 21 layers as reported"));
    CHECK(line("cross-entropy ") == entropy);
  }

  // one kind of layer alone; and evaluation without calibration
  REQUIRE(program.run("@folder --calibration @tokens.u16 --pattern model.layers.*.mlp.down_proj.weight:down" +
                      options));
  CHECK_THAT(program.log(), Contains("down: 3 of 16 x 40"));
  rotorlin::SafetensorsWriter grams;
  for (int l = 0; l < 3; ++l)
    grams.add("model.layers." + std::to_string(l) + ".mlp.down_proj", Matrix<double>::Identity(40, 40));
  grams.write(program.path("grams.safetensors"));
  REQUIRE(
      program.run("@folder --grams @grams.safetensors --evaluation @tokens.u16 "
                  "--pattern model.layers.*.mlp.down_proj.weight:down" +
                  options));
  CHECK_THAT(program.log(), Contains("cross-entropy "));

  const std::string none = " --out @none.safetensors";
  CHECK_THAT(program.refusal("@folder --calibration @tokens.u16 --grams @grams.safetensors" + none),
             Contains("choose one"));
  CHECK_THAT(program.refusal("@folder --grams @grams.safetensors --tokenizer @tokens.u16" + none),
             Contains("--tokenizer without --calibration"));
  CHECK_THAT(program.refusal("@folder --calibration @tokens.u16 --pattern lm_*:head" + none),
             Contains("matches a pattern"));
  CHECK_THAT(program.refusal("@folder --calibration @tokens.u16 --pattern "
                             "model.embed_tokens.weight:embedding" +
                             none),
             Contains("forward pass"));
  CHECK_THAT(program.refusal("@folder --calibration @tokens.txt" + none), Contains("--tokenizer"));
  nlohmann::json config = test::llama_config_json(model.config());
  config["rope_scaling"] = {{"rope_type", "llama3"}};
  test::write_bytes(program.path("folder/config.json"), config.dump());
  CHECK_THAT(program.refusal("@folder --calibration @tokens.u16" + none),
             Contains("config.json has rope_scaling") && Contains("--grams"));
  CHECK_FALSE(std::filesystem::exists(program.path("none.safetensors")));
}

TEST_CASE("A killed compression goes on from its finished groups", "[examples][compress]") {
  const Program program;
  write_sharded(program, 12);
  const auto groups = [&] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(program.path(""))) {
      if (!entry.path().string().ends_with(".groups")) continue;
      for (const auto& file : std::filesystem::directory_iterator(entry.path()))
        count += file.path().extension() == ".safetensors" ? 1U : 0U;
    }
    return count;
  };
  const std::vector<std::string> arguments = {"@model", "--activations", "@seen", "--group-size",
                                              "1",      "--iterations",  "60"};
  std::string command;
  for (const std::string& argument : arguments) command += argument + " ";
  REQUIRE(program.run(command + "--out @whole.safetensors"));
  CHECK(groups() == 0);
  std::vector<std::string> killed = arguments;
  killed.insert(killed.end(), {"--out", "@small.safetensors"});
  REQUIRE(program.kill_when(killed, [&] { return groups() >= 3; }));
  CHECK_FALSE(std::filesystem::exists(program.path("small.safetensors")));
  const std::size_t done = groups();
  REQUIRE(done >= 3);
  REQUIRE(
      program.run(command + "--iterations 1 --out @small.safetensors"));  // another run does not take them
  CHECK_THAT(program.log(), !Contains("interrupted"));
  CHECK(groups() == done);
  const bool resumed = program.run(command + "--out @small.safetensors");
  INFO(program.log());
  REQUIRE(resumed);
  CHECK_THAT(program.log(), Contains(std::to_string(done) + " of 24 groups are there"));
  CHECK(examples::read_file(program.path("small.safetensors")) ==
        examples::read_file(program.path("whole.safetensors")));
  CHECK(groups() == 0);
}

TEST_CASE("What fails is said in a line, a full standard output included", "[examples][compress]") {
  const Program program;
  CHECK_THAT(program.refusal("--ratio x"), Contains("error: --ratio: 'x' is not a number"));
  CHECK_THAT(program.refusal("--nonsense"), Contains("unknown argument --nonsense"));
  for (const char* option : {"--preset gpt2", "--grams @x", "--activations @", "--pattern a.*:b"})
    CHECK_THAT(
        program.refusal(std::string("@model.bin --calibration @tokens.u16 --out @a.safetensors ") + option),
        Contains("has no meaning"));
  CHECK(program.run("--help"));
  CHECK_THAT(program.log(), Contains("--calibration FILE, --evaluation FILE"));
  if (!std::filesystem::exists("/dev/full")) return;
  const std::string model =
      " @model.bin --calibration @tokens.u16 --method plain_svd --out @small.safetensors";
  for (const std::string& arguments : {std::string(" --help"), model}) {
    CHECK_FALSE(program.shell(COMPRESS_CHECKPOINT + arguments + " > /dev/full 2> @errors"));
    CHECK_THAT(program.errors(), Contains("standard output can't be written"));
  }
  // a disk that is full speaks of the user's file
  CHECK_FALSE(
      program.shell("trap '' XFSZ; ulimit -f 1; " COMPRESS_CHECKPOINT + model + " > /dev/null 2> @errors"));
  CHECK_THAT(program.errors(), Contains("small.safetensors can't be written") && !Contains("spool"));
}

TEST_CASE("compress_checkpoint refuses what makes no sense", "[examples][compress]") {
  const Program program;
  const std::string model = "@model.bin --calibration @tokens.u16 ";
  REQUIRE(program.run(model + "--iterations 1 --out @small.safetensors"));
  for (const std::string& arguments :
       {model, model + "--out @none.bin", model + "--ratio 1 --out @none.safetensors",
        model + "--ratio -0.1 --out @none.safetensors", model + "--ratio 0.9999 --out @none.safetensors",
        std::string("@model.bin --out @none.safetensors"),
        std::string("@absent.bin --calibration @tokens.u16 --out @none.safetensors"),
        std::string("--decompress @model.bin --out @none.bin"),
        std::string("--decompress @absent.safetensors --out @none.bin")}) {
    INFO(arguments);
    CHECK_FALSE(program.run(arguments));
  }
  std::filesystem::resize_file(program.path("small.safetensors"), 3000);
  CHECK_FALSE(program.run("--decompress @small.safetensors --out @none.bin"));
  std::filesystem::resize_file(program.path("model.bin"), 3000);
  CHECK_FALSE(program.run(model + "--out @none.safetensors"));
  CHECK_FALSE(std::filesystem::exists(program.path("none.bin")));
  CHECK_FALSE(std::filesystem::exists(program.path("none.safetensors")));
}

#endif
