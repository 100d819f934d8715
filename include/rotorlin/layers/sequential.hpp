// SPDX-License-Identifier: MIT
/// \file
/// Layers one after another as one layer, which can be fitted, saved and loaded like any other.
///
///     Sequential<float> block(512);                              // y = x + a(norm(R x))
///     block.add(RotorLinear<float>(512, 512))
///         .add(ActivationLayer<float>(512, {.activation = Activation::gelu, .normalize = true}))
///         .add_input();
///     Sequential<float> model(784);
///     model.add(RotorLinear<float>(784, 512)).add(block).add(DenseLinear<float>(512, 10));
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rotorlin/core/cached.hpp"
#include "rotorlin/core/error.hpp"
#include "rotorlin/core/self_move.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/layer.hpp"

namespace rotorlin {

namespace detail {

/// One address for each type: what `dynamic_cast` would tell, without run-time type information.
template <class T>
inline char type_tag = 0;

/// A layer of any type behind one interface.
template <class S>
class SequentialPart {
 public:
  struct Workspace {
    const void* tag;  ///< of the layer's type
    explicit Workspace(const void* of_type) : tag(of_type) {}
    virtual ~Workspace() = default;
  };

  virtual ~SequentialPart() = default;
  virtual std::unique_ptr<SequentialPart> clone() const = 0;
  virtual Index in() const = 0;
  virtual Index out() const = 0;
  virtual Eigen::Map<VectorX<S>> parameters() = 0;
  virtual Eigen::Map<VectorX<S>> gradients() = 0;
  virtual std::string type() const = 0;
  virtual Description describe() const = 0;
  virtual const void* tag() const = 0;
  virtual const void* layer() const = 0;
  /// Makes `workspace` one of this layer's type where it is not.
  virtual void prepare(std::unique_ptr<Workspace>& workspace) const = 0;
  virtual void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const = 0;
  virtual void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                        Workspace& workspace) = 0;
};

template <class L>
class SequentialPartOf final : public SequentialPart<typename L::Scalar> {
  using S = typename L::Scalar;
  using Part = SequentialPart<S>;
  using Workspace = typename Part::Workspace;
  struct OwnWorkspace final : Workspace {
    OwnWorkspace() : Workspace(&type_tag<L>) {}
    typename L::Workspace of_layer;
  };

 public:
  explicit SequentialPartOf(L layer) : layer_(std::move(layer)) {}
  std::unique_ptr<Part> clone() const override { return std::make_unique<SequentialPartOf>(layer_); }
  Index in() const override { return layer_.in_features(); }
  Index out() const override { return layer_.out_features(); }
  Eigen::Map<VectorX<S>> parameters() override {
    return {layer_.parameters().data(), layer_.num_parameters()};
  }
  Eigen::Map<VectorX<S>> gradients() override { return {layer_.gradients().data(), layer_.num_parameters()}; }
  std::string type() const override { return L::type_name; }
  const void* tag() const override { return &type_tag<L>; }
  const void* layer() const override { return &layer_; }
  Description describe() const override {
    if constexpr (DescribedLayer<L>) {
      return layer_.describe();
    } else {
      throw_invalid("Sequential::describe: a ", L::type_name, " has no description; without it expected");
    }
  }
  void prepare(std::unique_ptr<Workspace>& workspace) const override {
    if (workspace == nullptr || workspace->tag != &type_tag<L>) workspace = std::make_unique<OwnWorkspace>();
  }
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const override {
    layer_.forward(x, y, static_cast<OwnWorkspace&>(workspace).of_layer);
  }
  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace) override {
    layer_.backward(x, grad_y, grad_x, static_cast<OwnWorkspace&>(workspace).of_layer);
  }

 private:
  L layer_;
};

}  // namespace detail

