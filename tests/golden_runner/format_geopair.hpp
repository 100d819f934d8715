// SPDX-License-Identifier: MIT
// geopair: the parts of the compression through shared dictionaries, each told by the fields of its file. W
// is d x n (y = x W) in these files; eta is relative, G + eta tr(G)/d I. Dictionaries are compared by what
// they make of the weights, D C, and by the objective f, since many give the same product.
#pragma once

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "report.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/linalg/gram_accumulator.hpp"
#include "rotorlin/geopair/matching.hpp"
#include "rotorlin/geopair/pairing.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"
#include "rotorlin/geopair/sparse_coding.hpp"
#include "rotorlin/linalg/whitening.hpp"

namespace golden::geopair {

using Matrix = rotorlin::Matrix<double>;
using Vector = rotorlin::VectorX<double>;

inline bool has(const json& object, std::initializer_list<const char*> fields) {
  return object.is_object() &&
         std::all_of(fields.begin(), fields.end(), [&](const char* field) { return object.contains(field); });
}

/// The cases of a file, or the file itself where it is one case.
inline json cases_of(const json& file) { return has(file, {"cases"}) ? file["cases"] : json::array({file}); }

/// From an array of rows.
inline Matrix matrix(const json& rows) {
  Matrix m(static_cast<Index>(rows.size()), rows.empty() ? 0 : static_cast<Index>(rows[0].size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Vector row = numbers<double>(rows[i]);
    if (row.size() != m.cols()) rotorlin::detail::throw_runtime("rows of a matrix differ in length");
    m.row(static_cast<Index>(i)) = row.transpose();
  }
  return m;
}

/// A list of matrices: one field that holds them all, or fields with numbers 1, 2, ...
inline std::vector<Matrix> matrices(const json& object, const std::string& name) {
  std::vector<Matrix> list;
  if (object.contains(name)) {
    for (const json& m : object[name]) list.push_back(matrix(m));
  }
  for (int i = 1; object.contains(name + std::to_string(i)); ++i) {
    list.push_back(matrix(object[name + std::to_string(i)]));
  }
  return list;
}

inline rotorlin::LayerGroup group_of(const std::vector<Matrix>& grams, const std::vector<Matrix>& weights,
                                     double eta) {
  rotorlin::LayerGroup group(grams.at(0).rows());
  for (std::size_t i = 0; i < grams.size(); ++i) {
    group.add_layer(weights.at(i).transpose(), group.add_gram(rotorlin::whiten(grams[i], eta).factor));
  }
  return group;
}

/// Relative to the value, and where that is a rounding of the energy, to the energy.
inline void compare_objective(const std::string& what, double computed, const json& object, const char* field,
                              double energy, Report& report, double tolerance = 1e-9) {
  if (!object.contains(field)) return;
  report.compare(what, rotorlin::Matrix<double>::Constant(1, 1, computed),
                 rotorlin::Matrix<double>::Constant(1, 1, object[field].get<double>()), tolerance,
                 1e-6 * energy);
}

inline void check_whiten(const json& c, Report& report) {
  const Matrix samples = matrix(c.at("X")).transpose();
  rotorlin::GramAccumulator accumulator(samples.rows());
  accumulator.add(samples);
  report.expect(accumulator.count() == c.at("N").get<std::int64_t>(), "N is the number of samples");
  const Matrix gram = accumulator.gram();
  const double eta = c.at("eta"), scale = gram.cwiseAbs().maxCoeff();
  const rotorlin::Whitening whitening = rotorlin::whiten(gram, eta);
  report.expect(whitening.eta == eta, "the ridge needs not grow");
  const Matrix ridged = gram + whitening.ridge * Matrix::Identity(gram.rows(), gram.cols());
  if (c.contains("G")) report.compare("G", gram, matrix(c["G"]), 1e-13, scale);
  if (c.contains("Geta")) report.compare("Geta", ridged, matrix(c["Geta"]), 1e-13, scale);
  if (c.contains("L")) report.compare("L", whitening.factor, matrix(c["L"]), 1e-9, std::sqrt(scale));
  report.compare("L^T L", whitening.factor.transpose() * whitening.factor, ridged, 1e-13, scale);
}

inline void check_coefficients(const json& c, Report& report) {
  const Matrix weight = matrix(c.at("W")), dictionary = matrix(c.at("D"));
  const rotorlin::LayerGroup group = group_of({matrix(c.at("G"))}, {weight}, c.at("eta"));
  const auto& term = group.terms()[0];
  const Matrix computed = rotorlin::LeastSquares(term.factor * dictionary).solve(term.whitened);
  for (const char* field : {"C", "C_minnorm"}) {
    if (!c.contains(field)) continue;
    report.compare(field, computed, matrix(c[field]), 1e-9);
    report.compare("D C", dictionary * computed, dictionary * matrix(c[field]), 1e-9);
  }
  compare_objective("f", group.objective(dictionary, {computed}), c, "f", group.energy(), report);
}

inline void check_dictionary(const json& c, Report& report) {
  const std::vector<Matrix> coefficients = matrices(c, "C"), grams = matrices(c, "G");
  const rotorlin::LayerGroup group = group_of(grams, matrices(c, "W"), c.at("eta"));
  const rotorlin::DictionaryStep step(group, 1000, 1e-14);
  const Matrix old = matrix(c.at("D_old")), zero = Matrix::Zero(old.rows(), old.cols());
  const auto stepped = [&](const Matrix& from) -> Matrix {
    return from + step.correction(coefficients, group.residuals(from, coefficients));
  };
  const Matrix computed = stepped(old);
  compare_objective("f_old", group.objective(old, coefficients), c, "f_old", group.energy(), report);
  compare_objective("f_new", group.objective(computed, coefficients), c, "f_new", group.energy(), report);
  for (std::size_t i = 0; i < grams.size(); ++i) {
    const std::string field = "What" + std::to_string(i + 1);
    if (c.contains(field)) report.compare(field, computed * coefficients[i], matrix(c[field]), 1e-9);
  }
  if (c.contains("D_new")) report.compare("D_new", computed, matrix(c["D_new"]), 1e-8);
  if (c.contains("D_new_from_zero"))
    report.compare("D_new_from_zero", stepped(zero), matrix(c["D_new_from_zero"]), 1e-8);
}

inline void compare_trace(const json& expected, const std::vector<rotorlin::TracePoint>& trace, double energy,
                          double tolerance, Report& report) {
  for (std::size_t i = 0; i < expected.size(); ++i) {  // trace[0] is the first C step, before the list
    compare_objective("f of step " + std::to_string(i + 1), trace.at(i + 1).objective, expected[i], "f",
                      energy, report, tolerance);
  }
}

inline void check_alternation(const json& file, Report& report) {
  const rotorlin::LayerGroup group = group_of(matrices(file, "G"), matrices(file, "W"), file.at("eta"));
  const Matrix start = matrix(file.at("D0"));
  const json& trace = file.at("trace");
  rotorlin::FactorizationOptions options;
  options.rank = start.cols();
  options.iterations = static_cast<int>((trace.size() + 1) / 2);
  options.gradient_steps = 1000;
  const rotorlin::SharedFactorization result = rotorlin::factorize(group, options, &start);
  compare_objective("f_after_first_C", result.trace[0].objective, file, "f_after_first_C", group.energy(),
                    report);
  compare_trace(trace, result.trace, group.energy(), 1e-9, report);
  compare_objective("f_final", result.objective, file, "f_final", group.energy(), report);
  const std::vector<Matrix> products = matrices(file, "What");
  for (std::size_t i = 0; i < products.size(); ++i) {
    report.compare("What", result.dictionary * result.coefficients.at(i), products[i], 1e-8);
  }
}

inline void check_many(const json& file, Report& report) {
  const rotorlin::LayerGroup group = group_of(matrices(file, "G"), matrices(file, "W"), file.at("eta"));
  const Matrix start = matrix(file.at("D0"));
  const std::vector<Matrix> coefficients = matrices(file, "C");
  const rotorlin::DictionaryStep step(group, 1000, 1e-14);
  const Matrix solution = start + step.correction(coefficients, group.residuals(start, coefficients));
  if (file.contains("D_solution")) report.compare("D_solution", solution, matrix(file["D_solution"]), 1e-9);
  compare_objective("f0", group.objective(start, coefficients), file, "f0", group.energy(), report);
  compare_objective("f_min_over_D", group.objective(solution, coefficients), file, "f_min_over_D",
                    group.energy(), report);

  rotorlin::FactorizationOptions options;
  options.rank = start.cols();
  options.iterations = 300;
  const rotorlin::SharedFactorization result = rotorlin::factorize(group, options, &start);
  for (std::size_t i = 1; i < result.trace.size(); ++i) {
    report.expect(result.trace[i].objective <= result.trace[i - 1].objective * (1 + 1e-12),
                  "f never increases");
  }
  if (file.contains("als_f_final_300")) {
    report.expect(
        result.objective <= file["als_f_final_300"].get<double>() * (1 + 1e-6),
        rotorlin::detail::concatenate("f after 300 iterations is ", result.objective, ", expected at most ",
                                      file["als_f_final_300"].get<double>()));
  }
}

/// Any least squares solution on a support of k has the same f: coefficients are compared where the supports
/// agree, and a lower error is as good.
inline void check_pursuit(const json& c, Report& report) {
  const Matrix atoms = matrix(c.at("A")), y = matrix(c.at("y"));
  rotorlin::PursuitOptions options;
  options.nonzeros = c.at("k");
  options.safe_step = c.value("mu", "one") == "safe";
  std::optional<Matrix> start;
  if (has(c, {"C0"}) && c["C0"].is_array()) start = matrix(c["C0"]);
  for (const rotorlin::SupportSolver solver :
       {rotorlin::SupportSolver::cholesky, rotorlin::SupportSolver::conjugate_gradients}) {
    options.solver = solver;
    const bool exact = solver == rotorlin::SupportSolver::cholesky;
    options.gradient_steps = 50;
    const rotorlin::SparseCode code =
        rotorlin::hard_thresholding_pursuit(atoms.transpose() * atoms, atoms.transpose() * y,
                                            y.colwise().squaredNorm(), options, start ? &*start : nullptr);
    const Vector errors = (y - atoms * code.coefficients).colwise().squaredNorm();
    report.compare("errors", code.errors, errors, 1e-11, y.squaredNorm());
    if (c.contains("f")) report.compare("f", errors, numbers<double>(c["f"]), 1e-9);
    if (c.contains("C")) report.compare("C", code.coefficients, matrix(c["C"]), exact ? 1e-9 : 1e-7);
    for (Index j = 0; j < y.cols(); ++j) {
      std::vector<Index> support;
      for (Index i = 0; i < atoms.cols(); ++i) {
        if (code.coefficients(i, j) != 0) support.push_back(i);
      }
      report.expect(static_cast<Index>(support.size()) <= options.nonzeros, "at most k nonzeros");
      if (c.contains("support")) {
        report.expect(json(support) == c["support"].at(static_cast<std::size_t>(j)),
                      "support of column " + std::to_string(j));
      }
      if (c.contains("f_optimal_bruteforce")) {
        report.expect(
            errors[j] >= c["f_optimal_bruteforce"].at(static_cast<std::size_t>(j)).get<double>() - 1e-9,
            "no error is below the optimum");
      }
    }
  }
}

inline void check_ksvd(const json& file, Report& report) {
  const rotorlin::LayerGroup group = group_of(matrices(file, "G"), matrices(file, "W"), file.at("eta"));
  Matrix dictionary = matrix(file.at("D"));
  std::vector<Matrix> coefficients = matrices(file, "C");
  compare_objective("f_before", group.objective(dictionary, coefficients), file, "f_before", group.energy(),
                    report);
  std::vector<Matrix> residuals = group.residuals(dictionary, coefficients);
  rotorlin::ksvd_sweep(group, rotorlin::DictionaryStep(group, 1000, 1e-14), dictionary, coefficients,
                       residuals, 1);
  compare_objective("f_after", group.objective(dictionary, coefficients), file, "f_after", group.energy(),
                    report);
  const std::vector<Matrix> expected = matrices(file, "C_after");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!file.contains("D_after")) break;
    report.compare("D C after", dictionary * coefficients.at(i), matrix(file["D_after"]) * expected[i], 1e-8);
  }
}

