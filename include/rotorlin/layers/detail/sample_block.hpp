// SPDX-License-Identifier: MIT
/// \file
/// Products of dense and sparse matrices with samples side by side: a block holds `Packs` registers of
/// samples, feature after feature, so that every entry of the matrix is read once for all of them. And the
/// product of a sparse matrix with a single sample, for which its places are a bit mask.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "rotorlin/core/simd.hpp"
#include "rotorlin/core/types.hpp"

namespace rotorlin {

/// Where the nonzeros of a rows x cols matrix are, by compressed columns. Their values lie elsewhere.
struct ColumnPattern {
  Index rows = 0;
  std::vector<std::size_t> starts = {0};  ///< cols + 1 places in `indices`: where each column begins
  std::vector<std::uint32_t> indices;     ///< rows, ascending within a column

  Index cols() const { return static_cast<Index>(starts.size()) - 1; }
  Index nonzeros() const { return static_cast<Index>(indices.size()); }
};

namespace detail {

/// Rows of a block that stay in the first cache while a matrix passes over them.
inline constexpr Index block_tile = 64;

/// What products with a pattern want to know of it beforehand.
struct PatternPlan {
  /// cuts[t * cols + j]: the first nonzero of column j in a row >= t * block_tile, for t <= tiles; a few more
  /// behind, so that one may look ahead.
  std::vector<std::size_t> cuts;
  /// The row within its tile of every nonzero, tile by tile, there column by column.
  std::vector<std::uint8_t> places;
  /// Bit i of the `mask_bytes` bytes of a column: whether row i is stored.
  std::vector<std::uint8_t> mask;
  Index tiles = 0, mask_bytes = 0;

