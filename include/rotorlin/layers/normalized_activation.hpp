// SPDX-License-Identifier: MIT
/// \file
/// What stands between the layers of a network, on tiles: h (+)= weight a(norm(y[p])), a permutation p, the
/// normalisation of every sample to mean 0 and variance 1 (LayerNorm of Ba, Kiros, Hinton 2016, without its
/// affine part), z = (y - mean) / sqrt(variance + epsilon), and an activation a; with its gradients.
///
/// A tile holds features in packs of W = `native_lanes<S>` samples, or one sample as it lies in memory (W = 1).
/// Either way the work is done in packs of `native_lanes<S>`, which for one sample hold several features.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/tiled_batch.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/layers/activation.hpp"

namespace rotorlin::detail {

/// body(integral_constant<int, L>, k) for packs of L scalars from position k of a tile of W samples.
template <class S, int W, class F>
void for_each_pack(Index features, const F& body) {
  constexpr int lanes = native_lanes<S>;
  const Index size = features * W;
  Index k = 0;
  for (; k + lanes <= size; k += lanes) body(std::integral_constant<int, lanes>{}, k);
  if constexpr (W < lanes) {
    for (; k < size; ++k) body(std::integral_constant<int, 1>{}, k);
  }
}

/// y = weight x or, with `add`, y += weight x.
template <class S, int W>
void add_tile(Index features, const S* x, S weight, bool add, S* y) {
  for_each_pack<S, W>(features, [&](auto width, Index k) {
    constexpr int L = decltype(width)::value;
    Pack<S, L> value = load<S, L>(x + k) * weight;
    if (add) value += load<S, L>(y + k);
    store<S, L>(y + k, value);
  });
}

/// The map of one sample with `features` features; `slope` is the weight of prelu.
template <class S>
struct NormalizedActivation {
  static constexpr int lanes = native_lanes<S>;
  using LanePack = Pack<S, lanes>;

  Index features;
  bool normalize;
  S epsilon;
  Activation activation;
  S slope;

  /// The statistics of a tile: of every lane, or of the one sample in all lanes.
  struct Norm {
    LanePack mean = {};
    LanePack scale = LanePack{} + S(1);
  };

  /// h (+)= weight a(norm(y[order])); the order may be null. Returns what `backward` asks for.
  template <int W>
  Norm forward(const S* y, const std::int32_t* order, S weight, bool add, S* h) const {
    const Norm norm = norm_of<W>(y);
    with_activation<S>(activation, slope, [&](const auto& function) {
      if (add) {
        activate<W, true>(function, y, norm, order, weight, h);
      } else {
        activate<W, false>(function, y, norm, order, weight, h);
      }
    });
    return norm;
  }

  /// From dL/dh to dL/dy; adds dL/dweight and the gradient of the slope.
  template <int W>
  void backward(const S* y, const Norm& norm, const std::int32_t* order, S weight, const S* grad_h, S* grad_y,
                Wide<S>& weight_sum, Wide<S>& slope_sum) const {
    with_activation<S>(activation, slope, [&](const auto& function) {
      backward<W>(function, y, norm, order, weight, grad_h, grad_y, weight_sum, slope_sum);
    });
  }

 private:
  template <int L>
  static Pack<S, L> lanes_of(const LanePack& pack) {
    if constexpr (L == lanes) {
      return pack;
    } else {
      return pack[0];
    }
  }

  /// The sum over features of term(L, k), in every lane.
  template <int W, class F>
  LanePack sum_over(const F& term) const {
    LanePack sums[4] = {};
    S rest(0);
    Index turn = 0;
    for_each_pack<S, W>(features, [&](auto width, Index k) {
      if constexpr (decltype(width)::value == lanes) {
        sums[turn++ & 3] += term(width, k);
      } else {
        rest += term(width, k);
      }
    });
    const LanePack sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if constexpr (W < lanes) {
      return LanePack{} + (sum_lanes<S, lanes>(sum) + rest);
    } else {
      return sum;
    }
  }

  /// Mean and 1 / sqrt(variance + epsilon) of a tile, in two passes.
  template <int W>
  Norm norm_of(const S* y) const {
    Norm norm;
    if (!normalize) return norm;
    const S share = S(1) / static_cast<S>(features);
    norm.mean = sum_over<W>([&](auto width, Index k) { return load<S, width>(y + k); }) * share;
    norm.scale = variance_of<W, false>(y, norm.mean, share);
    S scales[to_size(lanes)];
    store<S, lanes>(scales, norm.scale);
    if (!all_finite(scales, lanes)) return norm_of_huge<W>(y, norm);
    norm.scale = map_lanes<S, lanes>(norm.scale,
                                     [this](const auto& v) { return (S(1) / (v + epsilon).sqrt()).eval(); });
    return norm;
  }

  /// What deviations are multiplied by where their squares leave the range of S.
  static S shrink() { return std::ldexp(S(1), -std::numeric_limits<S>::max_exponent * 5 / 8); }