inline void check_distance(const json& c, Report& report) {
  const Matrix a = matrix(c.at("A")), b = matrix(c.at("B"));
  const rotorlin::SlidingDistance distance = rotorlin::sliding_distance(a, b),
                                  swapped = rotorlin::sliding_distance(b, a);
  const double size = a.norm() * b.norm();
  if (c.contains("cross_correlation")) {
    report.compare("cross_correlation", distance.cross_correlation, numbers<double>(c["cross_correlation"]),
                   1e-12, size);
  }
  if (c.contains("d_sum")) report.compare("d_sum", distance.sum, numbers<double>(c["d_sum"]), 1e-12);
  if (c.contains("d_geo")) report.compare("d_geo", distance.geometric, numbers<double>(c["d_geo"]), 1e-12);
  const auto best = [&](const char* field, const Vector& values) {
    if (!c.contains(field)) return;
    Index offset = 0;
    const double least = values.minCoeff(&offset);
    report.compare(field, least, c[field].at(0).get<double>(), 1e-12);
    report.expect(offset == c[field].at(1).get<Index>(), std::string("offset of ") + field);
  };
  best("best_sum", distance.sum);
  best("best_geo", distance.geometric);
  best("swapped", swapped.sum);
  if (has(c, {"C_equal_width", "d_equal_width"})) {
    report.compare("d_equal_width", rotorlin::sliding_distance(a, matrix(c["C_equal_width"])).sum[0],
                   c["d_equal_width"].get<double>(), 1e-12);
  }
  if (c.contains("d_self"))
    report.compare("d_self", rotorlin::sliding_distance(a, a).sum[0], c["d_self"].get<double>(), 1e-15);
}

