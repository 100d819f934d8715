// SPDX-License-Identifier: MIT
#include "compress_checkpoint/checkpoint_files.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_folder.hpp"

namespace {

using Catch::Contains;
using examples::CheckpointFiles;
using examples::parse_checkpoint_index;

/// A folder of safetensors files whose tensors hold a number each.
class Shards {
 public:
  Shards& file(const std::string& name, const std::vector<std::pair<std::string, float>>& tensors) {
    rotorlin::SafetensorsWriter writer;
    for (const auto& [tensor, value] : tensors)
      writer.add(tensor, rotorlin::Matrix<float>::Constant(1, 1, value));
    writer.write(folder / name);
    return *this;
  }
  Shards& index(const std::string& text, const std::string& name = "model.safetensors.index.json") {
    test::write_bytes(folder / name, text);
    return *this;
  }
  std::string error(const std::string& name = "") const {
    try {
      const CheckpointFiles files(name.empty() ? folder.path() : folder / name);
      return "none";
    } catch (const std::runtime_error& refused) {
      return refused.what();
    }
  }
  CheckpointFiles open(const std::string& name = "") const {
    return CheckpointFiles(name.empty() ? folder.path() : folder / name);
  }
  static float value(const CheckpointFiles& files, const std::string& tensor) {
    return files.file_of(tensor).matrix<float>(tensor)(0, 0);
  }

  test::TemporaryFolder folder;
};

constexpr const char* two_shards =
    R"({"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors",
                                                    "b": "model-00002-of-00002.safetensors"}})";

}  // namespace