  PatternPlan() = default;
  explicit PatternPlan(const ColumnPattern& pattern) {
    const Index cols = pattern.cols();
    tiles = (pattern.rows + block_tile - 1) / block_tile;
    mask_bytes = (pattern.rows + 15) / 16 * 2;
    const auto at = [](Index i) { return static_cast<std::size_t>(i); };
    cuts.assign(at((tiles + 1) * cols + 16), pattern.indices.size());
    mask.resize(at(mask_bytes * cols));
    places.reserve(pattern.indices.size());
    std::copy(pattern.starts.begin(), pattern.starts.end() - 1, cuts.begin());
    for (Index t = 0; t < tiles; ++t) {
      for (Index j = 0; j < cols; ++j) {
        std::size_t p = cuts[at(t * cols + j)];
        for (; p < pattern.starts[at(j + 1)] && Index{pattern.indices[p]} < (t + 1) * block_tile; ++p) {
          const Index row = pattern.indices[p];
          places.push_back(static_cast<std::uint8_t>(row - t * block_tile));
          mask[at(j * mask_bytes + row / 8)] |= static_cast<std::uint8_t>(1u << row % 8);
        }
        cuts[at((t + 1) * cols + j)] = p;
      }
    }
  }
};

#if defined(__AVX2__) && !defined(__AVX512F__)
/// For every byte of a mask the lanes that its set bits take their values from.
struct ExpandTable {
  alignas(32) std::int32_t lane[256][8] = {};
  constexpr ExpandTable() {
    for (int mask = 0; mask < 256; ++mask) {
      for (int bit = 0, next = 0; bit < 8; ++bit) lane[mask][bit] = mask >> bit & 1 ? next++ : 7;
    }
  }
};
inline constexpr ExpandTable expand_table;
#endif

/// How far ahead values are fetched, in values: 2 KB of floats, measured best among 0.5 to 8 KB.
inline constexpr Index prefetch_distance = 512;

/// sum_i c_i h_i over the rows of one column: `mask` says which, `values` are theirs. `h` has
/// 16 * ceil(rows / 16) entries. May read 15 values beyond those of the column where `more` says that they
/// exist.
template <class S>
S masked_dot(const std::uint8_t* mask, Index mask_bytes, const S* values, const S* h, bool more) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<S, float>) {
    __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    const auto step = [&](unsigned bits, const S* from, Index byte, int chain) ROTORLIN_INLINE_LAMBDA {
      const auto lanes_of = static_cast<__mmask16>(bits);
      const __m512 c = more ? _mm512_maskz_expand_ps(lanes_of, _mm512_loadu_ps(from))
                            : _mm512_maskz_expandloadu_ps(lanes_of, from);
      sum[chain] = _mm512_mask3_fmadd_ps(c, _mm512_loadu_ps(h + byte * 8), sum[chain], lanes_of);
    };
    Index byte = 0;
    for (; byte + 8 <= mask_bytes; byte += 8) {
      std::uint64_t bits;
      std::memcpy(&bits, mask + byte, sizeof bits);
      // the machine's own prefetchers are too late for reads at odd places; two lines for what 64 rows take
      __builtin_prefetch(values + prefetch_distance);
      __builtin_prefetch(values + prefetch_distance + 16);
      const auto part = [&](int chain) { return static_cast<unsigned>(bits >> 16 * chain) & 0xffffu; };
      const auto before = [&](int chain) {
        return std::popcount(bits & ((std::uint64_t{1} << 16 * chain) - 1));
      };
      step(part(0), values, byte, 0);
      step(part(1), values + before(1), byte + 2, 1);
      step(part(2), values + before(2), byte + 4, 2);
      step(part(3), values + before(3), byte + 6, 3);
      values += std::popcount(bits);
    }
    for (; byte < mask_bytes; byte += 2) {
      std::uint16_t bits;
      std::memcpy(&bits, mask + byte, sizeof bits);
      step(bits, values, byte, 0);
      values += std::popcount(bits);
    }
    float lanes[16];
    _mm512_storeu_ps(lanes, (sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (int half = 8; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    return lanes[0];
  }
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<S, float>) {
    if (more) {
      __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
      const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
      for (Index byte = 0; byte < mask_bytes; ++byte) {
        const unsigned bits = mask[byte];
        if (byte % 4 == 0) __builtin_prefetch(values + prefetch_distance);
        const __m256i from = _mm256_load_si256(reinterpret_cast<const __m256i*>(expand_table.lane[bits]));
        const __m256i set =
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), bit), bit);
        const __m256 product =
            _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), from) * _mm256_loadu_ps(h + byte * 8);
        sum[byte & 1] += _mm256_and_ps(product, _mm256_castsi256_ps(set));
        values += std::popcount(bits);
      }
      float lanes[8];
      _mm256_storeu_ps(lanes, sum[0] + sum[1]);
      for (int half = 4; half > 0; half /= 2) {
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      }
      return lanes[0];
    }
  }
#endif
  static_cast<void>(more);
  S sum(0);
  for (Index byte = 0; byte < mask_bytes; ++byte) {
    for (unsigned bits = mask[byte]; bits != 0; bits &= bits - 1) {
      sum += *values++ * h[byte * 8 + std::countr_zero(bits)];
    }
  }
  return sum;
}

