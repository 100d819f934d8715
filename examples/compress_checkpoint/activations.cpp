// SPDX-License-Identifier: MIT
#include "activations.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotorlin/linalg/gram_accumulator.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace examples {

using rotorlin::DType;
using rotorlin::detail::throw_runtime;

namespace {

/// Samples x features in row-major order, somewhere in a mapped file.
struct Samples {
  DType dtype;
  Index count, features;
  std::span<const std::byte> bytes;
};

/// The number of samples, for a shape whose last dimension are the features.
Index samples_of(const std::vector<Index>& shape, Index features, const std::string& where) {
  if (shape.size() < 2 || shape.back() != features) {
    throw_runtime(where, " has shape ", rotorlin::detail::shape(shape), ", expected samples x ", features,
                  ": the features that the projection reads come last");
  }
  Index count = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
    if (__builtin_mul_overflow(count, shape[i], &count)) throw_runtime(where, ": the shape overflows");
  }
  return count;
}

template <class Stored>
void accumulate(const Samples& samples, rotorlin::GramAccumulator& gram,
                const std::function<void(Index)>& advanced) {
  constexpr Index block = 1024;
  using Block = Eigen::Matrix<Stored, Eigen::Dynamic, Eigen::Dynamic>;
  for (Index first = 0; first < samples.count; first += block) {
    Block x(samples.features, std::min(block, samples.count - first));  // one sample a column
    const std::size_t size = static_cast<std::size_t>(x.size()) * sizeof(Stored);
    const auto offset = static_cast<std::size_t>(first * samples.features) * sizeof(Stored);
    std::memcpy(static_cast<void*>(x.data()), samples.bytes.data() + offset, size);
    if constexpr (sizeof(Stored) == 2) {
      gram.add(x.template cast<float>().eval());
    } else {
      gram.add(x);
    }
    advanced(x.cols());
  }
}

void accumulate(const Samples& samples, rotorlin::GramAccumulator& gram, const std::string& where,
                const std::function<void(Index)>& advanced) {
  switch (samples.dtype) {
    case DType::f64:
      return accumulate<double>(samples, gram, advanced);
    case DType::f32:
      return accumulate<float>(samples, gram, advanced);
    case DType::f16:
      return accumulate<Eigen::half>(samples, gram, advanced);
    case DType::bf16:
      return accumulate<Eigen::bfloat16>(samples, gram, advanced);
    default:
      throw_runtime(where, " holds ", rotorlin::name_of(samples.dtype),
                    ", expected floating point of 16, 32 or 64 bits");
  }
}

/// What stands behind 'key': in the header of an .npy file, up to the end of the header.
std::string_view npy_entry(std::string_view header, const char* key, const std::string& where) {
  const std::string quoted = std::string("'") + key + "':";
  const std::size_t at = header.find(quoted);
  if (at == header.npos) throw_runtime(where, ": the header has no ", quoted, " entry");
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

/// The array of an .npy file, versions 1 to 3
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
Samples parse_npy(std::span<const std::byte> bytes, Index features, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("\x93NUMPY") || text.size() < 12) throw_runtime(where, " is not an .npy file");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[i]));
  };
  const bool wide = byte(6) >= 2;
  const std::size_t begin = wide ? 12 : 10;
  const std::size_t length = byte(8) + (byte(9) << 8) + (wide ? (byte(10) << 16) + (byte(11) << 24) : 0);
  if (length > text.size() - begin) throw_runtime(where, " ends within its header of ", length, " bytes");
  const std::string_view header = text.substr(begin, length);

  Samples samples{DType::f32, 0, features, bytes.subspan(begin + length)};
  const std::string_view descr = npy_entry(header, "descr", where);
  if (descr.starts_with("'<f8'")) {
    samples.dtype = DType::f64;
  } else if (descr.starts_with("'<f2'")) {
    samples.dtype = DType::f16;
  } else if (!descr.starts_with("'<f4'")) {
    throw_runtime(where, " holds ", std::string(descr.substr(0, descr.find(','))),
                  ", expected '<f4', '<f8' or '<f2'");
  }
  if (!npy_entry(header, "fortran_order", where).starts_with("False"))
    throw_runtime(where, " is in Fortran's order; save numpy.ascontiguousarray(x)");

  std::vector<Index> shape;
  std::string_view list = npy_entry(header, "shape", where);
  if (!list.starts_with('(')) throw_runtime(where, ": the shape is not a tuple");
  list = list.substr(1, list.find(')') - 1);
  while (!list.empty()) {
    if (list.front() == ' ' || list.front() == ',') {
      list.remove_prefix(1);
      continue;
    }
    Index value = 0;
    const auto [rest, error] = std::from_chars(list.data(), list.data() + list.size(), value);
    if (error != std::errc() || value < 0)
      throw_runtime(where, ": the shape holds '", std::string(list), "'");
    shape.push_back(value);
    list.remove_prefix(static_cast<std::size_t>(rest - list.data()));
  }
  samples.count = samples_of(shape, features, where);
  std::size_t expected = rotorlin::size_of(samples.dtype);
  for (const Index dimension : shape) {
    if (__builtin_mul_overflow(expected, static_cast<std::size_t>(dimension), &expected))
      throw_runtime(where, ": the shape overflows");
  }
  if (expected != samples.bytes.size()) {
    throw_runtime(where, " has ", samples.bytes.size(), " bytes of values, shape ",
                  rotorlin::detail::shape(shape), " needs ", expected, "; is the file truncated?");
  }
  return samples;
}

}  // namespace

Matrix<double> read_gram(const std::filesystem::path& file, Index features,
                         const std::function<void(double)>& advanced) {
  const std::string where = file.string();
  rotorlin::GramAccumulator gram(features);
  const auto add_all = [&](const std::vector<Samples>& parts) {
    Index total = 0, done = 0;
    for (const Samples& part : parts) total += part.count;
    if (total == 0) throw_runtime(where, " has no samples");
    try {
      for (const Samples& part : parts) {
        accumulate(part, gram, where, [&](Index count) {
          done += count;
          if (advanced) advanced(static_cast<double>(done) / static_cast<double>(total));
        });
      }
    } catch (const std::domain_error& error) {
      throw_runtime(where, ": samples ", done, " and following: ", error.what());
    }
  };
  if (file.extension() == ".npy") {
    const rotorlin::detail::MappedFile mapped(file);
    add_all({parse_npy(mapped.bytes(), features, where)});
  } else {
    const rotorlin::SafetensorsFile tensors(file);
    std::vector<Samples> parts;
    for (const rotorlin::TensorInfo& tensor : tensors.tensors()) {
      const Index count = samples_of(tensor.shape, features, where + ": tensor '" + tensor.name + "'");
      parts.push_back({tensor.dtype, count, features, tensors.bytes(tensor.name)});
    }
    add_all(parts);
  }
  return gram.gram();
}

std::filesystem::path find_activations(const std::filesystem::path& folder, const std::string& name) {
  for (const char* ending : {".safetensors", ".npy"}) {
    const std::filesystem::path file = folder / (name + ending);
    if (std::filesystem::exists(file)) return file;
  }
  return {};
}

}  // namespace examples
