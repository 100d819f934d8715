// SPDX-License-Identifier: MIT
#include "experiments.hpp"

namespace examples {

namespace {

struct Cut {
  std::span<const Token> training, validation;
  Index training_windows, validation_windows;
};

Cut cut(const Setup& setup) {
  const std::span<const Token> tokens = setup.calibration;
  const Windows all(setup.model, tokens, setup.calibration_windows());
  const Index validation = std::max<Index>(1, all.count() / 5), training = all.count() - validation;
  return {tokens, tokens.subspan(static_cast<std::size_t>(training * all.length())), training, validation};
}

}  // namespace

Stream::Stream(const Llama& model, std::span<const Token> tokens, Index windows) {
  const Windows parts(model, tokens, windows);
  for (Index j = 0; j < parts.count(); ++j) activations_.push_back(model.embed(parts.inputs(j)));
}

void Stream::advance(const Llama& model, Index layer) {
  for (Matrix<float>& h : activations_) model.apply_layer(layer, h);
}

Matrix<float> Stream::inputs(const Llama& model, Index layer, Projection projection) const {
  Index columns = 0;
  for (const Matrix<float>& h : activations_) columns += h.cols();
  Matrix<float> result(model.in_features(projection), columns);
  Index at = 0;
  const bool before_attention =
      projection == Projection::q || projection == Projection::k || projection == Projection::v;
  for (Matrix<float> h : activations_) {
    if (before_attention) {
      result.middleCols(at, h.cols()) = model.attention_inputs(layer, h);
      at += h.cols();
      continue;
    }
    model.apply_layer(layer, h, [&](Index, Projection p, const ConstMatrixRef<float>& x) {
      if (p == projection) result.middleCols(at, x.cols()) = x;
    });
    at += h.cols();
  }
  return result;
}

Calibration::Calibration(const Setup& setup)
    : training(setup.model, cut(setup).training, cut(setup).training_windows),
      validation(setup.model, cut(setup).validation, cut(setup).validation_windows) {}

}  // namespace examples