/// y = f_k(... f_1(x)), with `add_input()` y = f_k(... f_1(x)) + x. A layer of fewer inputs than there are
/// features is applied to every group of so many features, one after another, with the same weights (the
/// patches of an image). Parameters: those of the layers in their order. Any Layer may be added; files hold
/// those that `AnyLayer` lists (any_layer.hpp).
template <class S>
class Sequential {
  using Part = detail::SequentialPart<S>;
  using Parts = std::vector<std::unique_ptr<Part>>;

 public:
  static constexpr const char* type_name = "Sequential";
  static constexpr Index least_parameters = 0;
  using Scalar = S;

  /// Scratch memory, and what `backward_again` needs of a forward pass. A copy is empty.
  class Workspace {
   public:
    Workspace() = default;
    Workspace(const Workspace&) {}
    Workspace(Workspace&&) = default;
    Workspace& operator=(Workspace other) {
      of_parts_ = std::move(other.of_parts_);
      values_ = std::move(other.values_);
      return *this;
    }

   private:
    friend class Sequential;
    std::vector<std::unique_ptr<typename Part::Workspace>> of_parts_;
    std::vector<VectorX<S>> values_;  ///< the input of every layer but the first, the output of the last
    VectorX<S> input_, grad_[2];
  };

  /// Without layers as yet. \throws std::invalid_argument for in < 1.
  explicit Sequential(Index in) : in_(in), out_(in) {
    if (in < 1) detail::throw_invalid(type_name, ": in = ", in, ", expected at least 1");
  }

  /// Appends a copy of a layer. Views of parameters and gradients become invalid. \throws
  /// std::invalid_argument where its inputs don't divide the features so far, or after `add_input()`.
  template <Layer L>
  Sequential& add(L layer) {
    static_assert(std::is_same_v<typename L::Scalar, S>, "a Sequential<S> takes layers of scalar S");
    append(std::make_unique<detail::SequentialPartOf<L>>(std::move(layer)));
    return *this;
  }

  /// From now on y = f(x) + x (a residual connection). \throws std::invalid_argument where the shapes of y
  /// and x differ.
  Sequential& add_input() {
    if (in_ != out_ || parts_.empty()) {
      detail::throw_invalid(type_name, "::add_input: ", parts_.size(), " layers map ", in_, " features to ",
                            out_, ", expected at least one layer and as many features as before");
    }
    adds_input_ = true;
    return *this;
  }

  Index in_features() const { return in_; }
  Index out_features() const { return out_; }
  Index num_parameters() const { return parameters_.size(); }
  Eigen::Map<VectorX<S>> parameters() { return {parameters_.data(), parameters_.size()}; }
  Eigen::Map<const VectorX<S>> parameters() const { return {parameters_.data(), parameters_.size()}; }
  Eigen::Map<VectorX<S>> gradients() { return {gradients_.data(), gradients_.size()}; }
  Eigen::Map<const VectorX<S>> gradients() const { return {gradients_.data(), gradients_.size()}; }
  void zero_gradients() { gradients_.setZero(); }

  /// Number of layers.
  std::size_t size() const { return parts_.size(); }
  /// Where the parameters of layer k are. \throws std::invalid_argument where there is none.
  ParameterRange parameters_of(std::size_t k) const {
    check_number("parameters_of", k);
    return {offsets_[k], offsets_[k + 1] - offsets_[k]};
  }
  /// A copy of layer k with its present parameters. \throws std::invalid_argument where it is no L.
  template <Layer L>
  L layer(std::size_t k) const {
    check_number("layer", k);
    if (parts_[k]->tag() != &detail::type_tag<L>) {
      detail::throw_invalid(type_name, "::layer: layer ", k, " is a ", parts_[k]->type(), ", expected a ",
                            L::type_name);
    }
    L copy = *static_cast<const L*>(parts_[k]->layer());
    copy.parameters() = parameters_.segment(offsets_[k], offsets_[k + 1] - offsets_[k]);
    return copy;
  }

