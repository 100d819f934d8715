// SPDX-License-Identifier: MIT
// Query, key and value projections of a language model replaced by layers with far fewer parameters, after
// Pence, Yamada, Singh 2025 (arXiv 2507.11688).
//
// Layer by layer, earlier ones already replaced, each projection's stand-in is fitted to what the original
// matrix makes of the inputs that it meets there. Judged by the log-perplexity of the model on held-out text.

#include <cstdio>
#include <iterator>

#include "common/arguments.hpp"
#include "common/progress.hpp"
#include "experiments.hpp"

namespace {

using namespace examples;

constexpr const char* usage =
    R"(Replaces projections of a language model by small layers and shows what that costs.

llama_projections MODEL.bin TOKENIZER.bin CALIBRATION [EVALUATION] [options]
llama_projections MODEL.bin TOKENIZER.bin CALIBRATION [EVALUATION] --width-depth [options]
llama_projections MODEL.bin TOKENIZER.bin CALIBRATION [EVALUATION] --frontier [options]
llama_projections --timing

  MODEL.bin, TOKENIZER.bin   in the format of llama2.c, float32, version 0
  CALIBRATION, EVALUATION    .txt (single newlines separate stories, empty lines paragraphs), or token
                             numbers as 16-bit words; a single stream is cut in two at three quarters

  --out DIR          where tables and plots go (default: out)
  --methods A,B,...  of LR and a rank, BH1, RotorLinear, RotorNetwork, RotorEncoder (default: LR1,LR4,BH1,
                     RotorLinear,RotorNetwork,RotorEncoder)
  --max-layers N     replace up to N layers at once (default: 3)
  --tuples N         at most N sets of each number of layers, drawn at random (default: all)
  --retrain-output   adapts the output projection behind the replaced ones, by least squares
  --samples N        calibration tokens; a fifth of them is kept to choose by (default: 40960)
  --epochs N         passes of the rotor network over the samples (default: 20)
  --steps N          steps that fit a rotor layer, each with all samples (default: 300)
  --windows N        windows of 256 tokens to evaluate on (default: 79)
  --prompt TEXT      what the texts begin with
  --seed N           of starts, orders and draws (default: 0)
  --quick            a look within a minute: 5120 samples, 1 epoch, 60 steps, 3 sets, 8 windows

  --width-depth      the error of one projection against width and depth of the rotor network instead
  --frontier         the error of one projection against parameters, for many layers built from rotors
  --layer N          its layer, from 0 (default: the middle one; with --frontier, all of them)
  --projection NAME  q, k, v, o, w1, w2 or w3 (default: q)

  --timing           fits the paper's network to a made-up projection of 2048 features
)";

struct Options {
  std::vector<std::filesystem::path> files;
  std::filesystem::path out = "out";
  ReplacementOptions replacement;
  FitBudget budget;
  Index samples = 40960, windows = 79, layer = -1;
  Projection projection = Projection::q;
  bool width_depth = false, frontier = false, timing = false;
  bool one_projection = false;  ///< --layer or --projection is given
  std::string of_replacement;   ///< a given option that only the replacement of projections heeds
};

Options parse(int count, char** values) {
  Options options;
  Arguments arguments(count, values, usage);
  constexpr long many = 1000000000;
  while (arguments.next()) {
    for (const char* name : {"--methods", "--max-layers", "--tuples", "--retrain-output", "--prompt"})
      if (arguments.is(name)) options.of_replacement = name;
    if (arguments.is("--out")) {
      options.out = arguments.value();
    } else if (arguments.is("--methods")) {
      options.replacement.methods = arguments.list();
      for (const std::string& name : options.replacement.methods) method(name);
    } else if (arguments.is("--max-layers")) {
      options.replacement.most_layers = arguments.number(1, 8);
    } else if (arguments.is("--tuples")) {
      options.replacement.tuples = arguments.number(1, many);
    } else if (arguments.is("--retrain-output")) {
      options.replacement.retrain_output = true;
    } else if (arguments.is("--samples")) {
      options.samples = arguments.number(1, many);
    } else if (arguments.is("--epochs")) {
      options.budget.epochs = arguments.number(1, many);
    } else if (arguments.is("--steps")) {
      options.budget.steps = arguments.number(1, many);
    } else if (arguments.is("--windows")) {
      options.windows = arguments.number(1, many);
    } else if (arguments.is("--prompt")) {
      options.replacement.prompt = arguments.value();
    } else if (arguments.is("--seed")) {
      options.budget.seed = static_cast<std::uint64_t>(arguments.number(0, many));
    } else if (arguments.is("--quick")) {
      options.samples = 5120;
      options.budget.epochs = 1;
      options.budget.steps = 60;
      options.replacement.tuples = 3;
      options.windows = 8;
    } else if (arguments.is("--width-depth")) {
      options.width_depth = true;
    } else if (arguments.is("--frontier")) {
      options.frontier = true;
    } else if (arguments.is("--layer")) {
      options.layer = arguments.number(0, many);
      options.one_projection = true;
    } else if (arguments.is("--projection")) {
      const std::string wanted = arguments.value();
      const auto found = std::find_if(all_projections.begin(), all_projections.end(),
                                      [&](Projection p) { return wanted == name(p); });
      if (found == all_projections.end())
        arguments.fail("--projection: '" + wanted + "' is not q, k, v, o, w1, w2 or w3");
      options.projection = *found;
      options.one_projection = true;
    } else if (arguments.is("--timing")) {
      options.timing = true;
    } else if (arguments.is_option()) {
      arguments.unknown();
    } else {
      options.files.emplace_back(arguments.name());
    }
  }
  if (options.frontier && options.width_depth) arguments.fail("--frontier and --width-depth: choose one");
  const char* other = options.frontier ? "--frontier" : options.width_depth ? "--width-depth" : "--timing";
  if (!options.of_replacement.empty() && (options.frontier || options.width_depth || options.timing))
    arguments.fail(options.of_replacement + " has no effect with " + other + "; leave out one of them");
  if (options.one_projection && !options.frontier && !options.width_depth)
    arguments.fail("--layer and --projection belong to --width-depth or --frontier, and neither is given");
  if (!options.timing && (options.files.size() < 3 || options.files.size() > 4)) {
    arguments.fail(std::to_string(options.files.size()) +
                   " files are named, expected a model, a tokenizer, and one or two of tokens or text");
  }
  return options;
}

