// SPDX-License-Identifier: MIT
/// \file
/// What a layer is: a map from in to out features with a flat vector of parameters, differentiable in both.
///
/// Let L be any loss and g = dL/dy. `forward` computes y = f(x; p); `backward` computes dL/dx and adds dL/dp
/// to the gradients. Linear layers are y = M(p) x + b, and can give the matrix M.
///
/// A batch is features x batch, one sample a column (core/types.hpp). Trainers and serialization know layers
/// only through the concepts here; `LayerBase` is the part that most layers have in common.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/overlap.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// A differentiable map with flat parameters.
///
/// - `Scalar`, and `Workspace`: scratch memory, default constructible, which grows on demand. A layer that
/// meets
///   a workspace again allocates nothing. One workspace a thread; the layer itself is const in `forward`.
/// - `type_name`: what a file calls the layer.
/// - `in_features()`, `out_features()`, `num_parameters()`: all >= 1. Only of a layer with a member `static
/// constexpr
///   Index least_parameters = 0` may the last be 0; elsewhere that is a layer that has been moved from.
/// - `parameters()`, `gradients()`: flat, contiguous, in the same order; the caller may write to both.
/// - `forward(x, y, workspace)`: x is in x batch, y is out x batch and overwritten. `forward(x)` returns y.
/// - `backward(x, grad_y, grad_x, workspace)`: the same x as in `forward`, which need not have run before;
/// adds
///   to `gradients()`, overwrites grad_x (in x batch).
/// - `zero_gradients()`.
///
/// A wrong shape or an empty batch throws std::invalid_argument that names both shapes; so does a y or grad_x
/// that shares memory with another argument or with the layer. Parameters that are NaN or infinite throw
/// std::domain_error.
template <class L>
concept Layer = std::floating_point<typename L::Scalar> &&
    std::default_initializable<typename L::Workspace> &&
    requires(L layer, const L constant, const ConstMatrixRef<typename L::Scalar>& input,
             MatrixRef<typename L::Scalar> output, typename L::Workspace& workspace) {
  { L::type_name } -> std::convertible_to<std::string_view>;
  { constant.in_features() } -> std::same_as<Index>;
  { constant.out_features() } -> std::same_as<Index>;
  { constant.num_parameters() } -> std::same_as<Index>;
  { layer.parameters() } -> std::convertible_to<VectorRef<typename L::Scalar>>;
  { layer.gradients() } -> std::convertible_to<VectorRef<typename L::Scalar>>;
  { constant.parameters() } -> std::convertible_to<ConstVectorRef<typename L::Scalar>>;
  { constant.gradients() } -> std::convertible_to<ConstVectorRef<typename L::Scalar>>;
  { constant.forward(input) } -> std::same_as<Matrix<typename L::Scalar>>;
  constant.forward(input, output, workspace);
  layer.backward(input, input, output, workspace);
  layer.zero_gradients();
};

/// A layer that is y = M x + b: `to_dense()` is M (out x in, without the bias); `bias()` are the parameters
/// from `bias_offset()` on that make b, out of them or none. b is linear in `bias()`, and zero where `bias()`
/// is.
template <class L>
concept LinearLayer = Layer<L> && requires(L layer, const L constant) {
  { constant.to_dense() } -> std::same_as<Matrix<typename L::Scalar>>;
  { layer.bias() } -> std::convertible_to<VectorRef<typename L::Scalar>>;
  { constant.bias() } -> std::convertible_to<ConstVectorRef<typename L::Scalar>>;
  { constant.bias_offset() } -> std::same_as<Index>;
};

/// A part of a layer's flat parameters.
struct ParameterRange {
  Index offset, size;
};

// A layer in whose output some parameters are linear may say so with `linear_parameters() -> ParameterRange`:
// to multiply all of them by c multiplies y (of a LinearLayer: M) by c. Where there are none the size is 0.

/// The options of a layer as text, "in" -> "784": what a file keeps beside the parameters.
using Description = std::map<std::string, std::string>;