inline void check_matching(const json& c, Report& report) {
  const Matrix cost = matrix(c.at("cost"));
  const rotorlin::Pairs pairs = rotorlin::minimum_cost_matching(cost);
  std::vector<bool> used(static_cast<std::size_t>(cost.rows()), false);
  double total = 0;
  for (const auto& [i, j] : pairs) {
    for (const Index v : {i, j}) {
      report.expect(!used[static_cast<std::size_t>(v)], "no vertex has two mates");
      used[static_cast<std::size_t>(v)] = true;
    }
    total += cost(i, j);
  }
  report.expect(static_cast<Index>(pairs.size()) == cost.rows() / 2,
                "all but one of an odd number are matched");
  report.compare("min_total", total, c.at("min_total").get<double>(), 1e-9);
}

inline void check_accounting(const json& file, Report& report) {
  using rotorlin::DictionarySize;
  for (const json& row : file.at("rows")) {
    const Index d = row.at("d");
    Index n = 0;
    for (const json& width : row.at("ns")) n += width.get<Index>();
    const double ratio = row.at("ratio"), ks = row.value("ks", file.value("ks", rotorlin::default_ks_ratio));
    report.begin_case(rotorlin::detail::concatenate("d = ", d, ", sum n = ", n, ", ratio ", ratio));
    const auto expect = [&](const char* field, Index computed) {
      if (!row.contains(field)) return;
      report.expect(
          computed == row[field].get<Index>(),
          rotorlin::detail::concatenate(field, " is ", computed, ", expected ", row[field].get<Index>()));
    };
    const Index r = rotorlin::dense_rank(d, n, ratio);
    const DictionarySize mask32 = rotorlin::sparse_size(d, n, ratio, ks),
                         mask16 = rotorlin::sparse_size(d, n, ratio, ks, 16),
                         no_index = rotorlin::sparse_size(d, n, ratio, ks, 32, false);
    expect("dense_r", r);
    expect("dense_bytes_fp32", 4 * r * (d + n));
    expect("dense_identity_r", rotorlin::dense_rank(d, n, ratio, true));
    expect("sparse_r_mask32", mask32.rank);
    expect("sparse_k_mask32", mask32.nonzeros);
    expect("sparse_r_mask16", mask16.rank);
    expect("sparse_k_mask16", mask16.nonzeros);
    expect("sparse_r_noindex", no_index.rank);
    expect("sparse_k_noindex", no_index.nonzeros);
    if (row.contains("sparse_kept_fraction_mask32")) {
      const double bytes = static_cast<double>(4 * (d * mask32.rank + mask32.nonzeros * n)) +
                           static_cast<double>(mask32.rank * n) / 8;
      report.compare("sparse_kept_fraction_mask32", bytes / (4 * static_cast<double>(d * n)),
                     row["sparse_kept_fraction_mask32"].get<double>(), 1e-12);
    }
  }
}