Setup prepare(const Options& options) {
  Setup setup{.name = options.files[0].stem().string(),
              .model = Llama::load(options.files[0]),
              .tokenizer = Tokenizer::load(options.files[1]),
              .calibration = {},
              .evaluation = {},
              .out = options.out,
              .budget = options.budget,
              .samples = options.samples,
              .windows = options.windows};
  const auto& config = setup.model.config();
  const auto vocabulary = static_cast<std::size_t>(config.vocabulary);
  if (setup.tokenizer.size() != vocabulary) {
    rotorlin::detail::throw_runtime(options.files[1].string(), " has ", setup.tokenizer.size(), " tokens, ",
                                    options.files[0].string(), " expects ", vocabulary,
                                    "; give the tokenizer that the model was trained with");
  }
  const auto read = [&](std::size_t i) { return read_stream(options.files[i], setup.tokenizer, vocabulary); };
  setup.calibration = read(2);
  if (options.files.size() == 4) {
    setup.evaluation = read(3);
  } else {
    std::tie(setup.calibration, setup.evaluation) = split_stream(setup.calibration, 0.75);
  }
  std::printf("%s: %ld features, %ld layers, %ld heads, %ld of keys and values, %ld tokens, %ld at once\n",
              setup.name.c_str(), static_cast<long>(config.dim), static_cast<long>(config.layers),
              static_cast<long>(config.heads), static_cast<long>(config.kv_heads),
              static_cast<long>(config.vocabulary), static_cast<long>(config.sequence));
  const Index length = std::min<Index>(256, config.sequence);
  const auto check = [&](const std::vector<Token>& stream, const char* use, std::size_t file, Index windows) {
    if (static_cast<Index>(stream.size()) > windows * length) return;
    rotorlin::detail::throw_invalid(options.files[file].string(), " gives ", stream.size(), " tokens for ",
                                    use, ", expected ", windows * length + 1, " or more; name a longer one");
  };
  check(setup.calibration, "calibration", 2, 2);  // a window to fit to and one to choose by
  check(setup.evaluation, "evaluation", options.files.size() - 1, 1);
  if (setup.calibration_windows() < 2)
    rotorlin::detail::throw_invalid("--samples: ", options.samples, ", expected ", 2 * length, " or more");
  prepare_folder(setup.out, options.files);
  const Windows calibration(setup.model, setup.calibration, setup.calibration_windows());
  const Windows evaluation(setup.model, setup.evaluation, setup.windows);
  std::printf("%s tokens for calibration, of which %s are used; %s for evaluation, of which %s\n\n",
              with_commas(static_cast<long long>(setup.calibration.size())).c_str(),
              with_commas(calibration.predictions()).c_str(),
              with_commas(static_cast<long long>(setup.evaluation.size())).c_str(),
              with_commas(evaluation.predictions()).c_str());
  return setup;
}

void run(const Options& options) {
  const Stopwatch clock;
  if (options.timing) {
    time_large_fit();
    return;
  }
  const Setup setup = prepare(options);
  const Index layers = setup.model.config().layers;
  if (options.layer >= layers)
    rotorlin::detail::throw_invalid("--layer: ", options.layer, ", expected 0 to ", layers - 1);
  if (options.frontier) {
    search_frontier(setup, options.projection, std::max<Index>(0, options.layer),
                    options.layer < 0 ? layers - 1 : options.layer);
  } else if (options.width_depth) {
    compare_width_and_depth(setup, options.layer < 0 ? (layers - 1) / 2 : options.layer, options.projection);
  } else {
    replace_projections(setup, options.replacement);
  }
  std::printf("%s in all\n", duration(clock.seconds()).c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return examples::guarded([&] { run(parse(count, arguments)); });
}
