// SPDX-License-Identifier: MIT
/// \file
/// A dictionary of atoms that several layers share.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/overlap.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/detail/sample_block.hpp"
#include "rotorlin/layers/layer.hpp"

namespace rotorlin {

/// D, features x rank. Immutable.
template <class S>
class SharedDictionary {
 public:
  /// All rows are stored: `atoms` is features x rank. \throws std::invalid_argument when it is empty,
  /// std::domain_error on NaN or Inf.
  explicit SharedDictionary(Matrix<S> atoms) : SharedDictionary(std::move(atoms), {}) {}

  /// Row identity_rows[i] of D is row i of the identity, for i < rank; `stored` ((features - rank) x rank)
  /// are the other rows, in ascending order. \throws std::invalid_argument when `identity_rows` are neither
  /// none nor `rank` different rows; std::domain_error on NaN or Inf.
  SharedDictionary(Matrix<S> stored, std::vector<Index> identity_rows)
      : stored_(std::move(stored)), identity_rows_(std::move(identity_rows)) {
    constexpr const char* who = "SharedDictionary";
    const Index identities = static_cast<Index>(identity_rows_.size());
    if (stored_.cols() == 0 || stored_.rows() + identities == 0 ||
        (identities != 0 && identities != stored_.cols())) {
      detail::throw_invalid(
          who, ": ", identities, " identity rows and others of ", detail::shape(stored_),
          ", expected atoms of features x rank, or as many identity rows as there are atoms");
    }
    if (!detail::all_finite(stored_)) detail::throw_domain(who, ": an atom has NaN or infinite entries");
    std::vector<bool> taken(static_cast<std::size_t>(features()), false);
    for (const Index row : identity_rows_) {
      if (row < 0 || row >= features() || taken[static_cast<std::size_t>(row)]) {
        detail::throw_invalid(who, ": identity row ", row, " stands twice or outside of 0 ... ",
                              features() - 1);
      }
      taken[static_cast<std::size_t>(row)] = true;
    }
    if (identities == 0) return;
    for (Index row = 0; row < features(); ++row) {
      if (!taken[static_cast<std::size_t>(row)]) other_rows_.push_back(row);
    }
  }

  /// D is features x rank; `stored` are its rows that are not `identity_rows`, rows of the identity.
  Index features() const { return stored_.rows() + static_cast<Index>(identity_rows_.size()); }
  Index rank() const { return stored_.cols(); }
  const Matrix<S>& stored() const { return stored_; }
  const std::vector<Index>& identity_rows() const { return identity_rows_; }

  /// features x rank.
  Matrix<S> to_dense() const {
    if (identity_rows_.empty()) return stored_;
    Matrix<S> dense = Matrix<S>::Zero(features(), rank());
    for (std::size_t i = 0; i < identity_rows_.size(); ++i) {
      dense(identity_rows_[i], static_cast<Index>(i)) = 1;
    }
    for (std::size_t i = 0; i < other_rows_.size(); ++i) {
      dense.row(other_rows_[i]) = stored_.row(static_cast<Index>(i));
    }
    return dense;
  }

  /// h = D^T x (rank x batch). `scratch` grows on demand. \throws std::invalid_argument on other shapes, or
  /// where h shares memory with x.
  void analyse(const ConstMatrixRef<S>& x, MatrixRef<S> h, VectorX<S>& scratch) const {
    check("analyse", "x", x, features(), "h", h, rank());
    if (identity_rows_.empty()) {
      multiply(stored_.transpose(), x, h);
      return;
    }
    gather(x, identity_rows_, h);
    if (other_rows_.empty()) return;
    auto others = detail::scratch(scratch, stored_.rows(), x.cols());
    gather(x, other_rows_, others);
    if (x.cols() == 1) {
      h.col(0).noalias() += stored_.transpose() * others.col(0);
    } else {
      h.noalias() += stored_.transpose() * others;
    }
  }

  /// x = D h (features x batch). \throws as `analyse`.
  void synthesise(const ConstMatrixRef<S>& h, MatrixRef<S> x, VectorX<S>& scratch) const {
    check("synthesise", "h", h, rank(), "x", x, features());
    if (identity_rows_.empty()) {
      multiply(stored_, h, x);
      return;
    }
    scatter(h, identity_rows_, x);
    if (other_rows_.empty()) return;
    auto others = detail::scratch(scratch, stored_.rows(), h.cols());
    multiply(stored_, h, others);
    scatter(others, other_rows_, x);
  }

  /// The same for a block of samples (detail::SampleBlock); `others` has features * width scalars.
  template <class Block>
  void analyse(Block, const S* x, S* h, S* others) const {
    constexpr Index width = Block::width;
    const Index stride = stored_.rows();
    if (identity_rows_.empty()) return Block::multiply(stored_.data(), stride, 1, rank(), stride, x, h);
    for (Index i = 0; i < rank(); ++i) copy_row<width>(x, identity_rows_[at(i)], h, i);
    for (Index i = 0; i < stride; ++i) copy_row<width>(x, other_rows_[at(i)], others, i);
    Block::template multiply<true>(stored_.data(), stride, 1, rank(), stride, others, h);
  }
  template <class Block>
  void synthesise(Block, const S* h, S* x, S* others) const {
    constexpr Index width = Block::width;
    const Index stride = stored_.rows();
    if (identity_rows_.empty()) return Block::multiply(stored_.data(), 1, stride, stride, rank(), h, x);
    Block::multiply(stored_.data(), 1, stride, stride, rank(), h, others);
    for (Index i = 0; i < rank(); ++i) copy_row<width>(h, i, x, identity_rows_[at(i)]);
    for (Index i = 0; i < stride; ++i) copy_row<width>(others, i, x, other_rows_[at(i)]);
  }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  template <Index width>
  static void copy_row(const S* from, Index i, S* to, Index j) {
    std::copy(from + i * width, from + (i + 1) * width, to + j * width);
  }
  template <class From, class To>
  static void check(const char* function, const char* from_name, const From& from, Index from_rows,
                    const char* to_name, const To& to, Index to_rows) {
    if (from.rows() != from_rows || to.rows() != to_rows || from.cols() != to.cols()) {
      detail::throw_invalid("SharedDictionary::", function, ": ", from_name, " is ", detail::shape(from),
                            ", ", to_name, " is ", detail::shape(to), ", expected ", from_rows,
                            " x batch and ", to_rows, " x batch");
    }
    if (detail::share_memory(from, to)) {
      detail::throw_invalid("SharedDictionary::", function, ": ", from_name, " and ", to_name,
                            " share the same memory, expected memory of its own for ", to_name);
    }
  }
  template <class A, class B, class R>
  static void multiply(const A& a, const B& b, R&& result) {
    if (b.cols() == 1) {
      result.col(0).noalias() = a * b.col(0);
    } else {
      result.noalias() = a * b;
    }
  }
  template <class From, class To>
  static void gather(const From& from, const std::vector<Index>& rows, To&& to) {
    for (Index j = 0; j < from.cols(); ++j) {
      for (std::size_t i = 0; i < rows.size(); ++i) to(static_cast<Index>(i), j) = from(rows[i], j);
    }
  }
  template <class From, class To>
  static void scatter(const From& from, const std::vector<Index>& rows, To&& to) {
    for (Index j = 0; j < from.cols(); ++j) {
      for (std::size_t i = 0; i < rows.size(); ++i) to(rows[i], j) = from(static_cast<Index>(i), j);
    }
  }

  Matrix<S> stored_;
  std::vector<Index> identity_rows_, other_rows_;
};

}  // namespace rotorlin
