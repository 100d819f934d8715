// SPDX-License-Identifier: MIT
/// \file
/// Values of few bits: blocks of 32 along a column share a scale of 16 bits, x ~ scale q with whole numbers q
/// of -(2^(bits - 1) - 1) ... 2^(bits - 1) - 1. In a file
///
///     <name>          8 bits: I8, cols x rows; fewer: U8, cols x bytes, where a column is a string of bits,
///                     q + 2^(bits - 1) of every value, lowest bit of a byte first
///     <name>.scales   F16, cols x blocks
///
/// and a list of values is one column, without the first dimension. Rounding what was rounded changes
/// nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/finite.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/files/storage_options.hpp"
#include "rotorlin/io/safetensors.hpp"
#include "rotorlin/layers/layer.hpp"

namespace rotorlin::detail {

struct RoundedBlocks {
  int bits = 8;
  Matrix<std::int8_t> values;  // rows x cols
  Matrix<Eigen::half> scales;  // blocks x cols
};

/// The least scale for a block of this largest magnitude. Where F16 loses precision, powers of two: rounding
/// twice must not move the scale.
inline float block_scale(double largest, int most) {
  const double scale = largest / most;
  if (scale >= 0x1p-14) return static_cast<float>(static_cast<Eigen::half>(static_cast<float>(scale)));
  if (scale == 0) return 0;
  return static_cast<float>(std::max(0x1p-24, std::exp2(std::ceil(std::log2(scale)))));
}

/// \throws std::domain_error, naming `what`, for values that are not finite or beyond the range of the scale.
template <class S>
RoundedBlocks round_blocks(const ConstMatrixRef<S>& m, int bits, const std::string& what) {
  if (!all_finite(m)) throw_domain("StorageOptions: ", what, " is NaN or infinite");
  const Index rows = m.rows(), blocks = (rows + storage_block - 1) / storage_block;
  const int most = (1 << (bits - 1)) - 1;
  RoundedBlocks result{bits, Matrix<std::int8_t>(rows, m.cols()), Matrix<Eigen::half>(blocks, m.cols())};
  for (Index j = 0; j < m.cols(); ++j) {
    for (Index b = 0; b < blocks; ++b) {
      const Index begin = b * storage_block, end = std::min(rows, begin + storage_block);
      double largest = 0;
      for (Index i = begin; i < end; ++i) largest = std::max(largest, std::abs(static_cast<double>(m(i, j))));
      const double scale = block_scale(largest, most);
      if (!is_finite(scale))
        throw_domain("StorageOptions: ", what, " is ", largest, ", beyond the range of a scale in F16");
      result.scales(b, j) = static_cast<Eigen::half>(static_cast<float>(scale));
      for (Index i = begin; i < end; ++i) {
        const double q = scale > 0 ? std::round(static_cast<double>(m(i, j)) / scale) : 0;
        result.values(i, j) = static_cast<std::int8_t>(std::clamp<double>(q, -most, most));
      }
    }
  }
  return result;
}

template <class S>
Matrix<S> dense_of(const RoundedBlocks& blocks) {
  Matrix<S> m(blocks.values.rows(), blocks.values.cols());
  for (Index j = 0; j < m.cols(); ++j) {
    for (Index i = 0; i < m.rows(); ++i)
      m(i, j) = static_cast<S>(static_cast<float>(blocks.scales(i / storage_block, j))) *
                static_cast<S>(blocks.values(i, j));
  }
  return m;
}

inline Index packed_bytes(Index rows, int bits) { return checked_sum(checked_product(rows, bits), 7) / 8; }

template <class = void>
void add_blocks(SafetensorsWriter& writer, const std::string& name, const RoundedBlocks& blocks,
                bool as_vector) {
  const Index rows = blocks.values.rows(), cols = blocks.values.cols(),
              bytes = packed_bytes(rows, blocks.bits);
  const auto shape_of = [&](Index length) {
    return as_vector ? std::vector<Index>{length} : std::vector<Index>{cols, length};
  };
  if (blocks.bits == 8) {
    writer.add_raw(name, DType::i8, shape_of(rows),
                   std::as_bytes(std::span(blocks.values.data(), static_cast<std::size_t>(rows * cols))));
  } else {
    Matrix<std::uint8_t> packed = Matrix<std::uint8_t>::Zero(bytes, cols);
    for (Index j = 0; j < cols; ++j) {
      for (Index i = 0, bit = 0; i < rows; ++i, bit += blocks.bits) {
        const int q = (blocks.values(i, j) + (1 << (blocks.bits - 1))) << bit % 8;
        packed(bit / 8, j) = static_cast<std::uint8_t>(packed(bit / 8, j) | q);
        if (q > 255) packed(bit / 8 + 1, j) = static_cast<std::uint8_t>(q >> 8);
      }
    }
    writer.add_raw(name, DType::u8, shape_of(bytes),
                   std::as_bytes(std::span(packed.data(), static_cast<std::size_t>(packed.size()))));
  }
  writer.add_raw(
      name + ".scales", DType::f16, shape_of(blocks.scales.rows()),
      std::as_bytes(std::span(blocks.scales.data(), static_cast<std::size_t>(blocks.scales.size()))));
}

/// rows x cols values. \throws std::invalid_argument where the tensors have other shapes or types, or a scale
/// is negative, NaN or infinite.
template <class S>
Matrix<S> read_blocks(const SafetensorsFile& file, const std::string& name, Index rows, Index cols, int bits,
                      bool as_vector) {
  const Index blocks_a_column = checked_sum(rows, storage_block - 1) / storage_block;
  const auto check = [&](const std::string& tensor_name, DType dtype, Index length) {
    const std::vector<Index> expected =
        as_vector ? std::vector<Index>{length} : std::vector<Index>{cols, length};
    const TensorInfo& tensor = file.info(tensor_name);
    if (tensor.dtype == dtype && tensor.shape == expected) return;
    throw_invalid(rows, " x ", cols, " values of ", bits, " bits need ", tensor_name, " of ", shape(expected),
                  ", ", dtype.name(), ", the file has ", shape(tensor.shape), ", ", tensor.dtype.name());
  };
  const Index length = bits == 8 ? rows : packed_bytes(rows, bits);
  check(name, bits == 8 ? DType::i8 : DType::u8, length);
  check(name + ".scales", DType::f16, blocks_a_column);
  const VectorX<float> scales = file.vector<float>(name + ".scales");
  for (Index i = 0; i < scales.size(); ++i) {
    if (!is_finite(scales[i]) || scales[i] < 0)
      throw_invalid(name, ".scales has ", scales[i], " as value ", i, ", expected finite ones, at least 0");
  }
  RoundedBlocks blocks{bits, Matrix<std::int8_t>(rows, cols), {}};
  blocks.scales = Eigen::Map<const Matrix<float>>(scales.data(), blocks_a_column, cols).cast<Eigen::half>();
  if (bits == 8) {
    const auto values = file.vector<std::int8_t>(name);
    std::copy(values.data(), values.data() + values.size(), blocks.values.data());
  } else {
    const auto packed = file.vector<std::uint8_t>(name);
    for (Index j = 0; j < cols; ++j) {
      const std::uint8_t* const column = packed.data() + j * length;
      for (Index i = 0, bit = 0; i < rows; ++i, bit += bits) {
        int word = column[bit / 8];
        if (bit % 8 + bits > 8) word |= column[bit / 8 + 1] << 8;
        blocks.values(i, j) =
            static_cast<std::int8_t>(((word >> bit % 8) & ((1 << bits) - 1)) - (1 << (bits - 1)));
      }
    }
  }
  return dense_of<S>(blocks);
}

}  // namespace rotorlin::detail