/// End to end: dense and, where k is given, sparse factorisation, between the bounds of the file.
inline void check_compression(const json& c, Report& report) {
  const std::vector<Matrix> grams = matrices(c, "G"), weights = matrices(c, "W");
  const rotorlin::LayerGroup group = group_of(grams, weights, c.at("eta"));
  const auto size = [&](std::initializer_list<const char*> fields) -> Index {
    for (const char* field : fields) {
      if (c.contains(field)) return c[field].get<Index>();
    }
    return 0;
  };
  const auto at_most = [&](const char* field, double f, double slack) {
    if (!c.contains(field)) return;
    report.expect(f <= c[field].get<double>() * (1 + slack),
                  rotorlin::detail::concatenate("f = ", f, ", but ", field, " = ", c[field].get<double>()));
  };
  rotorlin::FactorizationOptions options;
  options.rank = size({"r", "r_dense", "dense_r"});
  if (options.rank == 0 && c.contains("ratio"))
    options.rank = rotorlin::dense_rank(group.inputs(), group.outputs(), c["ratio"]);
  if (options.rank > 0) {
    options.iterations = 100;
    const double dense = rotorlin::factorize(group, options).objective;
    at_most("f_dense_als", dense, 1e-3);
    at_most("f_basis_sharing", dense, 0);
    if (c.contains("f_lower_bound")) {
      report.expect(dense >= c["f_lower_bound"].get<double>() - 1e-9 * group.energy(),
                    "f is above f_lower_bound");
    }
  }
  options.nonzeros = size({"k", "k_sparse", "sparse_k"});
  if (options.nonzeros > 0) {
    if (const Index r = size({"r_sparse", "sparse_r"}); r > 0) options.rank = r;
  } else if (c.contains("ratio") && c.contains("f_sparse_accept_max")) {
    const rotorlin::DictionarySize sparse =
        rotorlin::sparse_size(group.inputs(), group.outputs(), c["ratio"],
                              c.value("ks", c.value("ks_ratio", rotorlin::default_ks_ratio)));
    options.rank = sparse.rank;
    options.nonzeros = sparse.nonzeros;
  }
  if (options.nonzeros > 0) {
    options.iterations = 60;
    at_most("f_sparse_accept_max", rotorlin::factorize(group, options).objective, 0);
  }
  report.expect(options.rank > 0, "the rank is given");
}