/// A layer that can be saved: `L::from_description(layer.describe())` has the same shape and the same meaning
/// of every parameter (their values travel apart). "in" and "out" must be among the keys.
/// `L::count_parameters(description)` is the number of parameters of that layer, found without making it:
/// what a file says is held against what it holds before anything of that size is allocated. Both throw
/// std::invalid_argument on missing or impossible options.
template <class L>
concept DescribedLayer = Layer<L> && requires(const L layer, const Description& description) {
  { layer.describe() } -> std::same_as<Description>;
  { L::from_description(description) } -> std::same_as<L>;
  { L::count_parameters(description) } -> std::same_as<Index>;
};

namespace detail {

/// Sums and products of counts that may come from a file; std::invalid_argument on overflow.
inline Index checked_sum(Index a, Index b) {
  Index sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_invalid("layer: ", a, " + ", b, " parameters are too many");
  return sum;
}
inline Index checked_product(Index a, Index b) {
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw_invalid("layer: ", a, " x ", b, " parameters are too many");
  return product;
}

/// A rows x cols matrix at the beginning of a buffer that only ever grows.
template <class Scalar>
Eigen::Map<Matrix<Scalar>> scratch(VectorX<Scalar>& buffer, Index rows, Index cols) {
  if (buffer.size() < rows * cols) buffer.resize(rows * cols);
  return {buffer.data(), rows, cols};
}

/// The fewest parameters that a layer of this type has.
template <class L>
constexpr Index least_parameters() {
  if constexpr (requires { L::least_parameters; }) {
    return L::least_parameters;
  } else {
    return 1;
  }
}

/// What checks need to know of a layer: they are compiled once a scalar.
template <class S>
struct LayerFacts {
  const char* type_name;
  Index in, out, size, least_size;
  const S *parameters, *gradients;

