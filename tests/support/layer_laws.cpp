// SPDX-License-Identifier: MIT
// The laws that every layer obeys.
#include "support/layer_laws.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "rotorlin/io/safetensors.hpp"
#include "support/allocation_counter.hpp"
#include "support/temporary_folder.hpp"

namespace test {

template <class S>
struct LayerLaws {
  using L = ErasedLayer<S>;
  static constexpr Index batch = 3;
  static constexpr S nan = std::numeric_limits<S>::quiet_NaN();

  const L layer;
  const Index in = layer.in_features(), out = layer.out_features();
  const Matrix<S> x = random_matrix<S>(in, batch, 1);
  const Matrix<S> target = random_matrix<S>(out, batch, 2);

  void a_layer_moved_to_itself_stays() const {
    L copy = layer;
    copy.move_to_itself();
    CHECK(copy.forward(x) == layer.forward(x));
  }

  void parameters_are_flat_and_copied() const {
    L copy = layer;
    REQUIRE(copy.num_parameters() >= 1);
    REQUIRE(copy.parameters().size() == copy.num_parameters());
    REQUIRE(copy.gradients().size() == copy.num_parameters());
    CHECK(copy.parameters() == layer.parameters());
    copy.parameters() *= 2;
    copy.gradients().setOnes();
    CHECK(copy.parameters() == 2 * layer.parameters());
    CHECK(copy.parameters() != layer.parameters());
    copy.zero_gradients();
    CHECK(copy.gradients().isZero(0));
  }

  /// Every entry of y is written, samples do not mix, blocks serve as well as matrices.
  void forward_maps_each_sample() const {
    typename L::Workspace workspace;
    const Matrix<S> y = layer.forward(x);
    REQUIRE(y.rows() == out);
    REQUIRE(y.cols() == batch);
    Matrix<S> wide_y = Matrix<S>::Constant(out + 3, batch + 1, nan),
              wide_x = Matrix<S>::Constant(in + 2, batch, nan);
    wide_x.middleRows(1, in) = x;
    layer.forward(wide_x.middleRows(1, in), wide_y.block(2, 1, out, batch), workspace);
    CHECK(relative_difference(wide_y.block(2, 1, out, batch), y) <= rounding<S>());
    CHECK(wide_y.topRows(2).array().isNaN().all());
    for (Index j = 0; j < batch; ++j) {
      CHECK(relative_difference(layer.forward(x.col(j)).col(0), y.col(j)) <= 10 * rounding<S>());
    }
  }

  /// Gradients of |y - target|^2 / 2, from an empty workspace.
  static Matrix<S> backward(L& l, const Matrix<S>& x, const Matrix<S>& target) {
    typename L::Workspace workspace;
    Matrix<S> grad_x = Matrix<S>::Constant(x.rows(), x.cols(), nan);
    l.backward(x, l.forward(x) - target, grad_x, workspace);
    return grad_x;
  }

  /// Central differences, second order in the step.
  void gradients_are_exact() const {
    if constexpr (std::is_same_v<S, double>) {
      L copy = layer;
      copy.zero_gradients();
      const Matrix<S> grad_x = backward(copy, x, target);
      const auto difference = [&](double& variable, const Matrix<S>& input) {
        const double value = variable, step = 1e-5;
        variable = value + step;
        const double above = (copy.forward(input) - target).squaredNorm();
        variable = value - step;
        const double below = (copy.forward(input) - target).squaredNorm();
        variable = value;
        return (above - below) / (4 * step);
      };
      VectorX<S> expected(copy.num_parameters());
      auto parameters = copy.parameters();
      for (Index i = 0; i < expected.size(); ++i) expected[i] = difference(parameters[i], x);
      CHECK(relative_difference(copy.gradients(), expected) < 1e-7);

      Matrix<S> input = x, expected_x(in, batch);
      for (Index j = 0; j < batch; ++j) {
        for (Index i = 0; i < in; ++i) expected_x(i, j) = difference(input(i, j), input);
      }
      CHECK(relative_difference(grad_x, expected_x) < 1e-7);
    }
  }

