// SPDX-License-Identifier: MIT
/// \file
/// Coefficients to matrices of the even subalgebra and back (spinor_basis.hpp): for W samples side by side,
/// one in each lane, and for one sample by itself, vectorised along the rows of its matrices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "rotorlin/algebra/spinor_basis.hpp"
#include "rotorlin/core/simd.hpp"

namespace rotorlin::detail {

/// Of the transform, for n <= max_dimension.
inline constexpr int max_spinor_length = 64;

/// Walsh-Hadamard transform of L packs, in registers where they fit.
template <int L, class P>
ROTORLIN_INLINE void hadamard(P* v) {
  if constexpr (L > 1) {
    ROTORLIN_UNROLL
    for (int i = 0; i < L / 2; ++i) {
      const P sum = v[i] + v[i + L / 2];
      v[i + L / 2] = v[i] - v[i + L / 2];
      v[i] = sum;
    }
    hadamard<L / 2>(v);
    hadamard<L / 2>(v + L / 2);
  }
}

/// A length of 32 or 64. Packs of that number fit into no registers, and code for each would be most of what
/// a program compiles: known at run time.
struct LongLength {
  int value;
  constexpr operator int() const { return value; }
};

/// Packs to have room for.
template <class Length>
constexpr int room_for() {
  if constexpr (std::is_same_v<Length, LongLength>) {
    return max_spinor_length;
  } else {
    return Length::value;
  }
}

/// body(t) for 0 <= t < length, unrolled where the length is known.
template <class Length, class F>
ROTORLIN_INLINE void for_length(Length length, F&& body) {
  if constexpr (std::is_same_v<Length, LongLength>) {
    for (int t = 0; t < length; ++t) body(t);
  } else {
    ROTORLIN_UNROLL
    for (int t = 0; t < Length::value; ++t) body(t);
  }
}

/// hadamard of so many packs: the long ones in two passes, eight packs at a time, in the same order of sums.
template <class P, class Length>
ROTORLIN_INLINE void hadamard(P* v, Length length) {
  if constexpr (std::is_same_v<Length, LongLength>) {
    const int stride = length / 8;
    for (int j = 0; j < stride; ++j) {
      P w[8];
      ROTORLIN_UNROLL
      for (int k = 0; k < 8; ++k) w[k] = v[j + k * stride];
      hadamard<8>(w);
      ROTORLIN_UNROLL
      for (int k = 0; k < 8; ++k) v[j + k * stride] = w[k];
    }
    for (int first = 0; first < length; first += 8) {
      if (stride == 8) {
        hadamard<8>(v + first);
      } else {
        hadamard<4>(v + first);
        hadamard<4>(v + first + 4);
      }
    }
  } else {
    hadamard<Length::value>(v);
  }
}

/// body(length) for the power of two `length` <= 64: an integral_constant, or a LongLength.
template <class F>
inline void with_length(Index length, F&& body) {
  switch (length) {
    case 1:
      return body(std::integral_constant<int, 1>{});
    case 2:
      return body(std::integral_constant<int, 2>{});
    case 4:
      return body(std::integral_constant<int, 4>{});
    case 8:
      return body(std::integral_constant<int, 8>{});
    case 16:
      return body(std::integral_constant<int, 16>{});
    default:
      return body(LongLength{static_cast<int>(length)});
  }
}

/// body(integral_constant<int, V>) with the widest pack of S that a row of `order` scalars fills.
template <class S, class F>
inline void with_row_lanes(Index order, F&& body) {
  constexpr int native = native_lanes<S>;
  if (order >= native) return body(std::integral_constant<int, native>{});
  if constexpr (native > 8) {
    if (order == 8) return body(std::integral_constant<int, 8>{});
  }
  if constexpr (native > 4) {
    if (order == 4) return body(std::integral_constant<int, 4>{});
  }
  body(std::integral_constant<int, 1>{});
}

/// body(V, length): both of the above for the rows of a basis, whose length is its order or twice that.
template <class S, class F>
inline void with_rows(const SpinorBasis& basis, F&& body) {
  with_row_lanes<S>(basis.order, [&](auto lanes) {
    with_length(basis.length(), [&](auto length) {
      constexpr int V = decltype(lanes)::value;
      constexpr bool narrow = V < native_lanes<S>, is_long = std::is_same_v<decltype(length), LongLength>;
      constexpr int L = is_long ? 32 : room_for<decltype(length)>();
      if constexpr ((is_long || L >= V) && (!narrow || L <= (V == 1 ? 4 : 2 * V))) body(lanes, length);
    });
  });
}

/// Coefficients (packs of W samples, blades as `source` says) to matrices, `halves` of them.
template <class S, int W>
void spinor_enter(const SpinorBasis& basis, const std::uint16_t* source, int halves, const S* coefficients,
                  S* matrices) {
  const Index order = basis.order;
  const Index columns = basis.real_order() * W;
  const float* sign = basis.sign.data();
  with_length(basis.length(), [&](auto length) {
    for (int half = 0; half < halves; ++half) {
      for (Index unit = 0; unit < basis.field; ++unit) {
        for (Index a = 0; a < order; ++a) {
          Pack<S, W> v[room_for<decltype(length)>()];
          for_length(length, [&](int t) ROTORLIN_INLINE_LAMBDA {
            v[t] = load<S, W>(coefficients + Index{source[t]} * W) * static_cast<S>(sign[t]);
          });
          hadamard(v, length);
          S* column = matrices + unit * order * W;  // column i of copy c is number t = c * D + i
          for_length(length, [&](int t) ROTORLIN_INLINE_LAMBDA {
            const Index row = (t & (order - 1)) ^ a;
            store<S, W>(column + t * columns + row * W, v[t]);
          });
          source += length;
          sign += length;
        }
      }
      matrices += (basis.size() / 2) * W;
    }
  });
}

/// The inverse of spinor_enter.
template <class S, int W>
void spinor_leave(const SpinorBasis& basis, const std::uint16_t* source, int halves, const S* matrices,
                  S* coefficients) {
  const Index order = basis.order;
  const Index columns = basis.real_order() * W;
  const float* sign = basis.sign.data();
  const S scale = S(1) / static_cast<S>(basis.length());
  with_length(basis.length(), [&](auto length) {
    for (int half = 0; half < halves; ++half) {
      for (Index unit = 0; unit < basis.field; ++unit) {
        for (Index a = 0; a < order; ++a) {
          Pack<S, W> v[room_for<decltype(length)>()];
          const S* column = matrices + unit * order * W;
          for_length(length, [&](int t) ROTORLIN_INLINE_LAMBDA {
            const Index row = (t & (order - 1)) ^ a;
            v[t] = load<S, W>(column + t * columns + row * W);
          });
          hadamard(v, length);
          for_length(length, [&](int t) ROTORLIN_INLINE_LAMBDA {
            store<S, W>(coefficients + Index{source[t]} * W, v[t] * (scale * static_cast<S>(sign[t])));
          });
          source += length;
          sign += length;
        }
      }
      matrices += (basis.size() / 2) * W;
    }
  });
}

/// The sums and differences of a Walsh-Hadamard transform, in the order of `hadamard`, not unrolled.
template <class S>
void hadamard_loop(S* v, Index length) {
  for (Index step = length / 2; step > 0; step /= 2) {
    for (Index i = 0; i < length; i += 2 * step) {
      for (Index j = i; j < i + step; ++j) {
        const S sum = v[j] + v[j + step];
        v[j + step] = v[j] - v[j + step];
        v[j] = sum;
      }
    }
  }
}

/// spinor_enter<S, 1> in little code, for what is done once for new parameters.
template <class S>
void spinor_enter_once(const SpinorBasis& basis, const std::uint16_t* source, int halves,
                       const S* coefficients, S* matrices) {
  const Index order = basis.order, length = basis.length(), columns = basis.real_order();
  const float* sign = basis.sign.data();
  for (int half = 0; half < halves; ++half, matrices += basis.size() / 2) {
    for (Index a = 0; a < basis.field * order; ++a, source += length, sign += length) {
      S v[max_spinor_length];
      for (Index t = 0; t < length; ++t) v[t] = coefficients[source[t]] * static_cast<S>(sign[t]);
      hadamard_loop(v, length);
      S* column = matrices + a / order * order;
      for (Index t = 0; t < length; ++t) column[t * columns + ((t & (order - 1)) ^ (a % order))] = v[t];
    }
  }
}

/// The inverse of spinor_enter_once.
template <class S>
void spinor_leave_once(const SpinorBasis& basis, const std::uint16_t* source, int halves, const S* matrices,
                       S* coefficients) {
  const Index order = basis.order, length = basis.length(), columns = basis.real_order();
  const float* sign = basis.sign.data();
  const S scale = S(1) / static_cast<S>(length);
  for (int half = 0; half < halves; ++half, matrices += basis.size() / 2) {
    for (Index a = 0; a < basis.field * order; ++a, source += length, sign += length) {
      S v[max_spinor_length];
      const S* column = matrices + a / order * order;
      for (Index t = 0; t < length; ++t) v[t] = column[t * columns + ((t & (order - 1)) ^ (a % order))];
      hadamard_loop(v, length);
      for (Index t = 0; t < length; ++t) coefficients[source[t]] = v[t] * (scale * static_cast<S>(sign[t]));
    }
  }
}

/// spinor_enter for a single sample, vectorised along the rows of its matrices. `rows` is scratch, 2^n.
template <class S>
void spinor_enter_single(const SpinorBasis& basis, const S* coefficients, S* matrices, S* rows) {
  const Index order = basis.order;
  const Index size = basis.size();
  for (Index p = 0; p < size; ++p) rows[p] = coefficients[basis.row_source[static_cast<std::size_t>(p)]];
  const float* sign = basis.row_sign.data();
  with_rows<S>(basis, [&](auto lanes, auto length) {
    constexpr int V = decltype(lanes)::value, room = room_for<decltype(length)>();
    for (Index half = 0; half < 2; ++half) {
      for (Index unit = 0; unit < basis.field; ++unit) {
        const Index start = (half * basis.field + unit) * length * order;
        S* column = matrices + half * (size / 2) + unit * order;
        for (Index a = 0; a < order; a += V) {
          Pack<S, V> v[to_size(room)];
          for_length(length, [&](int t) ROTORLIN_INLINE_LAMBDA {
            Pack<S, V> signs;
            if constexpr (std::is_same_v<S, float>) {
              signs = load<S, V>(sign + start + t * order + a);
            } else {
              S wide[to_size(V)];
              for (int l = 0; l < V; ++l) wide[l] = static_cast<S>(sign[start + t * order + a + l]);
              signs = load<S, V>(wide);
            }
            v[t] = load<S, V>(rows + start + t * order + a) * signs;
          });
          hadamard(v, length);
          // row a of column i is row a xor i of the matrix: the low bits of i move lanes, the others packs
          constexpr int run = std::min(V, room);
          for (int t = 0; t < length; t += run) {
            unroll<run>([&](auto low) ROTORLIN_INLINE_LAMBDA {
              const Index row = a ^ ((t & (order - 1)) & ~Index{V - 1});
              store<S, V>(column + (t + low) * basis.real_order() + row,
                          xor_lanes<S, V, decltype(low)::value>(v[t + low]));
            });
          }
        }
      }
    }
  });
}

/// The inverse of spinor_enter_single.
template <class S>
void spinor_leave_single(const SpinorBasis& basis, const S* matrices, S* coefficients, S* rows) {
  const Index order = basis.order;
  const Index size = basis.size();
  const S scale = S(1) / static_cast<S>(basis.length());
  with_rows<S>(basis, [&](auto lanes, auto length) {
    constexpr int V = decltype(lanes)::value, room = room_for<decltype(length)>();
    for (Index half = 0; half < 2; ++half) {
      for (Index unit = 0; unit < basis.field; ++unit) {
        const Index start = (half * basis.field + unit) * length * order;
        const S* column = matrices + half * (size / 2) + unit * order;
        for (Index a = 0; a < order; a += V) {
          Pack<S, V> v[to_size(room)];
          constexpr int run = std::min(V, room);
          for (int t = 0; t < length; t += run) {
            unroll<run>([&](auto low) ROTORLIN_INLINE_LAMBDA {
              const Index row = a ^ ((t & (order - 1)) & ~Index{V - 1});
              v[t + low] = xor_lanes<S, V, decltype(low)::value>(
                  load<S, V>(column + (t + low) * basis.real_order() + row));
            });
          }
          hadamard(v, length);
          for (int t = 0; t < length; ++t) store<S, V>(rows + start + t * order + a, v[t] * scale);
        }
      }
    }
  });
  for (Index blade = 0; blade < size; ++blade) {
    const std::size_t position = basis.row_position[static_cast<std::size_t>(blade)];
    coefficients[blade] = rows[position] * static_cast<S>(basis.row_sign[position]);
  }
}

}  // namespace rotorlin::detail