  Matrix<S> forward(const ConstMatrixRef<S>& x) const {
    Matrix<S> y(out_, x.cols());
    Workspace workspace;
    forward(x, y, workspace);
    return y;
  }
  void forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const;
  void backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                Workspace& workspace);
  /// `backward` right after `forward` of the same x with the same workspace and parameters: what that has
  /// computed is not computed again.
  void backward_again(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                      Workspace& workspace);

  /// "in", "out", "layers" (their number), "adds_input", and of layer k "k.layer", its type, and its own
  /// description behind "k.". \throws std::invalid_argument for a layer that has none or is not in AnyLayer.
  Description describe() const;
  static Sequential from_description(const Description& description);  // any_layer.hpp
  static Index count_parameters(const Description& description);

 private:
  using Columns = Eigen::Map<Matrix<S>>;

  void check_number(const char* function, std::size_t k) const {
    if (k >= parts_.size())
      detail::throw_invalid(type_name, "::", function, ": layer ", k, " of ", parts_.size());
  }
  void check_layers(const char* function) const {
    if (parts_.empty())
      detail::throw_invalid(type_name, "::", function, ": there are no layers; add() at least one");
  }

  void append(std::unique_ptr<Part> part) {
    const Index in = part->in(), out = part->out();
    if (adds_input_ || out_ % in != 0) {
      detail::throw_invalid(type_name, "::add: a ", part->type(), " ", in, " -> ", out, " after ", out_,
                            " features",
                            adds_input_ ? " and add_input(), expected nothing"
                                        : ", expected in to be these features or a divisor");
    }
    const Index features = detail::checked_product(out_ / in, out), before = num_parameters();
    const auto parameters = part->parameters();
    parameters_.conservativeResize(before + parameters.size());
    parameters_.tail(parameters.size()) = parameters;
    gradients_.setZero(parameters_.size());
    offsets_.push_back(parameters_.size());
    parts_.push_back(std::move(part));
    out_ = features;
    working_ = {};
  }

  /// The layers with their present parameters.
  const Parts& layers() const {
    return working_.get(parameters_.data(), num_parameters(), false,
                        [this](Parts& state, bool, const auto& changed) {
                          if (state.size() != parts_.size()) {
                            state.clear();
                            for (const auto& part : parts_) state.push_back(part->clone());
                          }
                          for (std::size_t k = 0; k < state.size(); ++k) {
                            const Index first = offsets_[k], count = offsets_[k + 1] - first;
                            if (count > 0 && changed(first, count))
                              state[k]->parameters() = parameters_.segment(first, count);
                          }
                        });
  }

  void run(const Parts& layers, const ConstMatrixRef<S>& x, Workspace& workspace) const;
  void run_backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S>& grad_x,
                    Workspace& workspace);

  Index in_, out_;
  bool adds_input_ = false;
  detail::KeptOnSelfMove<std::vector<std::shared_ptr<const Part>>> parts_;  ///< as they were added
  detail::KeptOnSelfMove<std::vector<Index>> offsets_ = std::vector<Index>{0};
  VectorX<S> parameters_, gradients_;
  mutable detail::Cached<S, Parts> working_;
};

/// Fills workspace.values_.
template <class S>
void Sequential<S>::run(const Parts& layers, const ConstMatrixRef<S>& x, Workspace& workspace) const {
  workspace.of_parts_.resize(layers.size());
  workspace.values_.resize(layers.size());
  Index features = in_;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const Index in = layers[k]->in(), out = layers[k]->out(), groups = features / in * x.cols();
    layers[k]->prepare(workspace.of_parts_[k]);
    Columns y = detail::scratch(workspace.values_[k], out, groups);
    if (k > 0) {
      const Eigen::Map<const Matrix<S>> input(workspace.values_[k - 1].data(), in, groups);
      layers[k]->forward(input, y, *workspace.of_parts_[k]);
    } else if (in == features) {
      layers[k]->forward(x, y, *workspace.of_parts_[k]);
    } else {
      detail::scratch(workspace.input_, in_, x.cols()) = x;
      layers[k]->forward(Columns(workspace.input_.data(), in, groups), y, *workspace.of_parts_[k]);
    }
    features = features / in * out;
  }
}

