// SPDX-License-Identifier: MIT
/// \file
/// y = C^T D^T x + b: a layer whose matrix is made of a dictionary D that it shares with others and of
/// coefficients C of its own, dense or sparse. What the compression in geopair/ leaves of a layer.
///
/// D is features x rank, and r = rank of its rows may be those of the identity, which are not stored. It is
/// held by a shared pointer to const: many layers read it, none trains it; parameters() are the coefficients
/// and the bias. Sharing is on one side of the layer:
///
///     DictionarySide::input     y = C^T D^T x + b     D: in x rank,   C: rank x out
///     DictionarySide::output    y = D C^T x + b       D: out x rank,  C: in x rank
///
/// A dictionary of nothing but identity rows stores nothing: then the layer is a dense matrix C^T.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/overlap.hpp"
#include "rotorlin/core/self_move.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/detail/sample_block.hpp"
#include "rotorlin/layers/layer.hpp"
#include "rotorlin/layers/shared_dictionary.hpp"

namespace rotorlin {

template <class S>
class SharedDictionaryGroup;

/// Whether the layers of a dictionary share what reads their inputs, or what makes their outputs.
enum class DictionarySide { input, output };
/// How a layer holds its coefficients: all of them, or those that are not zero.
enum class CoefficientStorage { dense, sparse };

/// A layer on a shared dictionary. Parameters: the coefficients, column after column (of a sparse C its
/// stored nonzeros), then the bias (out). Sparse products read each nonzero once for a register full of
/// samples or more; a single sample takes a gathering loop.
template <class S>
class SharedDictionaryLinear : public LayerBase<SharedDictionaryLinear<S>, S> {
  using Base = LayerBase<SharedDictionaryLinear, S>;
  friend class SharedDictionaryGroup<S>;

 public:
  using Dictionary = std::shared_ptr<const SharedDictionary<S>>;
  static constexpr const char* type_name = "SharedDictionaryLinear";
  struct Workspace {
    VectorX<S> hidden, grad_hidden, scratch;
    detail::PackBuffer<S> block, grad_block, out_block;
  };

  /// `coefficients`: C, rank x out (input side) or in x rank (output side); of sparse ones what is not zero
  /// is stored, and where all are zero, one zero. `bias`: out values, or none. \throws std::invalid_argument
  /// on other shapes or no dictionary.
  SharedDictionaryLinear(Dictionary dictionary, const ConstMatrixRef<S>& coefficients,
                         CoefficientStorage storage = CoefficientStorage::dense,
                         DictionarySide side = DictionarySide::input, const VectorX<S>& bias = {})
      : SharedDictionaryLinear(
            std::move(dictionary), shape_checked(coefficients), storage,
            storage == CoefficientStorage::sparse ? pattern_of(coefficients) : ColumnPattern{}, side, bias) {
    auto values = this->parameters().head(this->bias_offset());
    if (storage == CoefficientStorage::dense) {
      Eigen::Map<Matrix<S>>(values.data(), coefficients.rows(), coefficients.cols()) = coefficients;
      return;
    }
    for (Index j = 0, p = 0; j < pattern_.cols(); ++j) {
      for (; p < static_cast<Index>(pattern_.starts[static_cast<std::size_t>(j) + 1]); ++p) {
        values[p] = coefficients(Index{pattern_.indices[static_cast<std::size_t>(p)]}, j);
      }
    }
    plan_ = detail::PatternPlan(pattern_);
  }

  /// Sparse, from the pattern (rows x columns as the coefficients above) and its values. \throws as above,
  /// also when the pattern does not make sense, is empty, or has not as many nonzeros as there are values.
  SharedDictionaryLinear(Dictionary dictionary, const ColumnPattern& pattern, const VectorX<S>& values,
                         DictionarySide side, const VectorX<S>& bias)
      : SharedDictionaryLinear(std::move(dictionary), {pattern.rows, pattern.cols()},
                               CoefficientStorage::sparse, ColumnPattern(pattern), side, bias) {
    if (!std::is_sorted(pattern_.starts.begin(), pattern_.starts.end()) || pattern_.starts.front() != 0 ||
        pattern_.starts.back() != pattern_.indices.size() ||
        std::any_of(pattern_.indices.begin(), pattern_.indices.end(),
                    [&](std::uint32_t i) { return i >= static_cast<std::uint64_t>(shape_.rows); })) {
      detail::throw_invalid(type_name, ": the pattern of ", shape_.rows, " x ", shape_.cols,
                            " has columns out of order or rows beyond its height");
    }
    if (values.size() != pattern_.nonzeros()) {
      detail::throw_invalid(type_name, ": ", values.size(), " values for ", pattern_.nonzeros(),
                            " nonzeros, expected as many");
    }
    this->parameters().head(this->bias_offset()) = values;
    plan_ = detail::PatternPlan(pattern_);
  }

