// SPDX-License-Identifier: MIT
// What every layer must obey. `test::check_layer_laws(layer)` runs all laws (layer_laws.cpp) on copies of one
// layer, whose parameters should be generic (random, no zeros). The laws see a layer through `ErasedLayer`,
// so that they are compiled once a scalar.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/serialization.hpp"
#include "rotorlin/layers/layer.hpp"

namespace test {

using rotorlin::Index;
using rotorlin::Matrix;
using rotorlin::VectorX;

template <class S>
Matrix<S> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<S> m(rows, cols);
  rotorlin::Random(seed).fill_uniform(m, -1, 1);
  return m;
}

/// Largest difference, relative to the largest entry of `expected`.
template <class A, class B>
double relative_difference(const A& actual, const B& expected) {
  if (!rotorlin::detail::all_finite(actual)) return std::numeric_limits<double>::infinity();
  const double scale = static_cast<double>(expected.cwiseAbs().maxCoeff());
  const double difference = static_cast<double>((actual - expected).cwiseAbs().maxCoeff());
  return difference == 0 ? 0 : difference / scale;
}

/// The rounding that a law forgives.
template <class S>
double rounding() {
  return std::is_same_v<S, float> ? 1e-5 : 1e-13;
}

/// A layer of any type, as a value.
template <class S>
class ErasedLayer {
 public:
  using Scalar = S;
  using Map = Eigen::Map<VectorX<S>>;
  using ConstMap = Eigen::Map<const VectorX<S>>;

  /// Made by the first call that it is given to.
  struct Workspace {
    std::shared_ptr<void> of_layer;
  };

  template <rotorlin::Layer L>
  explicit ErasedLayer(const L& layer) : held_(std::make_unique<Holder<L>>(layer)) {}
  ErasedLayer(const ErasedLayer& other) : held_(other.held_->clone()) {}
  ErasedLayer& operator=(const ErasedLayer&) = delete;

  std::string type_name() const { return held_->type_name(); }
  Index in_features() const { return held_->in_features(); }
  Index out_features() const { return held_->out_features(); }
  Index num_parameters() const { return held_->num_parameters(); }
  Map parameters() { return held_->parameters(); }
  Map gradients() { return held_->gradients(); }
  ConstMap parameters() const { return held_->constant_parameters(); }
  void zero_gradients() { held_->zero_gradients(); }
  void move_to_itself() { held_->move_to_itself(); }
  Matrix<S> forward(const rotorlin::ConstMatrixRef<S>& x) const { return held_->forward(x); }
  void forward(const rotorlin::ConstMatrixRef<S>& x, rotorlin::MatrixRef<S> y, Workspace& workspace) const {
    held_->forward(x, y, workspace);
  }
  void backward(const rotorlin::ConstMatrixRef<S>& x, const rotorlin::ConstMatrixRef<S>& grad_y,
                rotorlin::MatrixRef<S> grad_x, Workspace& workspace) {
    held_->backward(x, grad_y, grad_x, workspace);
  }

  bool is_linear() const { return held_->is_linear(); }
  Matrix<S> to_dense() const { return held_->to_dense(); }
  Map bias() { return held_->bias(); }
  Index bias_offset() const { return held_->bias_offset(); }
  void match_bias(const VectorX<S>& x, const VectorX<S>& y) { held_->match_bias(x, y); }