  template <class L>
  explicit LayerFacts(const L& layer)
      : type_name(L::type_name),
        in(layer.in_features()),
        out(layer.out_features()),
        size(layer.num_parameters()),
        least_size(least_parameters<L>()),
        parameters(layer.parameters().data()),
        gradients(layer.gradients().data()) {}
};

inline void check_shape(const char* type_name, const char* function, const char* name, Index given_rows,
                        Index given_cols, Index rows, Index cols) {
  if (given_rows != rows || given_cols != cols) {
    throw_invalid(type_name, "::", function, ": ", name, " is ", given_rows, " x ", given_cols, ", expected ",
                  rows, " x ", cols, " (features x batch)");
  }
}
template <class L, class M>
void check_shape(const L&, const char* function, const char* name, const M& m, Index rows, Index cols) {
  check_shape(L::type_name, function, name, m.rows(), m.cols(), rows, cols);
}

template <class L>
void check_not_moved(const L& layer, const char* function) {
  if (layer.num_parameters() < least_parameters<L>())
    throw_invalid(L::type_name, "::", function, ": the layer has been moved from");
}

template <class S>
Index checked_batch(const LayerFacts<S>& layer, const char* function, Index rows, Index cols) {
  if (layer.size < layer.least_size)
    throw_invalid(layer.type_name, "::", function, ": the layer has been moved from");
  if (cols == 0) {
    throw_invalid(layer.type_name, "::", function, ": x is ", rows, " x ", cols, ", expected ", layer.in,
                  " x batch with at least one sample");
  }
  if (rows != layer.in) {
    throw_invalid(layer.type_name, "::", function, ": x is ", rows, " x ", cols, ", expected ", layer.in,
                  " x ", cols, " (features x batch)", cols == layer.in ? "; is it transposed?" : "");
  }
  return cols;
}
template <class L, class M>
Index checked_batch(const L& layer, const char* function, const M& x) {
  return checked_batch(LayerFacts<typename L::Scalar>(layer), function, x.rows(), x.cols());
}

/// A result must not be written over what is still to be read, nor over itself.
template <class S>
void check_own_memory(const LayerFacts<S>& layer, const char* function, const char* name,
                      const ConstMatrixRef<S>& out) {
  const auto refuse = [&](const char* what) {
    throw_invalid(layer.type_name, "::", function, ": ", name, " and ", what,
                  " share the same memory, expected a ", name, " of its own");
  };
  using Flat = Eigen::Map<const VectorX<S>>;
  if (overlaps_itself(out)) refuse("other columns of it");
  if (share_memory(out, Flat(layer.parameters, layer.size))) refuse("the layer's parameters");
  if (share_memory(out, Flat(layer.gradients, layer.size))) refuse("the layer's gradients");
}
template <class S, class Out>
void check_apart(const LayerFacts<S>& layer, const char* function, const char* name,
                 const ConstMatrixRef<S>& in, const char* out_name, const Out& out) {
  if (share_memory(in, out)) {
    throw_invalid(layer.type_name, "::", function, ": ", name, " and ", out_name,
                  " share the same memory, expected a ", out_name, " of its own");
  }
}

template <class S>
void check_forward(const LayerFacts<S>& layer, const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& y) {
  const Index batch = checked_batch(layer, "forward", x.rows(), x.cols());
  check_shape(layer.type_name, "forward", "y", y.rows(), y.cols(), layer.out, batch);
  check_apart(layer, "forward", "x", x, "y", y);
  check_own_memory(layer, "forward", "y", y);
}
template <class S>
void check_backward(const LayerFacts<S>& layer, const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                    const ConstMatrixRef<S>& grad_x) {
  const Index batch = checked_batch(layer, "backward", x.rows(), x.cols());
  check_shape(layer.type_name, "backward", "grad_y", grad_y.rows(), grad_y.cols(), layer.out, batch);
  check_shape(layer.type_name, "backward", "grad_x", grad_x.rows(), grad_x.cols(), layer.in, batch);
  check_apart(layer, "backward", "x", x, "grad_x", grad_x);
  check_apart(layer, "backward", "grad_y", grad_y, "grad_x", grad_x);
  check_own_memory(layer, "backward", "grad_x", grad_x);
  const Eigen::Map<const VectorX<S>> gradients(layer.gradients, layer.size);
  check_apart(layer, "backward", "x", x, "gradients", gradients);
  check_apart(layer, "backward", "grad_y", grad_y, "gradients", gradients);
}

/// The shapes and the memory that `forward` demands of every layer.
template <class L>
void check_forward(const L& layer, const ConstMatrixRef<typename L::Scalar>& x,
                   const ConstMatrixRef<typename L::Scalar>& y) {
  check_forward(LayerFacts<typename L::Scalar>(layer), x, y);
}

/// The shapes and the memory that `backward` demands of every layer.
template <class L>
void check_backward(const L& layer, const ConstMatrixRef<typename L::Scalar>& x,
                    const ConstMatrixRef<typename L::Scalar>& grad_y,
                    const ConstMatrixRef<typename L::Scalar>& grad_x) {
  check_backward(LayerFacts<typename L::Scalar>(layer), x, grad_y, grad_x);
}

/// What a fit to a weight matrix in the metric of a Gram matrix demands of both.
template <class L, class W, class G>
void check_fit(const L& layer, const char* who, const W& weight, const G& gram) {
  const Index in = layer.in_features(), out = layer.out_features();
  if (weight.rows() != out || weight.cols() != in || gram.rows() != in || gram.cols() != in) {
    throw_invalid(who, ": weight is ", shape(weight), ", Gram matrix is ", shape(gram), "; expected ", out,
                  " x ", in, " and ", in, " x ", in, " for this layer");
  }
  if (!all_finite(weight)) throw_domain(who, ": the weight has NaN or infinite entries");
}

/// Throws std::domain_error unless every parameter is finite.
template <class S>
void check_parameters(const char* type_name, const char* function, const S* parameters, Index size) {
  for (Index i = 0; i < size; ++i) {
    if (!detail::is_finite(parameters[i])) {
      throw_domain(type_name, "::", function, ": parameter ", i, " of ", size, " is ", parameters[i],
                   "; every parameter must be finite");
    }
  }
}
template <class L>
void check_parameters(const L& layer, const char* function) {
  check_parameters(L::type_name, function, layer.parameters().data(), layer.num_parameters());
}

/// The same for layers in which a parameter that is not finite always shows in `result`, as it does in a
/// matrix product: costs nothing of the order of the parameters unless something is wrong.
template <class L, class M>
void check_result(const L& layer, const char* function, const M& result) {
  if (!all_finite(result)) check_parameters(layer, function);
}

template <class T>
std::string option_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else {
    return concatenate(value);
  }
}

