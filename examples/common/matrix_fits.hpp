// SPDX-License-Identifier: MIT
/// \file
/// Layers of every kind fitted to one matrix with the same means: in the metric of its inputs' second
/// moments, by closed forms where there are some and by the same number of Adam's steps where not.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/progress.hpp"
#include "common/table.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/layers/block_hadamard_linear.hpp"
#include "rotorlin/layers/kronecker_linear.hpp"
#include "rotorlin/layers/low_rank_linear.hpp"
#include "rotorlin/layers/rotor_encoder_linear.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "rotorlin/training/fit.hpp"

namespace examples {

using rotorlin::ConstMatrixRef;
using rotorlin::Index;
using rotorlin::Matrix;
using rotorlin::MatrixRef;
using rotorlin::VectorX;

/// What is to be fitted. With means, layers have a bias that maps mean_x to mean_y; then `gram` should be the
/// covariance. Without, they have none.
struct FitTarget {
  Matrix<float> weight;           ///< out x in
  Matrix<double> gram;            ///< in x in
  VectorX<float> mean_x, mean_y;  ///< or empty
  Index steps = 400;              ///< of Adam, each on up to 256 columns of the Gram matrix's factor
  std::uint64_t seed = 1;

  Index in() const { return weight.cols(); }
  Index out() const { return weight.rows(); }
  bool bias() const { return mean_x.size() != 0; }
};

/// A layer that was fitted, whatever its kind.
struct FittedLayer {
  std::string method = {};  ///< "low rank"
  std::string shape = {};   ///< "rank 8"
  Index parameters = 0;     ///< without the bias
  double error = 1;         ///< sqrt(tr((W - M) G (W - M)^T) / tr(W G W^T))
  double seconds = 0;       ///< that the fit took
  std::function<void(const ConstMatrixRef<float>&, MatrixRef<float>)> forward = {};  ///< one thread at a time
  std::function<void(const std::filesystem::path&)> save = {};
};

namespace detail {

/// Fits by Adam at each of some rates and keeps the best: no kind of layer shall suffer from another's rate.
template <class L>
double fit_steps(L& layer, const FitTarget& target, double rate, Progress& progress) {
  constexpr Index columns = 256;
  const bool solves = requires { &L::solve_linear; };
  rotorlin::FitOptions options;
  options.epochs =
      solves ? target.steps : std::max<Index>(1, target.steps / ((target.in() - 1) / columns + 1));
  options.batch_size = columns;
  options.learning_rate = rate;
  options.seed = target.seed;
  options.progress = [&](const rotorlin::FitProgress& p) {
    progress.update(static_cast<double>(p.step) / static_cast<double>(p.steps),
                    format("error %.3f", std::sqrt(p.loss)));
    return true;
  };
  return rotorlin::fit_dense(layer, target.weight, target.gram, options).relative_error;
}

template <class L, class Fit>
FittedLayer fitted(std::string method, std::string shape, L start, const FitTarget& target, const Fit& fit) {
  Progress progress("  " + method + ", " + shape);
  const auto layer = std::make_shared<L>(std::move(start));
  FittedLayer result{.method = std::move(method), .shape = std::move(shape)};
  result.error = fit(*layer, progress);
  if (target.bias()) rotorlin::match_bias(*layer, target.mean_x, target.mean_y);
  result.seconds = progress.seconds();
  result.parameters = layer->bias_offset();
  const auto workspace = std::make_shared<typename L::Workspace>();
  result.forward = [layer, workspace](const ConstMatrixRef<float>& x, MatrixRef<float> y) {
    layer->forward(x, y, *workspace);
  };
  result.save = [layer](const std::filesystem::path& path) { rotorlin::save(*layer, path); };
  progress.finish(format("error %.3f", result.error));
  return result;
}

}  // namespace detail

inline FittedLayer fit_low_rank(const FitTarget& target, Index rank) {
  return detail::fitted(
      "low rank", format("rank %ld", static_cast<long>(rank)),
      rotorlin::LowRankLinear<float>(target.in(), target.out(), {.rank = rank, .bias = target.bias()}),
      target, [&](auto& layer, Progress&) { return layer.fit_closed_form(target.weight, target.gram); });
}

/// The layer itself too, for its planes.
inline FittedLayer fit_rotors(const FitTarget& target, Index width,
                              rotorlin::RotorLinear<float>* copy = nullptr) {
  rotorlin::RotorLinear<float> start(target.in(), target.out(),
                                     {.width = width, .bias = target.bias(), .seed = target.seed});
  // Fits that start near the identity end a little lower than those that start anywhere.
  start.parameters().head(start.alpha_offset()) *= 0.3f;
  return detail::fitted("rotors", format("width %ld", static_cast<long>(width)), std::move(start), target,
                        [&](auto& layer, Progress& progress) {
                          const double error = detail::fit_steps(layer, target, 0.1, progress);
                          if (copy != nullptr) *copy = layer;
                          return error;
                        });
}

inline FittedLayer fit_kronecker(const FitTarget& target, Index terms) {
  return detail::fitted(
      "Kronecker", format("%ld term%s", static_cast<long>(terms), terms == 1 ? "" : "s"),
      rotorlin::KroneckerLinear<float>(target.in(), target.out(), {.terms = terms, .bias = target.bias()}),
      target, [&](auto& layer, Progress& progress) {
        layer.fit_closed_form(target.weight);  // the nearest in the plain metric; from there in the inputs'
        return detail::fit_steps(layer, target, 0.01, progress);
      });
}

inline FittedLayer fit_block_hadamard(const FitTarget& target, Index blocks) {
  return detail::fitted(
      "block Hadamard", format("%ld blocks", static_cast<long>(blocks)),
      rotorlin::BlockHadamardLinear<float>(target.in(), target.out(),
                                           {.blocks = blocks, .bias = target.bias(), .seed = target.seed}),
      target,
      [&](auto& layer, Progress& progress) { return detail::fit_steps(layer, target, 0.01, progress); });
}

inline FittedLayer fit_rotor_encoder(const FitTarget& target, Index rank, Index width) {
  return detail::fitted(
      "rotor encoder", format("rank %ld, width %ld", static_cast<long>(rank), static_cast<long>(width)),
      rotorlin::RotorEncoderLinear<float>(
          target.in(), target.out(),
          {.rank = rank, .width = width, .bias = target.bias(), .seed = target.seed}),
      target,
      [&](auto& layer, Progress& progress) { return detail::fit_steps(layer, target, 0.05, progress); });
}

}  // namespace examples