  /// The mean of the squared deviations, shrunken or not.
  template <int W, bool Shrunken>
  LanePack variance_of(const S* y, const LanePack& mean, S share) const {
    const S factor = Shrunken ? shrink() : S(1);
    return share * sum_over<W>([&](auto width, Index k) {
             auto d = load<S, width>(y + k) - lanes_of<width>(mean);
             if constexpr (Shrunken) d = d * factor;
             return d * d;
           });
  }

  /// The same where a variance leaves the range of S (or is NaN, and stays so): norm.scale is the variances.
  template <int W>
  Norm norm_of_huge(const S* y, Norm norm) const {
    const S share = S(1) / static_cast<S>(features);
    S plain[to_size(lanes)], shrunk[to_size(lanes)];
    store<S, lanes>(plain, norm.scale);
    store<S, lanes>(shrunk, variance_of<W, true>(y, norm.mean, share));
    for (int l = 0; l < lanes; ++l) {
      plain[l] = is_finite(plain[l]) ? S(1) / std::sqrt(plain[l] + epsilon) : shrink() / std::sqrt(shrunk[l]);
    }
    norm.scale = load<S, lanes>(plain);
    return norm;
  }

  /// The pack at position k of a permuted tile.
  template <int W, int L>
  static Pack<S, L> load_permuted(const S* tile, const std::int32_t* order, Index k) {
    if (order == nullptr) return load<S, L>(tile + k);
    if constexpr (W == L) {
      return load<S, L>(tile + Index{order[k / W]} * W);
    } else {
      S values[to_size(L)];
      for (int l = 0; l < L; ++l) values[l] = tile[order[k + l]];
      return load<S, L>(values);
    }
  }

  template <int W, bool Add, class F>
  void activate(const F& function, const S* y, const Norm& norm, const std::int32_t* order, S weight,
                S* h) const {
    for_each_pack<S, W>(features, [&](auto width, Index k) {
      constexpr int L = decltype(width)::value;
      const Pack<S, L> z =
          (load_permuted<W, L>(y, order, k) - lanes_of<L>(norm.mean)) * lanes_of<L>(norm.scale);
      Pack<S, L> value = function.template value<L>(z) * weight;
      if constexpr (Add) value += load<S, L>(h + k);
      store<S, L>(h + k, value);
    });
  }

  template <int W, int L>
  static void store_permuted(S* tile, const std::int32_t* order, Index k, const Pack<S, L>& pack) {
    if (order == nullptr) {
      store<S, L>(tile + k, pack);
    } else if constexpr (W == L) {
      store<S, L>(tile + Index{order[k / W]} * W, pack);
    } else {
      S values[to_size(L)];
      store<S, L>(values, pack);
      for (int l = 0; l < L; ++l) tile[order[k + l]] = values[l];
    }
  }

  /// A sum over features: of every lane, or of one sample over all lanes and what is left over.
  struct Sum {
    LanePack pack = {};
    S rest = S(0);
    template <int L>
    void add(const Pack<S, L>& value) {
      if constexpr (L == lanes) {
        pack += value;
      } else {
        rest += value;
      }
    }
    Wide<S> total() const { return static_cast<Wide<S>>(sum_lanes<S, lanes>(pack) + rest); }
    template <int W>
    LanePack of_sample() const {
      if constexpr (W == lanes) {
        return pack;
      } else {
        return LanePack{} + (sum_lanes<S, lanes>(pack) + rest);
      }
    }
  };

  template <int W, class F>
  void backward(const F& function, const S* y, const Norm& norm, const std::int32_t* order, S weight,
                const S* grad_h, S* grad_y, Wide<S>& weight_sum, Wide<S>& slope_sum) const {
    Sum by_weight, by_slope, sum, dot;
    for_each_pack<S, W>(features, [&](auto width, Index k) {
      constexpr int L = decltype(width)::value;
      const Pack<S, L> z =
          (load_permuted<W, L>(y, order, k) - lanes_of<L>(norm.mean)) * lanes_of<L>(norm.scale);
      const Pack<S, L> g = load<S, L>(grad_h + k);
      const Pack<S, L> scaled = g * weight;
      const Pack<S, L> grad_z = scaled * function.template derivative<L>(z);
      by_weight.template add<L>(g * function.template value<L>(z));
      by_slope.template add<L>(scaled * (z > S(0) ? Pack<S, L>{} : z));
      sum.template add<L>(grad_z);
      dot.template add<L>(grad_z * z);
      store_permuted<W, L>(grad_y, order, k, grad_z);
    });
    weight_sum += by_weight.total();
    slope_sum += by_slope.total();
    if (!normalize) return;
    const S share = S(1) / static_cast<S>(features);
    const LanePack mean = sum.template of_sample<W>() * share, along = dot.template of_sample<W>() * share;
    for_each_pack<S, W>(features, [&](auto width, Index k) {
      constexpr int L = decltype(width)::value;
      const Pack<S, L> z = (load<S, L>(y + k) - lanes_of<L>(norm.mean)) * lanes_of<L>(norm.scale);
      store<S, L>(grad_y + k, lanes_of<L>(norm.scale) *
                                  (load<S, L>(grad_y + k) - lanes_of<L>(mean) - z * lanes_of<L>(along)));
    });
  }
};

}  // namespace rotorlin::detail