TEST_CASE("an index says which files and tensors belong", "[examples][checkpoint]") {
  Shards shards;
  shards.file("model-00001-of-00002.safetensors", {{"a", 1}, {"b", 9}, {"stray", 9}})
      .file("model-00002-of-00002.safetensors", {{"b", 2}})
      .file("consolidated.safetensors", {{"a", 9}, {"b", 9}})
      .file("adapter_model.safetensors", {{"lora", 9}})
      .index(two_shards);
  for (const char* way : {"", "model.safetensors.index.json"}) {
    const CheckpointFiles files = shards.open(way);
    CHECK(files.tensors().size() == 2);
    CHECK(Shards::value(files, "a") == 1);
    CHECK(Shards::value(files, "b") == 2);
    CHECK_FALSE(files.contains("stray"));
    CHECK(files.names() ==
          std::vector<std::string>{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"});
    CHECK(files.ignored() ==
          std::vector<std::string>{"adapter_model.safetensors", "consolidated.safetensors"});
    CHECK(files.index_text() == two_shards);
    CHECK(files.read_paths().size() == 3);
    CHECK(files.config() == shards.folder / "config.json");
  }
  // links, as in a cache of downloads, are files; and an index of another name is one too
  std::filesystem::rename(shards.folder / "model-00001-of-00002.safetensors", shards.folder / "blob");
  std::filesystem::create_symlink("blob", shards.folder / "model-00001-of-00002.safetensors");
  std::filesystem::rename(shards.folder / "model.safetensors.index.json",
                          shards.folder / "unet.safetensors.index.json");
  CHECK(Shards::value(shards.open(), "a") == 1);
  shards.index(two_shards, "vae.safetensors.index.json");
  CHECK_THAT(shards.error(), Contains("several indices") && Contains("unet") && Contains("vae"));
}

TEST_CASE("what an index names and is not there is named", "[examples][checkpoint]") {
  Shards shards;
  shards.file("model-00001-of-00002.safetensors", {{"a", 1}}).index(two_shards);
  CHECK_THAT(shards.error(), Contains("model-00002-of-00002.safetensors") && Contains("index.json names"));
  CHECK_THAT(shards.error("model.safetensors.index.json"), Contains("'model-00002-of-00002.safetensors'"));
  shards.file("model-00002-of-00002.safetensors", {{"c", 1}});
  CHECK_THAT(shards.error(),
             Contains("'b'") && Contains("'model-00002-of-00002.safetensors', which does not"));
  shards.file("model-00001-of-00002.safetensors", {{"a", 1}, {"b", 1}});
  CHECK_THAT(shards.error(), Contains("it stands in 'model-00001-of-00002.safetensors'"));
  test::write_bytes(shards.folder / "model-00002-of-00002.safetensors", "short");
  CHECK_THAT(shards.error(), Contains("model-00002-of-00002.safetensors"));
  std::filesystem::remove(shards.folder / "model-00002-of-00002.safetensors");
  std::filesystem::create_symlink("gone", shards.folder / "model-00002-of-00002.safetensors");
  CHECK_THAT(shards.error(), Contains("names 'model-00002-of-00002.safetensors'"));
  // a link to an index that is gone is no missing index
  std::filesystem::remove(shards.folder / "model.safetensors.index.json");
  std::filesystem::create_symlink("gone", shards.folder / "model.safetensors.index.json");
  CHECK_THAT(shards.error(), Contains("model.safetensors.index.json can't be read"));
}

TEST_CASE("an index that makes no sense is refused", "[examples][checkpoint]") {
  const auto error = [](const std::string& text) {
    try {
      parse_checkpoint_index(text);
      return std::string("none");
    } catch (const std::runtime_error& refused) {
      return std::string(refused.what());
    }
  };
  const auto placed = [&](const std::string& file) {
    return error(R"({"weight_map": {"a": )" + file + "}}");
  };
  for (const char* text : {"", "x", "{", "{\"weight_map\": {\"a\": \"b.safetensors\"}} x",
                           R"({"weight_map": {"a": "b.safetensors", "a": "c.safetensors"}})"})
    CHECK_THAT(error(text), Contains("not valid JSON"));
  for (const char* text : {"[]", "null", "3", "{}", R"({"weight_map": []})", R"({"weight_map": null})"})
    CHECK_THAT(error(text), Contains("no object 'weight_map'"));
  CHECK_THAT(error(R"({"weight_map": {}})"), Contains("empty"));
  for (const char* file : {"1", "null", "[]", "{}", "true"}) CHECK_THAT(placed(file), Contains("of 'a' is"));
  for (const char* file : {R"("../b.safetensors")", R"("/b.safetensors")", R"("x/b.safetensors")",
                           R"("..\\b.safetensors")", R"("./b.safetensors")", R"("b\u0000.safetensors")"})
    CHECK_THAT(placed(file), Contains("beside the index"));
  for (const char* file : {R"("")", R"("..")", R"("model.bin")"})
    CHECK_THAT(placed(file), Contains("ending in .safetensors"));
  CHECK(placed(R"("b.safetensors")") == "none");
  CHECK(error(std::string("\xef\xbb\xbf") + R"({"weight_map": {"a": "b.safetensors"}})") == "none");
  CHECK_THAT(error(std::string(100000, '[')), Contains("not valid JSON"));
}

TEST_CASE("without an index a checkpoint is one file or a whole set", "[examples][checkpoint]") {
  {
    Shards one;
    one.file("anything.safetensors", {{"a", 1}});
    test::write_bytes(one.folder / "config.json", "{}");
    test::write_bytes(one.folder / "._anything.safetensors", "what file systems leave");
    CHECK(Shards::value(one.open(), "a") == 1);
    CHECK(Shards::value(one.open("anything.safetensors"), "a") == 1);
    one.file("adapter_model.safetensors", {{"b", 2}});
    CHECK_THAT(one.error(), Contains("'adapter_model.safetensors', 'anything.safetensors'") &&
                                Contains("don't form one checkpoint"));
    CHECK(Shards::value(one.open("anything.safetensors"), "a") == 1);
  }
  Shards set;
  CHECK_THAT(set.error(), Contains("has no file ending in .safetensors"));
  set.file("m-00001-of-00003.safetensors", {{"a", 1}}).file("m-00003-of-00003.safetensors", {{"c", 3}});
  CHECK_THAT(set.error(),
             Contains("2 of 3 files") && Contains("'00002'") && Contains("m-00003-of-00003.safetensors"));
  CHECK_THAT(set.error("m-00001-of-00003.safetensors"), Contains("one of 3 files"));
  set.file("m-00002-of-00003.safetensors", {{"b", 2}});
  CHECK(set.open().tensors().size() == 3);
  CHECK(Shards::value(set.open(), "b") == 2);
  set.file("m-00002-of-00003.safetensors", {{"b", 2}, {"c", 4}});
  CHECK_THAT(set.error(), Contains("'c'") && Contains("m-00002-of-00003.safetensors") && Contains("too"));
  set.file("m-00002-of-00003.safetensors", {{"b", 2}}).file("n-00002-of-00003.safetensors", {{"d", 2}});
  CHECK_THAT(set.error(), Contains("don't form one checkpoint") && Contains("n-00002-of-00003.safetensors"));
  std::filesystem::remove(set.folder / "n-00002-of-00003.safetensors");
  set.file("m-00002-of-00004.safetensors", {{"d", 2}});
  CHECK_THAT(set.error(), Contains("don't form one checkpoint"));
  {
    Shards lonely;
    lonely.file("m-00001-of-00002.safetensors", {{"a", 1}});
    CHECK_THAT(lonely.error(), Contains("1 of 2 files") && Contains("'00002'"));
    std::filesystem::rename(lonely.folder / "m-00001-of-00002.safetensors",
                            lonely.folder / "m-00000-of-00001.safetensors");
    CHECK_THAT(lonely.error(), Contains("don't form one checkpoint"));
    std::filesystem::rename(lonely.folder / "m-00000-of-00001.safetensors",
                            lonely.folder / "m-00001-of-00001.safetensors");
    CHECK(Shards::value(lonely.open(), "a") == 1);
    CHECK(Shards::value(lonely.open("m-00001-of-00001.safetensors"), "a") == 1);
    CHECK_THAT(lonely.error("absent"), Contains("does not exist"));
  }
}