  /// backward adds to the gradients, overwrites grad_x, and does not care what a workspace was used for.
  void gradients_accumulate() const {
    L copy = layer;
    copy.zero_gradients();
    const Matrix<S> grad_x = backward(copy, x, target);
    const VectorX<S> once = copy.gradients();
    CHECK(relative_difference(backward(copy, x, target), grad_x) <= rounding<S>());
    CHECK(relative_difference(copy.gradients(), 2 * once) <= rounding<S>());

    typename L::Workspace workspace;
    Matrix<S> y(out, 2 * batch), again(in, batch);
    copy.forward(random_matrix<S>(in, 2 * batch, 9), y, workspace);
    copy.zero_gradients();
    copy.backward(x, copy.forward(x) - target, again, workspace);
    CHECK(relative_difference(again, grad_x) <= rounding<S>());
    CHECK(relative_difference(copy.gradients(), once) <= rounding<S>());
  }

  template <class Call>
  void must_refuse(Call call, const std::string& given, const std::string& expected) const {
    using Catch::Contains;
    CHECK_THROWS_AS(call(), std::invalid_argument);
    CHECK_THROWS_WITH(call(), Contains(layer.type_name()) && Contains(given) && Contains(expected));
  }

  void wrong_shapes_are_named() const {
    const auto text = [](Index rows, Index cols) {
      return std::to_string(rows) + " x " + std::to_string(cols);
    };
    L copy = layer;
    typename L::Workspace workspace;
    const auto forward = [&](Index x_rows, Index x_cols, Index y_rows, Index y_cols) {
      return [&, x_rows, x_cols, y_rows, y_cols] {
        Matrix<S> y(y_rows, y_cols);
        copy.forward(Matrix<S>::Zero(x_rows, x_cols), y, workspace);
      };
    };
    const auto backward = [&](Index x_rows, Index x_cols, Index y_rows, Index y_cols, Index g_rows,
                              Index g_cols) {
      return [&, x_rows, x_cols, y_rows, y_cols, g_rows, g_cols] {
        Matrix<S> grad_x(g_rows, g_cols);
        copy.backward(Matrix<S>::Zero(x_rows, x_cols), Matrix<S>::Zero(y_rows, y_cols), grad_x, workspace);
      };
    };
    must_refuse(forward(in + 1, 2, out, 2), text(in + 1, 2), text(in, 2));
    must_refuse(forward(in, 2, out + 1, 2), text(out + 1, 2), text(out, 2));
    must_refuse(forward(in, 2, out, 3), text(out, 3), text(out, 2));
    must_refuse(forward(in, 0, out, 0), text(in, 0), "at least one sample");
    must_refuse(backward(in + 1, 2, out, 2, in, 2), text(in + 1, 2), text(in, 2));
    must_refuse(backward(in, 2, out, 1, in, 2), text(out, 1), text(out, 2));
    must_refuse(backward(in, 2, out, 2, in, 1), text(in, 1), text(in, 2));
    must_refuse(backward(in, 0, out, 0, in, 0), text(in, 0), "at least one sample");
    must_refuse([&] { (void)copy.forward(Matrix<S>::Zero(in + 2, 1)); }, text(in + 2, 1), text(in, 1));
  }

  void parameters_must_be_finite() const {
    for (const S bad : {nan, std::numeric_limits<S>::infinity()}) {
      for (Index i = 0; i < layer.num_parameters(); ++i) {
        L copy = layer;
        copy.parameters()[i] = bad;
        CHECK_THROWS_AS(copy.forward(x), std::domain_error);
      }
      L copy = layer;
      copy.parameters()[0] = bad;
      typename L::Workspace workspace;
      Matrix<S> grad_x(in, batch);
      CHECK_THROWS_AS(copy.backward(x, target, grad_x, workspace), std::domain_error);
    }
  }

  using Strided = Eigen::Map<Matrix<S>, 0, Eigen::OuterStride<>>;

