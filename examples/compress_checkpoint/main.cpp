// SPDX-License-Identifier: MIT
// Compresses the linear layers of a transformer's checkpoint by dictionaries that they share, and back.

#include <cstdio>

#include "common/arguments.hpp"
#include "common/output.hpp"
#include "common/progress.hpp"
#include "compress.hpp"

namespace {

using namespace examples;
using rotorlin::Pairing;

constexpr const char* usage =
    R"(Compresses the linear layers of a transformer without training, by dictionaries that they share.

compress_checkpoint MODEL.bin --calibration FILE [options] --out FILE.safetensors
compress_checkpoint MODEL --calibration FILE | --activations FOLDER | --grams FILE [options]
                    --out FILE.safetensors
compress_checkpoint --decompress FILE.safetensors --out FILE|FOLDER [MODEL and its data, to check the errors]

  MODEL              in the format of llama2.c (float32, version 0), or ending in .safetensors, or a folder
                     of Hugging Face's, or its model.safetensors.index.json. Where there is an index, the
                     files and tensors that it names are the model; without, one file or a whole set of shards
  --out              of --decompress: FILE.safetensors, or a new folder, which gets the original's files

  --calibration FILE, --evaluation FILE
                     llama2.c, and safetensors with a config.json of model_type llama or mistral: tokens as
                     16-bit words, or .txt (single newlines separate stories, empty lines paragraphs); the
                     model is run on the first to learn what its layers read, and on the second before and
                     after; without the second the first is cut in two at three quarters
  --tokenizer FILE   for .txt, as llama2.c has it
  --tokens N         calibration tokens (default: 65536)

  --activations FOLDER
                     safetensors: what the layers read, samples x features, as NAME.safetensors or NAME.npy,
                     where NAME is that of the weight's tensor without its .weight
  --grams FILE       safetensors: sums of x x^T of what the layers read, features x features, by the same
                     NAMEs, as tools/collect_grams.py writes them
  --preset NAME      whose names the tensors have: llama (Mistral, Qwen2, Gemma, ...), gpt2, opt or bert
                     (default: by model_type in the model's config.json, else llama)
  --pattern NAME:TYPE[:READS][:linear|:transposed]
                     which tensors are compressed instead of the preset's, * for a number, a type for those
                     with the same place in every layer, and whose activations serve where NAME has none; any
                     number of times. Weights lie out x in (linear) or in x out (transposed, as GPT-2's
                     Conv1D): for square ones this, or the preset, must say it

  --ratio R          part of the bytes to remove, 0 <= R < 1 (default: 0.3)
  --method NAME      plain_svd, svd_llm, basis_sharing, sparse_single, geopair_dense or geopair_sparse
                     (default: geopair_sparse)
  --group-size N     layers that share a dictionary at most; 0 leaves it to the method (default: 0)
  --pairing NAME     automatic, adjacent, distance or gain (default: automatic)
  --across-types     groups may mix types (automatic does by itself, but for basis_sharing)
  --input-side       sparse: down and w2 share their inputs, as all others do, instead of their outputs
  --identity-gauge   dense: r rows of a dictionary become the identity, which is not stored
  --global-budget    bytes go to the groups where they save the most error, instead of equally
  --bits N           3 ... 8: values of N bits, blocks of 32 with one scale of 16 bits; the ratio then removes
                     as many values as without, and their smaller type comes on top (default: the type of the
                     weights)
  --ks R             sparse: atoms for each nonzero of a column (default: 2.5)
  --eta R            ridge of the Gram matrices, relative to the mean diagonal (default: 0.001)
  --iterations N     (default: 30)
  --threads N        groups at a time (default: 1)
)";

template <class T>
T choose(const Arguments& arguments, const std::string& text,
         std::initializer_list<std::pair<const char*, T>> names) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    known += known.empty() ? name : std::string(", ") + name;
  }
  arguments.fail(arguments.name() + ": '" + text + "' is not one of " + known);
}

