// SPDX-License-Identifier: MIT
// The program compress_checkpoint, there and back, and what it must refuse.

#ifdef COMPRESS_CHECKPOINT

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/llama.hpp"
#include "rotorlin/io/safetensors.hpp"
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
    const std::string command =
        std::string(COMPRESS_CHECKPOINT) + " " + placed(arguments) + " > " + path("log").string() + " 2>&1";
    return std::system(command.c_str()) == 0;
  }
  std::string log() const { return examples::read_file(path("log")); }

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
        std::filesystem::remove(entry.path());
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
