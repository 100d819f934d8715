// SPDX-License-Identifier: MIT
// spinor_generators: e_1 ... e_n of Cl(n) and f_i = e_i e_n of its even subalgebra as sign X^a Z^b times a
// unit of R, C or H, where X^a Z^b |i> = (-1)^popcount(b & i) |i xor a>. They must square to +1 (the f_i to
// -1), anticommute, and generate a matrix algebra of the right dimension.
#pragma once

#include <bit>

#include "report.hpp"

namespace golden::spinor_generators {

inline bool matches(const json& file) {
  const auto holds = [&](const char* list, const char* generators) {
    return file.contains(list) && file[list].is_array() && !file[list].empty() &&
           file[list][0].contains(generators) && file[list][0].contains("K_dim");
  };
  return file.is_object() && (holds("full", "e") || holds("even", "f"));
}

struct Generator {
  int sign = 1;
  unsigned a = 0, b = 0, unit = 0;
  bool operator==(const Generator&) const = default;
};

inline Generator operator*(const Generator& x, const Generator& y) {
  // of the quaternion units 1, i, j, k: the product of two is the third, and minus it against their cycle
  int sign = x.sign * y.sign * (std::popcount(x.b & y.a) & 1 ? -1 : 1);
  if (x.unit != 0 && y.unit != 0 && (x.unit == y.unit || (x.unit + 1) % 3 != y.unit % 3)) sign = -sign;
  return {sign, x.a ^ y.a, x.b ^ y.b, x.unit ^ y.unit};
}

inline void check_list(const json& list, const char* field, int square, int missing, Report& report) {
  for (const json& entry : list) {
    const int n = entry.at("n");
    report.begin_case(std::string(field) + " of n = " + std::to_string(n));
    std::vector<Generator> generators;
    const unsigned size = entry.at("D");
    for (const json& g : entry.at(field)) {
      generators.push_back({g.at(0), g.at(1), g.at(2), g.at(3)});
      const Generator& last = generators.back();
      report.expect(last.a < size && last.b < size && last.unit < entry.at("K_dim").get<unsigned>(),
                    "a generator is within the matrices of D and K_dim");
    }
    report.expect(static_cast<int>(generators.size()) == n - missing, "number of generators");
    const int dimension =
        static_cast<int>(size * size) * entry.at("K_dim").get<int>() * entry.at("copies").get<int>();
    report.expect(dimension == 1 << (n - missing), "D^2 K_dim copies is the dimension of the algebra");
    for (std::size_t i = 0; i < generators.size(); ++i) {
      report.expect(generators[i] * generators[i] == Generator{square, 0, 0, 0}, "square of a generator");
      for (std::size_t j = 0; j < i; ++j) {
        Generator swapped = generators[j] * generators[i];
        swapped.sign = -swapped.sign;
        report.expect(generators[i] * generators[j] == swapped, "two generators anticommute");
      }
    }
  }
}

inline void check(const json& file, Report& report) {
  if (file.contains("full")) check_list(file["full"], "e", 1, 0, report);
  if (file.contains("even")) check_list(file["even"], "f", -1, 1, report);
}

}  // namespace golden::spinor_generators