using Check = void (*)(const json&, Report&);

/// What one case, or a file without cases, is; null where it is none of these.
inline Check check_of(const json& c) {
  if (has(c, {"rows"}) && c["rows"].is_array() && !c["rows"].empty() &&
      has(c["rows"][0], {"d", "ns", "ratio"}))
    return check_accounting;
  if (has(c, {"f_lower_bound"}) || has(c, {"f_dense_als"}) || has(c, {"f_sparse_accept_max"}))
    return check_compression;
  if (has(c, {"cost", "min_total"})) return check_matching;
  if (has(c, {"A", "y", "k"})) return check_pursuit;
  if (has(c, {"A", "B"}) && (has(c, {"d_sum"}) || has(c, {"d_geo"}))) return check_distance;
  if (has(c, {"X", "N", "eta"})) return check_whiten;
  if (!has(c, {"eta"})) return nullptr;
  if (has(c, {"D_old", "G1", "W1", "C1"})) return check_dictionary;
  if (!has(c, {"G", "W"})) return nullptr;
  if (has(c, {"D0", "C"})) return check_many;
  if (has(c, {"D0", "trace"})) return check_alternation;
  if (has(c, {"D", "C", "f_after"})) return check_ksvd;
  if (has(c, {"D"})) return check_coefficients;
  return nullptr;
}

inline bool matches(const json& file) {
  const json cases = cases_of(file);
  return cases.is_array() && !cases.empty() && check_of(cases[0]) != nullptr;
}

inline void check(const json& file, Report& report) {
  std::size_t number = 0;
  for (const json& c : cases_of(file)) {
    report.begin_case(c.is_object() && has(c, {"name"}) ? c["name"].get<std::string>()
                                                        : "case " + std::to_string(number));
    ++number;
    if (const Check check_case = check_of(c)) {
      check_case(c, report);
    } else {
      report.fail("the fields of no part of geopair");
    }
  }
}

}  // namespace golden::geopair