  /// A result that lies over what is still to be read is refused or right, and then leaves nothing else
  /// changed; one that lies beside it, in the same matrix, is right.
  void overlapping_memory_is_refused_or_right() const {
    const Matrix<S> y = layer.forward(x), grad_y = y - target;
    L reference = layer;
    reference.zero_gradients();
    const Matrix<S> grad_x = backward(reference, x, target);
    const double tolerance = 10 * rounding<S>();
    typename L::Workspace workspace;

    // Calls with both matrices in one memory: columns `stride` apart, the second one `offset` behind.
    enum class Call { forward, backward_x, backward_grad_y };
    const auto attempt = [&](Call call, Index stride, Index offset, Index output_stride) {
      CAPTURE(static_cast<int>(call), stride, offset, output_stride);
      L copy = layer;
      copy.zero_gradients();
      const Matrix<S>& input = call == Call::backward_grad_y ? grad_y : x;
      const Matrix<S>& expected = call == Call::forward ? y : grad_x;
      // the input in the middle of the memory, so that the output may lie before it
      const Index length = std::max(stride, output_stride) * (batch + 1) + in + out, before = length;
      VectorX<S> memory = VectorX<S>::Constant(3 * length, S(0.5));
      Strided from(memory.data() + before, input.rows(), batch, Eigen::OuterStride<>(stride));
      Strided to(memory.data() + before + offset, expected.rows(), batch,
                 Eigen::OuterStride<>(output_stride));
      from = input;
      const VectorX<S> kept = memory;
      std::vector<bool> taken(static_cast<std::size_t>(memory.size()));
      bool apart = true;
      for (const Strided* m : {&from, &to}) {
        for (Index j = 0; j < m->cols(); ++j) {
          for (Index i = 0; i < m->rows(); ++i) {
            const auto at = static_cast<std::size_t>(&(*m)(i, j) - memory.data());
            apart = apart && !taken[at];
            taken[at] = true;
          }
        }
      }
      bool refused = false;
      try {
        if (call == Call::forward) copy.forward(from, to, workspace);
        if (call == Call::backward_x) copy.backward(from, grad_y, to, workspace);
        if (call == Call::backward_grad_y) copy.backward(x, from, to, workspace);
      } catch (const std::invalid_argument& error) {
        refused = true;
        CHECK_THAT(error.what(), Catch::Contains("same memory") && Catch::Contains(layer.type_name()));
        CHECK(memory == kept);
        CHECK(copy.gradients().isZero(0));
      }
      if (apart) CHECK_FALSE(refused);
      if (refused) return;
      CHECK(relative_difference(to, expected) <= tolerance);
      if (apart) CHECK(relative_difference(from, input) == 0);
      if (call != Call::forward)
        CHECK(relative_difference(copy.gradients(), reference.gradients()) <= tolerance);
    };
    for (const Call call : {Call::forward, Call::backward_x, Call::backward_grad_y}) {
      const Index given = call == Call::backward_grad_y ? out : in;
      const Index made = call == Call::forward ? out : in;
      const Index close = std::max(given, made), wide = given + made;
      for (const Index offset : {Index{0}, Index{1}, Index{-1}, given - 1, given, 1 - made, -made, wide - 1,
                                 given * batch - 1, given * batch, 1 - made * batch, -made * batch}) {
        attempt(call, close, offset, close);
        attempt(call, wide, offset, wide);  // given and -made: the rows of one matrix, shared out
        attempt(call, given, offset, made);
      }
      attempt(call, wide, given, wide + 1);
    }

    // The layer's own memory: results over parameters or gradients, arguments that are the gradients.
    L copy = layer;
    const auto in_layer = [&](S* begin, Index rows) {
      return Strided(begin, rows, 1, Eigen::OuterStride<>(rows));
    };
    std::vector<S*> places;
    for (S* begin : {copy.parameters().data(), copy.gradients().data()}) {
      for (const Index offset : {Index{0}, copy.num_parameters() - 1}) places.push_back(begin + offset);
    }
    for (S* place : places) {  // one entry in common is enough: no memory is touched
      const auto share_refused = [&](auto call) {
        CHECK_THROWS_AS(call(), std::invalid_argument);
        CHECK_THROWS_WITH(call(), Catch::Contains("same memory") && Catch::Contains(layer.type_name()));
      };
      Matrix<S> result(in, 1);
      share_refused([&] { copy.forward(x.leftCols(1), in_layer(place, out), workspace); });
      share_refused(
          [&] { copy.backward(x.leftCols(1), target.leftCols(1), in_layer(place, in), workspace); });
    }
    S* gradients = copy.gradients().data();
    Matrix<S> result(in, 1);
    if (in <= copy.num_parameters())
      CHECK_THROWS_WITH(copy.backward(in_layer(gradients, in), target.leftCols(1), result, workspace),
                        Catch::Contains("same memory"));
    if (out <= copy.num_parameters())
      CHECK_THROWS_WITH(copy.backward(x.leftCols(1), in_layer(gradients, out), result, workspace),
                        Catch::Contains("same memory"));
    CHECK(copy.parameters() == layer.parameters());

    // A result whose own columns lie over each other.
    if (out == 1) return;
    VectorX<S> few(2 * out);
    CHECK_THROWS_WITH(
        copy.forward(x.leftCols(2), Strided(few.data(), out, 2, Eigen::OuterStride<>(out - 1)), workspace),
        Catch::Contains("same memory"));
  }

