// SPDX-License-Identifier: MIT
// Shared dictionaries for the weights of a language model: tables against the published methods, what each
// idea contributes, and how results depend on the settings.

#include <cstdio>

#include "common/arguments.hpp"
#include "common/progress.hpp"
#include "parts.hpp"

namespace {

using namespace examples;

constexpr const char* usage =
    R"(Compresses a language model in many ways without training and measures what that costs.

geopair_tables MODEL.bin CALIBRATION EVALUATION [options]

  MODEL.bin          in the format of llama2.c, float32, version 0
  CALIBRATION, EVALUATION
                     token numbers as 16-bit words. The last fifth of CALIBRATION is the validation stream on
                     which choices are made; nothing is chosen on EVALUATION

  --part A,B,...     of methods, ablation, ks, eta, tokens, iterations, group_size, convergence, pairs, damages,
                     storage (default: all)
  --methods A,B,...  rows of the first part (default: all; see docs/geopair.md)
  --ratios A,B,...   of the first part (default: 0.2,0.3,0.4) and of storage (default: 0.1,0.2,0.3,0.4,0.5,0.6)
  --ratio R          of the other parts (default: 0.3)
  --samples N        calibration tokens (default: 65536)
  --iterations N     of sparse dictionaries (default: 60)
  --windows N        windows of 256 tokens to evaluate on (default: 79)
  --validation N     the same to choose by (default: 40)
  --threads N        (default: 1)
  --out DIR          where tables and plots go (default: out)
  --quick            a look: 8192 samples, 8 iterations, 8 windows
)";

struct Options {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> parts = {"methods",    "ablation",    "ks",    "eta",     "tokens", "iterations",
                                    "group_size", "convergence", "pairs", "damages", "storage"};
  std::vector<std::string> methods = method_names();
  std::vector<double> ratios = {0.2, 0.3, 0.4}, storage_ratios = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  double ratio = 0.3;
  std::filesystem::path out = "out";
  Index samples = 65536, windows = 79, validation_windows = 40;
  int iterations = 60, threads = 1;
  std::string of_ratios;   ///< --ratios, where given
  std::string of_methods;  ///< a given option that only the first part heeds
};

Options parse(int count, char** values) {
  Options options;
  const std::vector<std::string> known = options.parts;
  Arguments arguments(count, values, usage);
  constexpr long many = 1000000000;
  const auto check = [&](const std::string& text, const std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return;
    std::string all;
    for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
    arguments.fail(arguments.name() + ": '" + text + "' is not one of " + all);
  };
  while (arguments.next()) {
    if (arguments.is("--methods")) options.of_methods = arguments.name();
    if (arguments.is("--part")) {
      options.parts = arguments.list();
      for (const std::string& part : options.parts) check(part, known);
    } else if (arguments.is("--methods")) {
      options.methods = arguments.list();
      for (const std::string& method : options.methods) check(method, method_names());
    } else if (arguments.is("--ratios")) {
      options.ratios.clear();
      for (const std::string& text : arguments.list()) {
        char* end = nullptr;
        options.ratios.push_back(std::strtod(text.c_str(), &end));
        if (text.empty() || *end != '\0' || !(options.ratios.back() >= 0 && options.ratios.back() < 1))
          arguments.fail("--ratios: '" + text + "' is not a number from 0 to less than 1");
      }
      options.storage_ratios = options.ratios;
      options.of_ratios = arguments.name();
    } else if (arguments.is("--ratio")) {
      options.ratio = arguments.real(0, 0.9999);
    } else if (arguments.is("--samples")) {
      options.samples = arguments.number(1, many);
    } else if (arguments.is("--iterations")) {
      options.iterations = static_cast<int>(arguments.number(0, 100000));
    } else if (arguments.is("--windows")) {
      options.windows = arguments.number(1, many);
    } else if (arguments.is("--validation")) {
      options.validation_windows = arguments.number(1, many);
    } else if (arguments.is("--threads")) {
      options.threads = static_cast<int>(arguments.number(1, 1024));
    } else if (arguments.is("--out")) {
      options.out = arguments.value();
    } else if (arguments.is("--quick")) {
      options.samples = 8192;
      options.iterations = 8;
      options.windows = options.validation_windows = 8;
    } else if (arguments.is_option()) {
      arguments.unknown();
    } else {
      options.files.emplace_back(arguments.name());
    }
  }
  const auto has = [&](const char* part) {
    return std::find(options.parts.begin(), options.parts.end(), part) != options.parts.end();
  };
  const bool compares = has("methods");
  if (!options.of_ratios.empty() && !compares && !has("storage"))
    arguments.fail(
        "--ratios has no effect without the parts methods and storage; add one to --part, or leave "
        "out --ratios");
  if (!options.of_methods.empty() && !compares)
    arguments.fail(options.of_methods +
                   " has no effect without the part methods; add it to --part, or leave out " +
                   options.of_methods);
  if (options.files.size() != 3) {
    arguments.fail(std::to_string(options.files.size()) +
                   " files are named, expected a model, calibration and evaluation tokens");
  }
  return options;
}

Setup prepare(const Options& options) {
  Setup setup{.name = options.files[0].stem().string(),
              .model = Llama::load(options.files[0]),
              .calibration = {},
              .validation = {},
              .evaluation = {},
              .out = options.out,
              .samples = options.samples,
              .validation_windows = options.validation_windows,
              .windows = options.windows,
              .iterations = options.iterations,
              .threads = options.threads};
  const auto read = [&](std::size_t i) {
    if (options.files[i].extension() == ".txt") {
      rotorlin::detail::throw_runtime(options.files[i].string(),
                                      " is text, expected token numbers as 16-bit words");
    }
    return read_stream(options.files[i], {}, static_cast<std::size_t>(setup.model.config().vocabulary));
  };
  std::tie(setup.calibration, setup.validation) = split_stream(read(1), 0.8);
  setup.evaluation = read(2);
  const auto used = [&](const std::vector<Token>& tokens, Index windows) {
    return with_commas(Windows(setup.model, tokens, windows).predictions());
  };
  const Index length = std::min<Index>(256, setup.model.config().sequence);
  std::printf("%s: %s tokens for calibration, %s to choose by, %s to report\n\n", setup.name.c_str(),
              used(setup.calibration, std::max<Index>(1, setup.samples / length)).c_str(),
              used(setup.validation, setup.validation_windows).c_str(),
              used(setup.evaluation, setup.windows).c_str());
  return setup;
}

void run(const Options& options) {
  const Stopwatch clock;
  prepare_folder(options.out, options.files);
  output_file(options.out / (options.files[0].stem().string() + "_pairs.txt"), options.files);
  const Setup setup = prepare(options);
  Study study(setup);
  for (const std::string& part : options.parts) {
    if (part == "methods") compare_methods(study, options.methods, options.ratios);
    if (part == "ablation") ablate(study, options.ratio);
    if (part == "ks") sweep_ks(study, options.ratio);
    if (part == "eta") sweep_eta(study, options.ratio);
    if (part == "tokens") sweep_tokens(study, options.ratio);
    if (part == "iterations") sweep_iterations(study, options.ratio);
    if (part == "group_size") sweep_group_size(study, options.ratio);
    if (part == "convergence") show_convergence(study, options.ratio);
    if (part == "pairs") show_pairs(study, options.ratio);
    if (part == "damages") show_damages(study);
    if (part == "storage") compare_storage(study, options.storage_ratios);
  }
  std::printf("%s in all\n", duration(clock.seconds()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] { run(parse(count, arguments)); });
}