template <class S>
void Sequential<S>::forward(const ConstMatrixRef<S>& x, MatrixRef<S> y, Workspace& workspace) const {
  check_layers("forward");
  detail::check_forward(*this, x, y);
  run(layers(), x, workspace);
  y = Columns(workspace.values_.back().data(), out_, x.cols());
  if (adds_input_) y += x;
}

template <class S>
void Sequential<S>::backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y, MatrixRef<S> grad_x,
                             Workspace& workspace) {
  check_layers("backward");
  detail::check_backward(*this, x, grad_y, grad_x);
  run(layers(), x, workspace);
  run_backward(x, grad_y, grad_x, workspace);
}

template <class S>
void Sequential<S>::backward_again(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                                   MatrixRef<S> grad_x, Workspace& workspace) {
  check_layers("backward_again");
  detail::check_backward(*this, x, grad_y, grad_x);
  bool met = workspace.values_.size() == parts_.size();
  Index features = in_;
  for (std::size_t k = 0; met && k < parts_.size(); ++k) {
    features = features / parts_[k]->in() * parts_[k]->out();
    met = workspace.values_[k].size() >= features * x.cols();
  }
  if (!met) {
    detail::throw_invalid(type_name, "::backward_again: this workspace has not met a forward pass of ",
                          x.cols(), " samples, expected one of the same x just before");
  }
  run_backward(x, grad_y, grad_x, workspace);
}

template <class S>
void Sequential<S>::run_backward(const ConstMatrixRef<S>& x, const ConstMatrixRef<S>& grad_y,
                                 MatrixRef<S>& grad_x, Workspace& workspace) {
  const Parts& layers = this->layers();
  Index features = out_;
  detail::scratch(workspace.grad_[0], out_, x.cols()) = grad_y;
  std::size_t current = 0;  // of the two buffers: the gradient of what layer k made
  for (std::size_t k = layers.size(); k-- > 0; current = 1 - current) {
    const Index in = layers[k]->in(), out = layers[k]->out(), groups = features / out * x.cols();
    features = features / out * in;
    const Columns of_output(workspace.grad_[current].data(), out, groups);
    Columns of_input = detail::scratch(workspace.grad_[1 - current], in, groups);
    layers[k]->prepare(workspace.of_parts_[k]);
    layers[k]->gradients().setZero();
    if (k > 0) {
      const Eigen::Map<const Matrix<S>> input(workspace.values_[k - 1].data(), in, groups);
      layers[k]->backward(input, of_output, of_input, *workspace.of_parts_[k]);
    } else if (in == features) {
      layers[k]->backward(x, of_output, of_input, *workspace.of_parts_[k]);
    } else {
      detail::scratch(workspace.input_, in_, x.cols()) = x;
      layers[k]->backward(Columns(workspace.input_.data(), in, groups), of_output, of_input,
                          *workspace.of_parts_[k]);
    }
  }
  grad_x = Columns(workspace.grad_[current].data(), in_, x.cols());
  if (adds_input_) grad_x += grad_y;
  for (std::size_t k = 0; k < layers.size(); ++k)
    gradients_.segment(offsets_[k], offsets_[k + 1] - offsets_[k]) += layers[k]->gradients();
}

template <class S>
Description Sequential<S>::describe() const {
  Description description = {{"in", detail::option_text(in_)},
                             {"out", detail::option_text(out_)},
                             {"layers", detail::option_text(parts_.size())},
                             {"adds_input", detail::option_text(adds_input_)}};
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const std::string prefix = std::to_string(k) + ".";
    description[prefix + "layer"] = parts_[k]->type();
    for (auto& [key, value] : parts_[k]->describe()) description[prefix + key] = value;
  }
  count_parameters(description);  // that it can be read again
  return description;
}

static_assert(Layer<Sequential<float>> && DescribedLayer<Sequential<double>>);

}  // namespace rotorlin

#include "rotorlin/layers/any_layer.hpp"  // what a description may name