/// y = C^T h for a single sample; `h` as in `masked_dot`.
template <class S>
void multiply_masked(const ColumnPattern& pattern, const PatternPlan& plan, const S* values, const S* h,
                     S* y) {
  for (Index j = 0; j < pattern.cols(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    y[j] = masked_dot(plan.mask.data() + j * plan.mask_bytes, plan.mask_bytes, values + pattern.starts[at], h,
                      pattern.starts[at + 1] + 16 <= pattern.indices.size());
  }
}

/// `Packs` registers of samples, feature after feature.
template <class S, int Packs>
struct SampleBlock {
  static constexpr int lanes = native_lanes<S>;
  static constexpr Index width = Index{lanes} * Packs;
  using P = Pack<S, lanes>;

  /// Samples first ... first + count - 1 of x (features x batch) to a block; zeros behind them.
  template <class X>
  static void load_samples(const X& x, Index first, Index count, S* block) {
    for (Index pack = 0; pack < Packs; ++pack) {
      const Index begin = pack * lanes;
      copy_tile<true>(x.data() + (first + begin) * x.outerStride(), x.outerStride(), x.rows(),
                      std::clamp<Index>(count - begin, 0, lanes), block + begin);
    }
  }

  /// The way back.
  template <class Y>
  static void store_samples(const S* block, Index first, Index count, Y& y) {
    for (Index pack = 0; pack * lanes < count; ++pack) {
      const Index begin = pack * lanes;
      copy_tile<false>(y.data() + (first + begin) * y.outerStride(), y.outerStride(), y.rows(),
                       std::min<Index>(count - begin, lanes), const_cast<S*>(block) + begin);
    }
  }

  /// y (+)= A x: x has `depth` rows, y `rows`; A(i, k) = a[i * row_step + k * column_step].
  template <bool Add = false>
  static void multiply(const S* a, Index row_step, Index column_step, Index rows, Index depth, const S* x,
                       S* y) {
    if (depth == 0 && !Add) std::fill(y, y + rows * width, S(0));
    for (Index k = 0; k < depth; k += block_tile) {
      const Index count = std::min(block_tile, depth - k);
      Index i = 0;
      const auto pass = [&](auto height, auto add) ROTORLIN_INLINE_LAMBDA {
        constexpr int h = decltype(height)::value;
        for (; i + h <= rows; i += h) {
          const S* from = a + i * row_step + k * column_step;
          for (int c = 0; c < Packs; c += columns) {
            rows_by_columns<h, decltype(add)::value>(from, row_step, column_step, count,
                                                     x + k * width + c * lanes, y + i * width + c * lanes);
          }
        }
      };
      const auto all = [&](auto add) ROTORLIN_INLINE_LAMBDA {
        pass(std::integral_constant<int, panel>{}, add);
        pass(std::integral_constant<int, 1>{}, add);
      };
      if (Add || k > 0) {
        all(std::true_type{});
      } else {
        all(std::false_type{});
      }
    }
  }

  /// y = C^T h, tile after tile of h.
  static void multiply_sparse(const ColumnPattern& pattern, const PatternPlan& plan, const S* values,
                              const S* h, S* y) {
    constexpr int chains = Packs < 4 ? 4 / Packs : 1;  // of sums that do not wait for each other
    constexpr Index ahead = 2;
    const Index cols = pattern.cols();
    const std::uint8_t* place = plan.places.data();
    std::fill(y, y + cols * width, S(0));
    for (Index t = 0; t < plan.tiles; ++t, h += block_tile * width) {
      const std::size_t* cuts = plan.cuts.data() + t * cols;
      for (Index j = 0; j < cols; ++j) {
        const S* value = values + cuts[j];
        const S* const end = values + cuts[j + cols];
        // a column's values in this tile lie far from those of the next one, where no prefetcher looks
        for (std::size_t p = cuts[j + ahead]; p < cuts[j + ahead + cols]; p += 64 / sizeof(S)) {
          __builtin_prefetch(values + p);
        }
        P sum[to_size(chains)][to_size(Packs)] = {};
        ROTORLIN_UNROLL
        for (int c = 0; c < Packs; ++c) sum[0][c] = load<S, lanes>(y + j * width + c * lanes);
        for (; value + chains <= end; value += chains, place += chains) {
          ROTORLIN_UNROLL
          for (int chain = 0; chain < chains; ++chain) {
            ROTORLIN_UNROLL
            for (int c = 0; c < Packs; ++c) {
              sum[chain][c] += value[chain] * load<S, lanes>(h + place[chain] * width + c * lanes);
            }
          }
        }
        for (; value < end; ++value, ++place) {
          ROTORLIN_UNROLL
          for (int c = 0; c < Packs; ++c)
            sum[0][c] += *value * load<S, lanes>(h + *place * width + c * lanes);
        }
        ROTORLIN_UNROLL
        for (int c = 0; c < Packs; ++c) {
          for (int chain = 1; chain < chains; ++chain) sum[0][c] += sum[chain][c];
          store<S, lanes>(y + j * width + c * lanes, sum[0][c]);
        }
      }
    }
  }

  /// grad_h += C g and grad_values += the nonzeros of h g^T.
  static void multiply_back(const ColumnPattern& pattern, const S* values, const S* h, const S* g, S* grad_h,
                            S* grad_values) {
    for (Index j = 0; j < pattern.cols(); ++j) {
      P column[to_size(Packs)];
      for (int c = 0; c < Packs; ++c) column[c] = load<S, lanes>(g + j * width + c * lanes);
      const auto at = static_cast<std::size_t>(j);
      for (std::size_t p = pattern.starts[at]; p < pattern.starts[at + 1]; ++p) {
        const Index offset = Index{pattern.indices[p]} * width;
        const S value = values[p];
        P sum = {};
        for (int c = 0; c < Packs; ++c) {
          S* to = grad_h + offset + c * lanes;
          store<S, lanes>(to, load<S, lanes>(to) + value * column[c]);
          sum += column[c] * load<S, lanes>(h + offset + c * lanes);
        }
        grad_values[p] += sum_lanes<S, lanes>(sum);
      }
    }
  }

 private:
  static constexpr int columns = Packs < 4 ? Packs : register_count >= 32 ? 4 : 2;
  static constexpr int panel = 6;  // rows at a time: with `columns` registers each they are sums enough

  /// To == true: samples to the block, whose rows are `width` apart.
  template <bool To, class Sample>
  static void copy_tile(Sample* x, Index stride, Index features, Index samples, S* block) {
    Index f = 0;
    if constexpr (lanes > 1) {
      for (; f + lanes <= features; f += lanes) {
        P square[to_size(lanes)];
        for (int s = 0; s < lanes; ++s) {
          if constexpr (To) {
            square[s] = s < samples ? load<S, lanes>(x + s * stride + f) : P{};
          } else {
            square[s] = load<S, lanes>(block + (f + s) * width);
          }
        }
        transpose<S, lanes>(square);
        for (int s = 0; s < lanes; ++s) {
          if constexpr (To) {
            store<S, lanes>(block + (f + s) * width, square[s]);
          } else {
            if (s < samples) store<S, lanes>(x + s * stride + f, square[s]);
          }
        }
      }
    }
    for (; f < features; ++f) {
      for (Index s = 0; s < lanes; ++s) {
        if constexpr (To) {
          block[f * width + s] = s < samples ? x[s * stride + f] : S(0);
        } else {
          if (s < samples) x[s * stride + f] = block[f * width + s];
        }
      }
    }
  }

  template <int Rows, bool Add>
  static void rows_by_columns(const S* a, Index row_step, Index column_step, Index depth, const S* x, S* y) {
    P sum[to_size(Rows)][to_size(columns)];
    ROTORLIN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      ROTORLIN_UNROLL
      for (int c = 0; c < columns; ++c) {
        if constexpr (Add) {
          sum[r][c] = load<S, lanes>(y + r * width + c * lanes);
        } else {
          sum[r][c] = P{};
        }
      }
      // the rows that come next: their pieces lie far apart, where no prefetcher of the machine looks
      for (Index k = 0; k < depth && column_step == 1; k += 64 / static_cast<Index>(sizeof(S))) {
        __builtin_prefetch(a + (r + Rows) * row_step + k);
      }
    }
    for (Index k = 0; k < depth; ++k) {
      P in[to_size(columns)];
      ROTORLIN_UNROLL
      for (int c = 0; c < columns; ++c) in[c] = load<S, lanes>(x + k * width + c * lanes);
      ROTORLIN_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const S scalar = a[r * row_step + k * column_step];
        ROTORLIN_UNROLL
        for (int c = 0; c < columns; ++c) sum[r][c] += scalar * in[c];
      }
    }
    ROTORLIN_UNROLL
    for (int r = 0; r < Rows; ++r) {
      ROTORLIN_UNROLL
      for (int c = 0; c < columns; ++c) store<S, lanes>(y + r * width + c * lanes, sum[r][c]);
    }
  }
};

}  // namespace detail
}  // namespace rotorlin