  void steady_state_allocates_nothing() const {
    L copy = layer;
    typename L::Workspace workspace;
    Matrix<S> y(out, batch), grad_x(in, batch);
    const auto step = [&](Index samples) {
      copy.forward(x.leftCols(samples), y.leftCols(samples), workspace);
      copy.backward(x.leftCols(samples), target.leftCols(samples), grad_x.leftCols(samples), workspace);
      copy.zero_gradients();
    };
    step(batch);
    for (Index i = 0; i < in; ++i) step(1);  // by then a layer has made what it makes for parameters that stay
    const long before = allocations();
    for (int i = 0; i < 3; ++i) {
      step(batch);
      step(1);
    }
    CHECK(allocations() == before);
    if (counts_allocations) {
      const Matrix<S> proof_that_the_counter_counts(7, 7);
      CHECK(allocations() == before + 1);
    }
  }

  void linear_layers_are_their_matrix() const {
    if (layer.is_linear()) {
      const Matrix<S> dense = layer.to_dense();
      REQUIRE(dense.rows() == out);
      REQUIRE(dense.cols() == in);
      const VectorX<S> offset = layer.forward(Matrix<S>::Zero(in, 1)).col(0);
      const Matrix<S> expected = (dense * x).colwise() + offset;
      CHECK(relative_difference(layer.forward(x), expected) <= 100 * rounding<S>());

      L copy = layer;
      REQUIRE(copy.bias().size() == (copy.bias().size() == 0 ? 0 : out));
      copy.bias().setZero();
      CHECK(copy.forward(Matrix<S>::Zero(in, 1)).isZero(0));
      CHECK(relative_difference(copy.to_dense(), dense) <= rounding<S>());
      if (copy.bias().size() == 0) {
        CHECK_THROWS_AS(copy.match_bias(x.col(0), target.col(0)), std::invalid_argument);
      } else {
        CHECK(copy.bias().data() == copy.parameters().data() + copy.bias_offset());
        copy.match_bias(x.col(0), target.col(0));
        CHECK(relative_difference(copy.forward(x.col(0)), target.col(0)) <= 100 * rounding<S>());
      }
    }
  }

  void saved_layers_come_back() const {
    if (layer.is_described()) {
      const TemporaryFolder folder;
      layer.save(folder / "layer");
      const L again = layer.load(folder / "layer");
      CHECK(again.parameters() == layer.parameters());
      CHECK(again.forward(x) == layer.forward(x));
      CHECK(again.describe() == layer.describe());
      CHECK(layer.count_parameters(layer.describe()) == layer.num_parameters());

      // Parameters that are not those of the self-test.
      L other = layer;
      other.parameters() *= S(0.9);
      const rotorlin::SafetensorsFile file(folder / "layer");
      rotorlin::SafetensorsWriter forged;
      for (const auto& [key, value] : file.metadata()) forged.set_metadata(key, value);
      forged.add("parameters", other.parameters());
      forged.add("self_test.input", file.matrix<S>("self_test.input"));
      forged.add("self_test.output", file.matrix<S>("self_test.output"));
      forged.write(folder / "forged");
      CHECK_THROWS_WITH(layer.load(folder / "forged"), Catch::Contains("self-test fails"));
    }
  }
};

template <class S>
void check_laws_of_layer(const ErasedLayer<S>& layer) {
  INFO(layer.type_name() << " " << layer.in_features() << " -> " << layer.out_features());
  const LayerLaws<S> laws{layer};
  laws.parameters_are_flat_and_copied();
  laws.a_layer_moved_to_itself_stays();
  laws.forward_maps_each_sample();
  laws.gradients_are_exact();
  laws.gradients_accumulate();
  laws.wrong_shapes_are_named();
  laws.parameters_must_be_finite();
  laws.overlapping_memory_is_refused_or_right();
  laws.steady_state_allocates_nothing();
  laws.linear_layers_are_their_matrix();
  laws.saved_layers_come_back();
}

template <class S>
void check_gradients_of_layer(const ErasedLayer<S>& layer) {
  LayerLaws<S>{layer}.gradients_are_exact();
}

template void check_gradients_of_layer<double>(const ErasedLayer<double>&);
template void check_laws_of_layer<float>(const ErasedLayer<float>&);
template void check_laws_of_layer<double>(const ErasedLayer<double>&);

}  // namespace test
