// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/output_coding.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "problems.hpp"
#include "rotorlin/linalg/whitening.hpp"

namespace {

using rotorlin::FactorizationOptions;
using rotorlin::output_coding;

struct OutputProblem {
  std::vector<test::Matrix> factors, weights;

  OutputProblem() {
    for (const rotorlin::Index d : {20, 14}) {
      const auto seed = static_cast<std::uint64_t>(d);
      factors.push_back(rotorlin::whiten(test::random_gram(d, 40, seed), 1e-3).factor);
      weights.push_back(test::random_matrix(d, 6, seed + 1));
    }
  }
  double objective(const test::Matrix& dictionary, const std::vector<test::Matrix>& coefficients) const {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const test::Matrix missing = weights[i] - coefficients[i] * dictionary;
      sum += (factors[i].triangularView<Eigen::Upper>() * missing).eval().squaredNorm();
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("Output coding keeps its number of nonzeros, and only descends while warm",
          "[geopair][output_coding]") {
  const OutputProblem problem;
  FactorizationOptions options;
  options.rank = GENERATE(9, 140);  // row by row, and in blocks
  options.nonzeros = 3;
  options.iterations = 12;
  options.monotone = GENERATE(true, false);
  const rotorlin::SharedFactorization result =
      output_coding(test::pointers(problem.factors), problem.weights, options);
  CHECK(result.objective == Approx(problem.objective(result.dictionary, result.coefficients)));
  CHECK(result.taken_back == 0);
  for (const test::Matrix& c : result.coefficients)
    CHECK((c.array() != 0).cast<int>().rowwise().sum().maxCoeff() <= options.nonzeros);
  const std::size_t first = options.monotone ? 1 : result.trace.size() - 2 * 3;
  for (std::size_t i = first; i < result.trace.size(); ++i) {
    CAPTURE(i);
    CHECK(result.trace[i].objective <= result.trace[i - 1].objective * (1 + 1e-9));
  }
}

TEST_CASE("Rows in blocks descend however features oppose each other", "[geopair][output_coding]") {
  OutputProblem problem;  // of 34 inputs: the last block has two rows, opposite
  test::Matrix gram = test::Matrix::Identity(34, 34);
  gram(32, 33) = gram(33, 32) = -0.99;
  problem.factors = {rotorlin::whiten(gram, 1e-9).factor};
  problem.weights = {test::random_matrix(34, 12, 5)};
  FactorizationOptions options;
  options.rank = 130;
  options.nonzeros = 3;
  options.iterations = 6;
  options.monotone = true;
  const rotorlin::SharedFactorization result =
      output_coding(test::pointers(problem.factors), problem.weights, options);
  CHECK(result.taken_back == 0);
  for (std::size_t i = 1; i < result.trace.size(); ++i)
    CHECK(result.trace[i].objective <= result.trace[i - 1].objective);
  options.tolerance = 0.5;
  CHECK(output_coding(test::pointers(problem.factors), problem.weights, options).trace.size() <
        result.trace.size());
}

TEST_CASE("More atoms than rows in all", "[geopair][output_coding]") {
  FactorizationOptions options;
  options.rank = 5;
  options.nonzeros = 2;
  options.iterations = 4;
  const std::vector<test::Matrix> one = {test::Matrix::Identity(2, 2)},
                                  weight = {test::random_matrix(2, 10, 6)};
  CHECK(output_coding(test::pointers(one), weight, options).objective < 1e-20);
  CHECK_THROWS_WITH(rotorlin::output_sharing(test::pointers(one), weight, 5),
                    Catch::Contains("expected 1 ... 2"));
}

TEST_CASE("With all nonzeros output coding finds the decomposition", "[geopair][output_coding]") {
  const OutputProblem problem;
  const rotorlin::SharedFactors exact =
      rotorlin::output_sharing(test::pointers(problem.factors), problem.weights, 4);
  FactorizationOptions options;
  options.rank = options.nonzeros = 4;
  options.iterations = 300;
  options.monotone = true;
  const double least = problem.objective(exact.dictionary, exact.coefficients);
  CHECK(output_coding(test::pointers(problem.factors), problem.weights, options).objective ==
        Approx(least).epsilon(1e-3));
}

TEST_CASE("Output coding refuses what does not fit", "[geopair][output_coding]") {
  const OutputProblem problem;
  FactorizationOptions options;
  options.rank = 3;
  CHECK_THROWS_AS(output_coding(test::pointers(problem.factors), problem.weights, options),
                  std::invalid_argument);
  options.nonzeros = 4;
  CHECK_THROWS_AS(output_coding(test::pointers(problem.factors), problem.weights, options),
                  std::invalid_argument);
  options.nonzeros = 2;
  CHECK_THROWS_AS(output_coding({}, {}, options), std::invalid_argument);
  CHECK_THROWS_AS(output_coding({&problem.factors[1], &problem.factors[0]}, problem.weights, options),
                  std::invalid_argument);
}