struct Options {
  Sources sources;
  std::filesystem::path out, decompress;
  rotorlin::CompressorOptions compressor;
  bool share_outputs = true;
  int bits = 0;
};

Options parse(int count, char** values) {
  Options options;
  Sources& sources = options.sources;
  Arguments arguments(count, values, usage);
  constexpr long many = 1000000000;
  while (arguments.next()) {
    if (arguments.is("--out")) {
      options.out = arguments.value();
    } else if (arguments.is("--decompress")) {
      options.decompress = arguments.value();
    } else if (arguments.is("--calibration")) {
      sources.calibration = arguments.value();
    } else if (arguments.is("--evaluation")) {
      sources.evaluation = arguments.value();
    } else if (arguments.is("--tokenizer")) {
      sources.tokenizer = arguments.value();
    } else if (arguments.is("--tokens")) {
      sources.tokens = arguments.number(1, many);
    } else if (arguments.is("--activations")) {
      sources.activations = arguments.value();
    } else if (arguments.is("--grams")) {
      sources.grams = arguments.value();
    } else if (arguments.is("--preset")) {
      sources.preset = arguments.checked(preset_named).name;
    } else if (arguments.is("--pattern")) {
      sources.patterns.push_back(arguments.checked(parse_pattern));
    } else if (arguments.is("--ratio")) {
      options.compressor.ratio = arguments.real(0, 0.9999);
    } else if (arguments.is("--method")) {
      options.compressor.method = arguments.checked(rotorlin::compression_method);
    } else if (arguments.is("--group-size")) {
      options.compressor.group_size = arguments.number(0, many);
    } else if (arguments.is("--pairing")) {
      options.compressor.pairing = choose<Pairing>(arguments, arguments.value(),
                                                   {{"automatic", Pairing::automatic},
                                                    {"adjacent", Pairing::adjacent},
                                                    {"distance", Pairing::distance},
                                                    {"gain", Pairing::gain}});
    } else if (arguments.is("--across-types")) {
      options.compressor.across_types = true;
    } else if (arguments.is("--input-side")) {
      options.share_outputs = false;
    } else if (arguments.is("--identity-gauge")) {
      options.compressor.identity_gauge = true;
    } else if (arguments.is("--global-budget")) {
      options.compressor.budget = rotorlin::BudgetAllocation::global;
    } else if (arguments.is("--bits")) {
      options.bits = static_cast<int>(arguments.number(3, 8));
    } else if (arguments.is("--ks")) {
      options.compressor.ks_ratio = arguments.real(1, 1e6);
    } else if (arguments.is("--eta")) {
      options.compressor.eta = arguments.real(0, 1e6);
    } else if (arguments.is("--iterations")) {
      options.compressor.iterations = static_cast<int>(arguments.number(0, many));
    } else if (arguments.is("--threads")) {
      options.compressor.threads = static_cast<int>(arguments.number(1, 1024));
    } else if (arguments.is_option()) {
      arguments.unknown();
    } else if (sources.model.empty()) {
      sources.model = arguments.name();
    } else {
      arguments.fail("'" + arguments.name() + "' is one model too many");
    }
  }
  if (options.out.empty()) arguments.fail("no file to write: --out is missing");
  if (!sources.activations.empty() && !sources.grams.empty())
    arguments.fail("--activations and --grams: choose one");
  if (options.decompress.empty()) {
    if (sources.model.empty()) arguments.fail("no model was given");
    if (options.out.extension() != ".safetensors")
      arguments.fail("--out: '" + options.out.string() + "' does not end in .safetensors");
    output_file(options.out, sources.paths());
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] {
    const Options options = parse(count, arguments);
    const Stopwatch clock;
    if (options.decompress.empty()) {
      compress(*open_checkpoint(options.sources), options.compressor, options.share_outputs, options.bits,
               options.out);
    } else {
      decompress(options.decompress, options.out, options.sources.model.empty() ? nullptr : &options.sources);
    }
    std::printf("%s in all\n", duration(clock.seconds()).c_str());
  });
}
