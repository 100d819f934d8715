// SPDX-License-Identifier: MIT
// Small layers that stand in for a projection, each fitted to the same thing: y = W x at the inputs x that
// the projection meets.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/llama.hpp"

namespace examples {

/// The inputs of one or more projections, a column for each token.
struct Samples {
  Matrix<float> x;             ///< to fit to
  Matrix<float> x_validation;  ///< to choose by, from other windows of the same stream
  Matrix<double> gram;         ///< second moments of x: E[x x^T]

  Samples(Matrix<float> training, Matrix<float> validation);
};

struct FitBudget {
  Index epochs = 20;  ///< passes of the rotor network over the samples
  Index steps = 300;  ///< of the rotor layer, each with the second moments of all samples
  std::uint64_t seed = 0;
};

/// A layer that stands in for a projection.
struct Replacement {
  Llama::Map map;
  Index parameters = 0;
  double seconds = 0;
};

/// |f(x) - W x| / |W x|.
double relative_error(const Llama::Map& map, const Matrix<float>& weight, const Matrix<float>& x);

/// A way to replace a projection with weights W (out x in).
struct Method {
  std::string name;
  std::function<Replacement(const Samples&, const Matrix<float>& weight, const FitBudget&)> fit;
  Index rank = 0;  ///< of LR; matrices with fewer rows or columns get as many
};

/// The known names, in the order of the tables.
const std::vector<std::string>& method_names();

/// LR followed by a rank, BH1, RotorLinear, RotorNetwork, RotorEncoder (of at most the parameters of LR4).
/// \throws std::invalid_argument for another name.
Method method(std::string_view name);

/// The best layer of the rank, by the whitened singular value decomposition.
Replacement fit_low_rank(const Samples&, const Matrix<float>& weight, Index rank);

/// The best block-diagonal layer with blocks of `block_width` inputs, by least squares.
Replacement fit_blocks(const Samples&, const Matrix<float>& weight, Index block_width);

/// Inputs of a block of BH1: 16 at 2048 features as in the paper, not below 4, and more where there would be
/// more blocks than outputs.
Index block_width(Index in, Index out);

/// The shape of a rotor network. At depth 0 the output rotors are parallel.
struct NetworkShape {
  Index hidden, depth, width;
};

/// The paper's network, depth 2 and width 3, where it has fewer parameters than BH1; else as wide as can be
/// below BH1 with out/2 hidden features (better than `out` on calibration tokens), or half of that, and so
/// on.
NetworkShape network_shape(Index in, Index out);

/// By the paper's recipe: Adam, learning rate 0.05, batches of 256. Keeps what is best on the validation
/// samples.
Replacement fit_network(const Samples&, const Matrix<float>& weight, const NetworkShape&, const FitBudget&);

/// y = C (S x)_{1 ... k}: parallel rotors S bring what matters onto k coordinates, a dense C (out x k) takes
/// it from there: low rank, with rotors for the right factor. The k that is best on the validation part, with
/// as many rotors as fit into what C leaves of the parameters; nothing where none fit.
std::optional<Replacement> fit_rotor_encoder(const Samples&, const Matrix<float>& weight, Index parameters,
                                             const FitBudget&);

/// The paper's network for 2048 features fitted to a made-up projection: one epoch over 20,000 samples in
/// batches of 256. Prints how long it takes.
void time_large_fit();

}  // namespace examples