/// Reads back an integer or bool that `option_text` wrote; throws std::invalid_argument naming the key.
template <class T>
T option(const Description& description, const std::string& key) {
  const auto found = description.find(key);
  if (found == description.end()) throw_invalid("layer description: option '", key, "' is missing");
  const std::string& text = found->second;
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "false") return text == "true";
  } else {
    T value{};
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && rest == end) return value;
  }
  throw_invalid("layer description: option '", key, "' is '", text, "', expected ",
                std::is_same_v<T, bool> ? "true or false" : "an integer");
}

}  // namespace detail

/// Sets the bias such that the layer maps x (in) to y (out). Where nothing of the bias reaches an output, as
/// in a layer that scales its bias by zero, that output stays as it is. std::invalid_argument without a bias.
template <LinearLayer L>
void match_bias(L& layer, const ConstVectorRef<typename L::Scalar>& x,
                const ConstVectorRef<typename L::Scalar>& y);  // detail/layer_ref.hpp

/// What most layers share: sizes, flat parameters and gradients with the bias (if any) last, and the
/// convenient `forward(x)`. `class MyLayer : public LayerBase<MyLayer<S>, S>` with `using Base::forward;`.
template <class Derived, class S>
class LayerBase {
 public:
  using Scalar = S;

  Index in_features() const { return in_; }
  Index out_features() const { return out_; }
  Index num_parameters() const { return parameters_.size(); }

  Eigen::Map<VectorX<S>> parameters() { return {parameters_.data(), parameters_.size()}; }
  Eigen::Map<const VectorX<S>> parameters() const { return {parameters_.data(), parameters_.size()}; }
  Eigen::Map<VectorX<S>> gradients() { return {gradients_.data(), gradients_.size()}; }
  Eigen::Map<const VectorX<S>> gradients() const { return {gradients_.data(), gradients_.size()}; }
  void zero_gradients() { gradients_.setZero(); }

  bool has_bias() const { return bias_size_ != 0; }
  /// Where the bias begins among the parameters: at their end.
  Index bias_offset() const { return parameters_.size() - bias_size_; }
  Eigen::Map<VectorX<S>> bias() { return {parameters_.data() + bias_offset(), bias_size_}; }
  Eigen::Map<const VectorX<S>> bias() const { return {parameters_.data() + bias_offset(), bias_size_}; }

  Matrix<S> forward(const ConstMatrixRef<S>& x) const {
    Matrix<S> y(out_, x.cols());
    typename Derived::Workspace workspace;
    static_cast<const Derived&>(*this).forward(x, y, workspace);
    return y;
  }

 protected:
  /// `weights`: the number of parameters without the bias; all parameters are zero at first.
  LayerBase(Index in, Index out, Index weights, bool bias) : in_(in), out_(out), bias_size_(bias ? out : 0) {
    if (in < 1 || out < 1 || weights < detail::least_parameters<Derived>()) {
      detail::throw_invalid(Derived::type_name, ": in = ", in, ", out = ", out, " with ", weights,
                            " weights; each must be at least 1");
    }
    detail::checked_sum(weights, bias_size_);
    parameters_.setZero(weights + bias_size_);
    gradients_.setZero(weights + bias_size_);
  }

  auto bias_gradients() { return gradients_.tail(bias_size_); }

 private:
  Index in_, out_, bias_size_;
  VectorX<S> parameters_, gradients_;
};

}  // namespace rotorlin

/// At the end of a layer's header, in namespace rotorlin: rotorlin::compiled has the layer (src/layers.cpp).
#if defined(ROTORLIN_COMPILED)
#define ROTORLIN_COMPILED_LAYER(L) \
  extern template class L<float>;  \
  extern template class L<double>;
#else
#define ROTORLIN_COMPILED_LAYER(L)
#endif

#include "rotorlin/layers/detail/layer_ref.hpp"