  /// What the layer was made of.
  const Dictionary& dictionary() const { return dictionary_; }
  DictionarySide side() const { return side_; }
  CoefficientStorage storage() const { return storage_; }
  Index rank() const { return dictionary_->rank(); }
  /// Where the nonzeros are, of sparse coefficients.
  const ColumnPattern& pattern() const { return pattern_; }
  /// Coefficients that are stored.
  Index nonzeros() const { return this->bias_offset(); }

  /// C, rank x out (input side) or in x rank (output side).
  Matrix<S> coefficients() const {
    const S* values = this->parameters().data();
    if (storage_ == CoefficientStorage::dense) return dense(values);
    Matrix<S> c = Matrix<S>::Zero(shape_.rows, shape_.cols);
    for (Index j = 0; j < shape_.cols; ++j) {
      for (std::size_t p = start(j); p < start(j + 1); ++p) c(Index{pattern_.indices[p]}, j) = values[p];
    }
    return c;
  }
  ParameterRange linear_parameters() const { return {0, this->bias_offset()}; }
  Matrix<S> to_dense() const {
    const Matrix<S> atoms = dictionary_->to_dense(), c = coefficients();
    if (side_ == DictionarySide::input) return c.transpose() * atoms.transpose();
    return atoms * c.transpose();
  }

