// SPDX-License-Identifier: MIT
/// \file
/// Layers of one dictionary that read the same input, as q, k and v of an attention or gate and up of a
/// feed-forward part, run together: D^T x is computed once for all of them.
///
///     DictionarySide::input     h = D^T x,  y_i = C_i^T h + b_i
///     DictionarySide::output    y_i = D (C_i^T x) + b_i       x is brought into place once, D is read again
///
/// Results are those of the layers one by one, bit for bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/overlap.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

namespace rotorlin {

/// Layers with one dictionary and one input. It holds pointers: the layers must outlive it, stay where they
/// are, and may be trained meanwhile.
template <class S>
class SharedDictionaryGroup {
 public:
  using Layer = SharedDictionaryLinear<S>;
  static constexpr const char* type_name = "SharedDictionaryGroup";
  /// Grows on demand; later calls with as many samples allocate nothing.
  using Workspace = typename Layer::Workspace;

  /// \throws std::invalid_argument for no layers, a null pointer, or layers that differ in their dictionary
  /// (the same object is meant, not equal ones), their side, or their number of inputs.
  explicit SharedDictionaryGroup(std::vector<const Layer*> layers) : layers_(std::move(layers)) {
    if (layers_.empty()) detail::throw_invalid(type_name, ": no layers, expected one or more");
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i] == nullptr) detail::throw_invalid(type_name, ": layer ", i, " is a null pointer");
      if (layers_[i]->dictionary() != layers_[0]->dictionary() || layers_[i]->side() != layers_[0]->side() ||
          layers_[i]->in_features() != layers_[0]->in_features()) {
        detail::throw_invalid(type_name, ": layer ", i, " has ", layers_[i]->in_features(),
                              " inputs, layer 0 ", layers_[0]->in_features(), "; dictionary and side are ",
                              layers_[i]->dictionary() == layers_[0]->dictionary() ? "" : "not ",
                              "shared and ", layers_[i]->side() == layers_[0]->side() ? "" : "not ",
                              "the same; expected one dictionary, one side and one input");
      }
    }
  }

  Index size() const { return static_cast<Index>(layers_.size()); }
  /// Layer i, as it was given. \throws std::out_of_range where there is none.
  const Layer& layer(Index i) const { return *layers_.at(static_cast<std::size_t>(i)); }
  Index in_features() const { return layers_[0]->in_features(); }

  /// outputs[i] = layer i of x (in x batch; outputs out_i x batch). \throws std::invalid_argument for another
  /// number of outputs, other shapes, or where an output shares memory with x, another output, or the
  /// parameters or gradients of a layer.
  void forward(const ConstMatrixRef<S>& x, std::span<MatrixRef<S>> outputs, Workspace& workspace) const {
    check(x, outputs);
    const Layer& first = *layers_[0];
    Index most = 0;
    for (const Layer* layer : layers_) most = std::max(most, layer->out_features());
    const Index features = first.dictionary()->features(), rank = first.rank();
    detail::scratch(workspace.scratch, features, 1);
    const auto memory_for = [&](Index width) {
      return workspace.block.reserve((in_features() + most + rank + features) * width + 16);
    };
    if (x.cols() == 1) {
      single(x, outputs, memory_for(1), workspace);
    } else {
      Layer::for_blocks(x.cols(), [&](auto kernel, Index begin, Index count) {
        constexpr Index width = decltype(kernel)::width;
        S* const from = memory_for(width);
        S* const to = from + in_features() * width;
        S* const hidden = to + most * width;
        S* const others = hidden + rank * width;
        kernel.load_samples(x, begin, count, from);
        if (first.side() == DictionarySide::input) first.dictionary()->analyse(kernel, from, hidden, others);
        for (std::size_t i = 0; i < layers_.size(); ++i) {
          const Layer& layer = *layers_[i];
          if (layer.side() == DictionarySide::input) {
            layer.combine(kernel, hidden, to);
          } else {
            layer.combine(kernel, from, hidden);
            layer.dictionary()->synthesise(kernel, hidden, to, others);
          }
          for (Index f = 0; f < layer.bias().size(); ++f) {
            for (Index b = 0; b < width; ++b) to[f * width + b] += layer.bias()[f];
          }
          kernel.store_samples(to, begin, count, outputs[i]);
        }
      });
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) detail::check_result(*layers_[i], "forward", outputs[i]);
  }

  /// The same, with memory of its own for everything.
  std::vector<Matrix<S>> forward(const ConstMatrixRef<S>& x) const {
    std::vector<Matrix<S>> results;
    for (const Layer* layer : layers_) results.emplace_back(layer->out_features(), x.cols());
    std::vector<MatrixRef<S>> outputs(results.begin(), results.end());
    Workspace workspace;
    forward(x, outputs, workspace);
    return results;
  }

 private:
  void check(const ConstMatrixRef<S>& x, std::span<MatrixRef<S>> outputs) const {
    if (outputs.size() != layers_.size()) {
      detail::throw_invalid(type_name, "::forward: ", outputs.size(), " outputs for ", layers_.size(),
                            " layers, expected as many");
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      detail::check_forward(*layers_[i], x, outputs[i]);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (k != i)
          detail::check_own_memory<S>(detail::LayerFacts<S>(*layers_[k]), "forward", "y", outputs[i]);
        if (k < i && detail::share_memory(outputs[i], outputs[k])) {
          detail::throw_invalid(type_name, "::forward: outputs ", k, " and ", i,
                                " share the same memory, expected memory of its own for each");
        }
      }
    }
  }

  void single(const ConstMatrixRef<S>& x, std::span<MatrixRef<S>> outputs, S* memory,
              Workspace& workspace) const {
    const Layer& first = *layers_[0];
    const Index rank = first.rank(), rows = first.side() == DictionarySide::input ? rank : in_features();
    // behind the entries that are used, zeros up to a full register
    Eigen::Map<Matrix<S>> read(memory, Layer::padded(rows), 1);
    Eigen::Map<Matrix<S>> combined(memory + read.size(), rank, 1);
    if (first.side() == DictionarySide::input) {
      first.dictionary()->analyse(x, read.topRows(rank), workspace.scratch);
    } else {
      read.topRows(rows) = x;
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = *layers_[i];
      if (layer.side() == DictionarySide::input) {
        layer.combine_single(read, outputs[i]);
      } else {
        layer.combine_single(read, combined);
        layer.dictionary()->synthesise(combined, outputs[i], workspace.scratch);
      }
      if (layer.has_bias()) outputs[i].col(0) += layer.bias();
    }
  }

  std::vector<const Layer*> layers_;
};

}  // namespace rotorlin