  bool is_described() const { return held_->is_described(); }
  rotorlin::Description describe() const { return held_->describe(); }
  Index count_parameters(const rotorlin::Description& description) const {
    return held_->count_parameters(description);
  }
  void save(const std::filesystem::path& path) const { held_->save(path); }
  /// A layer of the same type from a file.
  ErasedLayer load(const std::filesystem::path& path) const { return ErasedLayer(held_->load(path)); }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual std::unique_ptr<Held> clone() const = 0;
    virtual std::string type_name() const = 0;
    virtual Index in_features() const = 0;
    virtual Index out_features() const = 0;
    virtual Index num_parameters() const = 0;
    virtual Map parameters() = 0;
    virtual Map gradients() = 0;
    virtual ConstMap constant_parameters() const = 0;
    virtual void zero_gradients() = 0;
    virtual void move_to_itself() = 0;
    virtual Matrix<S> forward(const rotorlin::ConstMatrixRef<S>&) const = 0;
    virtual void forward(const rotorlin::ConstMatrixRef<S>&, rotorlin::MatrixRef<S>, Workspace&) const = 0;
    virtual void backward(const rotorlin::ConstMatrixRef<S>&, const rotorlin::ConstMatrixRef<S>&,
                          rotorlin::MatrixRef<S>, Workspace&) = 0;
    virtual bool is_linear() const = 0;
    virtual Matrix<S> to_dense() const = 0;
    virtual Map bias() = 0;
    virtual Index bias_offset() const = 0;
    virtual void match_bias(const VectorX<S>&, const VectorX<S>&) = 0;
    virtual bool is_described() const = 0;
    virtual rotorlin::Description describe() const = 0;
    virtual Index count_parameters(const rotorlin::Description&) const = 0;
    virtual void save(const std::filesystem::path&) const = 0;
    virtual std::unique_ptr<Held> load(const std::filesystem::path&) const = 0;
  };

  template <class L>
  struct Holder final : Held {
    static constexpr bool linear = rotorlin::LinearLayer<L>, described = rotorlin::DescribedLayer<L>;
    L layer;

    explicit Holder(const L& l) : layer(l) {}
    static typename L::Workspace& own(Workspace& workspace) {
      if (!workspace.of_layer) workspace.of_layer = std::make_shared<typename L::Workspace>();
      return *static_cast<typename L::Workspace*>(workspace.of_layer.get());
    }

    std::unique_ptr<Held> clone() const override { return std::make_unique<Holder>(layer); }
    std::string type_name() const override { return L::type_name; }
    Index in_features() const override { return layer.in_features(); }
    Index out_features() const override { return layer.out_features(); }
    Index num_parameters() const override { return layer.num_parameters(); }
    Map parameters() override { return {layer.parameters().data(), layer.parameters().size()}; }
    Map gradients() override { return {layer.gradients().data(), layer.gradients().size()}; }
    ConstMap constant_parameters() const override {
      return {layer.parameters().data(), layer.parameters().size()};
    }
    void zero_gradients() override { layer.zero_gradients(); }
    void move_to_itself() override {
      L& same = layer;
      layer = std::move(same);
    }
    Matrix<S> forward(const rotorlin::ConstMatrixRef<S>& x) const override { return layer.forward(x); }
    void forward(const rotorlin::ConstMatrixRef<S>& x, rotorlin::MatrixRef<S> y,
                 Workspace& workspace) const override {
      layer.forward(x, y, own(workspace));
    }
    void backward(const rotorlin::ConstMatrixRef<S>& x, const rotorlin::ConstMatrixRef<S>& grad_y,
                  rotorlin::MatrixRef<S> grad_x, Workspace& workspace) override {
      layer.backward(x, grad_y, grad_x, own(workspace));
    }

    bool is_linear() const override { return linear; }
    Matrix<S> to_dense() const override {
      if constexpr (linear) return layer.to_dense();
      return {};
    }
    Map bias() override {
      if constexpr (linear) return {layer.bias().data(), layer.bias().size()};
      return {nullptr, 0};
    }
    Index bias_offset() const override {
      if constexpr (linear) return layer.bias_offset();
      return 0;
    }
    void match_bias([[maybe_unused]] const VectorX<S>& x, [[maybe_unused]] const VectorX<S>& y) override {
      if constexpr (linear) rotorlin::match_bias(layer, x, y);
    }

    bool is_described() const override { return described; }
    rotorlin::Description describe() const override {
      if constexpr (described) return layer.describe();
      return {};
    }
    Index count_parameters([[maybe_unused]] const rotorlin::Description& description) const override {
      if constexpr (described) return L::count_parameters(description);
      return 0;
    }
    void save([[maybe_unused]] const std::filesystem::path& path) const override {
      if constexpr (described) rotorlin::save(layer, path);
    }
    std::unique_ptr<Held> load([[maybe_unused]] const std::filesystem::path& path) const override {
      if constexpr (described) return std::make_unique<Holder>(rotorlin::load<L>(path));
      return nullptr;
    }
  };

  explicit ErasedLayer(std::unique_ptr<Held> held) : held_(std::move(held)) {}

  std::unique_ptr<Held> held_;
};

/// Defined for float and double.
template <class S>
void check_laws_of_layer(const ErasedLayer<S>& layer);
/// The one of them that holds gradients against central differences.
template <class S>
void check_gradients_of_layer(const ErasedLayer<S>& layer);

template <rotorlin::Layer L>
void check_layer_laws(const L& layer) {
  check_laws_of_layer(ErasedLayer<typename L::Scalar>(layer));
}

}  // namespace test
