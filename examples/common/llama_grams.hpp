// SPDX-License-Identifier: MIT
/// \file
/// What a compression needs to know of a Llama model: names of its projections, and the second moments of
/// what they read.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/llama.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"

namespace examples {

/// The projection that stands for all that read the same: q for q, k and v, w1 for w1 and w3.
inline Projection reader(Projection p) {
  switch (p) {
    case Projection::k:
    case Projection::v:
      return Projection::q;
    case Projection::w3:
      return Projection::w1;
    default:
      return p;
  }
}

inline constexpr std::array<Projection, 4> all_readers = {Projection::q, Projection::o, Projection::w1,
                                                          Projection::w2};

/// As in Meta's checkpoints: layers.3.attention.wq, layers.3.feed_forward.w1.
inline std::string projection_name(Index layer, Projection p) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  const std::string own = name(p);
  return own.front() == 'w' ? prefix + "feed_forward." + own : prefix + "attention.w" + own;
}

/// Windows of tokens on their way through the layers: the activations behind the last layer that they passed.
/// `Model` here and below: Llama, or what has the same embed and apply_layer.
template <class Model>
std::vector<Matrix<float>> embed_windows(const Model& model, const Windows& windows) {
  std::vector<Matrix<float>> result;
  for (Index j = 0; j < windows.count(); ++j) result.push_back(model.embed(windows.inputs(j)));
  return result;
}

/// E[x x^T] of everything that is read, layer after layer: found(layer, reader, gram). In memory are the
/// activations between two layers (dim x tokens), and the moments of one layer. `advanced` is told the
/// fraction done.
template <class Model>
void for_each_gram(const Model& model, const Windows& windows,
                   const std::function<void(Index, Projection, Matrix<double>)>& found,
                   const std::function<void(double)>& advanced = {}) {
  std::vector<Matrix<float>> activations = embed_windows(model, windows);
  const Index layers = model.config().layers;
  for (Index l = 0; l < layers; ++l) {
    std::map<Projection, rotorlin::GramAccumulator> seen;
    for (const Projection p : all_readers) seen.emplace(p, model.in_features(p));
    for (std::size_t j = 0; j < activations.size(); ++j) {
      model.apply_layer(l, activations[j], [&](Index, Projection p, const ConstMatrixRef<float>& x) {
        if (reader(p) == p) seen.at(p).add(x);
      });
      if (advanced) {
        const double part = static_cast<double>(j + 1) / static_cast<double>(activations.size());
        advanced((static_cast<double>(l) + part) / static_cast<double>(layers));
      }
    }
    for (const Projection p : all_readers) found(l, p, seen.at(p).gram());
  }
}

}  // namespace examples