  using Base::forward;
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
    detail::check_forward(*this, x, y);
    detail::scratch(workspace.scratch, dictionary_->stored().rows(), 1);
    if (x.cols() == 1) {
      forward_single(x, y, workspace);
    } else {
      for_blocks(x.cols(), [&](auto block, Index first, Index count) {
        forward_block(block, x, y, first, count, workspace.block);
      });
    }
    detail::check_result(*this, "forward", y);
  }

  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace) {
    detail::check_backward(*this, x, grad_y, grad_x);
    auto hidden = detail::scratch(workspace.hidden, rank(), x.cols());
    if (side_ == DictionarySide::input) {
      auto grad_hidden = detail::scratch(workspace.grad_hidden, rank(), x.cols());
      dictionary_->analyse(x, hidden, workspace.scratch);
      combine_back(hidden, grad_y, grad_hidden, workspace);
      dictionary_->synthesise(grad_hidden, grad_x, workspace.scratch);
    } else {
      dictionary_->analyse(grad_y, hidden, workspace.scratch);
      combine_back(x, hidden, grad_x, workspace);
    }
    detail::check_result(*this, "backward", grad_x);
    if (this->has_bias()) this->bias_gradients() += grad_y.rowwise().sum();
  }

  /// What it is. A file keeps the dictionary beside it: see shared_dictionary_file.hpp.
  Description describe() const {
    return {{"in", detail::option_text(this->in_features())},
            {"out", detail::option_text(this->out_features())},
            {"rank", detail::option_text(rank())},
            {"nonzeros", detail::option_text(nonzeros())},
            {"storage", storage_ == CoefficientStorage::dense ? "dense" : "sparse"},
            {"side", side_ == DictionarySide::input ? "input" : "output"},
            {"bias", detail::option_text(this->has_bias())}};
  }

 private:
  struct Shape {
    Index rows, cols;
  };
  template <int Packs>
  using Block = detail::SampleBlock<S, Packs>;
  static constexpr int wide = 8;  // registers of samples

  SharedDictionaryLinear(Dictionary dictionary, Shape shape, CoefficientStorage storage,
                         ColumnPattern pattern, DictionarySide side, const VectorX<S>& bias)
      : Base(checked(dictionary, shape, side, bias, 0), checked(dictionary, shape, side, bias, 1),
             num_coefficients(storage, shape, pattern), bias.size() > 0),
        dictionary_(std::move(dictionary)),
        shape_(shape),
        storage_(storage),
        side_(side),
        pattern_(std::move(pattern)) {
    this->bias() = bias;
  }

  static Index num_coefficients(CoefficientStorage storage, Shape shape, const ColumnPattern& pattern) {
    if (storage != CoefficientStorage::dense && storage != CoefficientStorage::sparse) {
      detail::throw_invalid(type_name, ": storage = ", static_cast<int>(storage),
                            ", expected one of the enumeration CoefficientStorage");
    }
    return storage == CoefficientStorage::dense ? detail::checked_product(shape.rows, shape.cols)
                                                : pattern.nonzeros();
  }

  template <class M>
  static Shape shape_checked(const M& m) {
    if (static_cast<std::uint64_t>(m.rows()) > std::numeric_limits<std::uint32_t>::max()) {
      detail::throw_invalid(type_name, ": coefficients are ", detail::shape(m), ", expected fewer rows");
    }
    return {m.rows(), m.cols()};
  }

  /// in (0) or out (1) features.
  static Index checked(const Dictionary& dictionary, Shape shape, DictionarySide side, const VectorX<S>& bias,
                       int which) {
    if (dictionary == nullptr) detail::throw_invalid(type_name, ": no dictionary was given");
    if (side != DictionarySide::input && side != DictionarySide::output) {
      detail::throw_invalid(type_name, ": side = ", static_cast<int>(side),
                            ", expected one of the enumeration DictionarySide");
    }
    const bool input = side == DictionarySide::input;
    const Index rank = dictionary->rank();
    if ((input ? shape.rows : shape.cols) != rank) {
      detail::throw_invalid(type_name, ": coefficients are ", shape.rows, " x ", shape.cols, ", expected ",
                            input ? detail::concatenate(rank, " x out") : detail::concatenate("in x ", rank),
                            " for a dictionary of ", dictionary->features(), " x ", rank);
    }
    const Index in = input ? dictionary->features() : shape.rows;
    const Index out = input ? shape.cols : dictionary->features();
    if (bias.size() != 0 && bias.size() != out) {
      detail::throw_invalid(type_name, ": the bias has ", bias.size(), " values, expected ", out, " or none");
    }
    return which == 0 ? in : out;
  }

  static ColumnPattern pattern_of(const ConstMatrixRef<S>& c) {
    ColumnPattern pattern;
    pattern.rows = c.rows();
    for (Index j = 0; j < c.cols(); ++j) {
      for (Index i = 0; i < c.rows(); ++i) {
        if (c(i, j) != 0) pattern.indices.push_back(static_cast<std::uint32_t>(i));
      }
      pattern.starts.push_back(pattern.indices.size());
    }
    if (pattern.indices.empty() && c.size() > 0) {
      pattern.indices.push_back(0);
      std::fill(pattern.starts.begin() + 1, pattern.starts.end(), 1);
    }
    return pattern;
  }

  std::size_t start(Index j) const { return pattern_.starts[static_cast<std::size_t>(j)]; }
  Eigen::Map<const Matrix<S>> dense(const S* values) const { return {values, shape_.rows, shape_.cols}; }

  /// body(block, first sample, samples), the block as wide as is worth it.
  template <class Body>
  static void for_blocks(Index batch, const Body& body) {
    for (Index first = 0; first < batch;) {
      const Index left = batch - first;
      if (left > Block<1>::width) {
        body(Block<wide>(), first, std::min(left, Block<wide>::width));
        first += Block<wide>::width;
      } else {
        body(Block<1>(), first, left);
        first += Block<1>::width;
      }
    }
  }

  static Index padded(Index rows) { return (rows + 15) / 16 * 16; }
  /// Scalars of scratch for a block of samples, or a single one.
  Index block_memory(Index width) const {
    return (this->in_features() + this->out_features() + rank() + dictionary_->features()) * width + 16;
  }

  void forward_single(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
    S* const memory = workspace.block.reserve(block_memory(1));
    // behind the entries that are used, zeros up to a full register
    Eigen::Map<Matrix<S>> hidden(memory, padded(shape_.rows), 1);
    if (side_ == DictionarySide::input) {
      dictionary_->analyse(x, hidden.topRows(rank()), workspace.scratch);
      combine_single(hidden, y);
    } else {
      hidden.topRows(shape_.rows) = x;
      Eigen::Map<Matrix<S>> combined(memory + hidden.size(), rank(), 1);
      combine_single(hidden, combined);
      dictionary_->synthesise(combined, y, workspace.scratch);
    }
    if (this->has_bias()) y.col(0) += this->bias();
  }

  /// y = C^T h; h has zeros behind its entries.
  void combine_single(MatrixRef<S> h, MatrixRef<S> y) const {
    const S* values = this->parameters().data();
    if (storage_ == CoefficientStorage::dense) {
      y.col(0).noalias() = dense(values).transpose() * h.col(0).head(shape_.rows);
    } else {
      h.col(0).tail(h.rows() - shape_.rows).setZero();
      detail::multiply_masked(pattern_, plan_, values, h.data(), y.data());
    }
  }

  template <class Block>
  void forward_block(Block block, const ConstMatrixRef<S>& x, MatrixRef<S> y, Index first, Index count,
                     detail::PackBuffer<S>& memory) const {
    constexpr Index width = Block::width;
    const Index in = this->in_features(), out = this->out_features();
    S* const from = memory.reserve(block_memory(width));
    S* const to = from + in * width;
    S* const hidden = to + out * width;
    S* const others = hidden + rank() * width;
    Block::load_samples(x, first, count, from);
    if (side_ == DictionarySide::input) {
      dictionary_->analyse(block, from, hidden, others);
      combine(block, hidden, to);
    } else {
      combine(block, from, hidden);
      dictionary_->synthesise(block, hidden, to, others);
    }
    for (Index f = 0; f < this->bias().size(); ++f) {
      for (Index b = 0; b < width; ++b) to[f * width + b] += this->bias()[f];
    }
    Block::store_samples(to, first, count, y);
  }

  /// y = C^T h for a block.
  template <class Block>
  void combine(Block, const S* h, S* y) const {
    const S* values = this->parameters().data();
    if (storage_ == CoefficientStorage::dense) {
      Block::multiply(values, shape_.rows, 1, shape_.cols, shape_.rows, h, y);
    } else {
      Block::multiply_sparse(pattern_, plan_, values, h, y);
    }
  }

  /// grad_h = C g, and the gradients of C.
  void combine_back(const ConstMatrixRef<S>& h, const ConstMatrixRef<S>& g, MatrixRef<S> grad_h,
                    Workspace& workspace) {
    const S* const values = this->parameters().data();
    S* const grad_values = this->gradients().data();
    if (storage_ == CoefficientStorage::dense) {
      grad_h.noalias() = dense(values) * g;
      Eigen::Map<Matrix<S>>(grad_values, shape_.rows, shape_.cols).noalias() += h * g.transpose();
      return;
    }
    S* const block = workspace.block.reserve(shape_.rows * Block<wide>::width);
    S* const grad_block = workspace.grad_block.reserve(shape_.rows * Block<wide>::width);
    S* const out_block = workspace.out_block.reserve(shape_.cols * Block<wide>::width);
    for_blocks(h.cols(), [&]<int Packs>(Block<Packs> kernel, Index first, Index count) {
      constexpr Index width = Block<Packs>::width;
      kernel.load_samples(h, first, count, block);
      kernel.load_samples(g, first, count, out_block);
      std::fill(grad_block, grad_block + shape_.rows * width, S(0));
      kernel.multiply_back(pattern_, values, block, out_block, grad_block, grad_values);
      kernel.store_samples(grad_block, first, count, grad_h);
    });
  }

  Dictionary dictionary_;
  Shape shape_;  // of C
  CoefficientStorage storage_;
  DictionarySide side_;
  detail::KeptOnSelfMove<ColumnPattern> pattern_;
  detail::KeptOnSelfMove<detail::PatternPlan> plan_;
};

/// One of several layers, which may share dictionaries.
template <class S>
struct NamedSharedLayer {
  std::string name;
  SharedDictionaryLinear<S> layer;
};

static_assert(LinearLayer<SharedDictionaryLinear<float>> && LinearLayer<SharedDictionaryLinear<double>>);

ROTORLIN_COMPILED_LAYER(SharedDictionaryLinear)

}  // namespace rotorlin
