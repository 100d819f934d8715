// SPDX-License-Identifier: MIT
// bench_geopair [--only PART] [--sizes 512,1024,2048]: what the compression through shared dictionaries
// costs, on one thread, as tables. Parts:
//   stages   every step of a pair (d inputs, d outputs, ratio 0.3) and its share of the speed of a product
//   pair     a dense pair at the largest size, 30 iterations
//   shapes   dense pairs of a TinyLlama's shapes, the largest size its number of features
//   model    the same in a checkpoint of two layers, dense and sparse (6 iterations), with the memory it
//   takes:
//            alone, since that is the peak of the process
//   blossom  an optimal matching of 448 layers
//   dstep    the dictionary step against a Kronecker solve and against conjugate gradients
//   forward  SharedDictionaryLinear against the dense layer
//   decoding one token through q, k and v of 22 layers on one dictionary, at the largest size: up to 4 GB
#include <sys/resource.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/LU>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "rotorlin/core/random.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/geopair/compressor.hpp"
#include "rotorlin/geopair/matching.hpp"
#include "rotorlin/geopair/shared_factorization.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"
#include "rotorlin/linalg/whitening.hpp"
#include "support/decoding.hpp"
#include "support/dense.hpp"
#include "support/machine.hpp"
#include "support/timing.hpp"

namespace {

using rotorlin::Index;
using Matrix = rotorlin::Matrix<double>;

template <class S>
rotorlin::Matrix<S> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  rotorlin::Matrix<S> m(rows, cols);
  rotorlin::Random(seed).fill_uniform(m, -1, 1);
  return m;
}

/// Of the processor, which other programs may share: everything here runs on one thread.
double seconds_of(const std::function<void()>& body) {
  const std::clock_t start = std::clock();
  body();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// Second moments of as many random samples as features, with a falling spectrum.
Matrix gram_of(Index d, std::uint64_t seed) {
  Matrix x = random_matrix<double>(d, 2 * d, seed);
  for (Index i = 0; i < d; ++i) x.row(i) /= std::sqrt(1.0 + static_cast<double>(i));
  Matrix gram = Matrix::Zero(d, d);
  gram.selfadjointView<Eigen::Lower>().rankUpdate(x, 0.5 / static_cast<double>(d));
  gram.triangularView<Eigen::StrictlyUpper>() = gram.transpose();
  return gram;
}

/// Two layers of d inputs and n outputs (none given: d).
rotorlin::LayerGroup pair_of(Index d, Index n = 0) {
  rotorlin::LayerGroup group(d);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Matrix weight = random_matrix<double>(n > 0 ? n : d, d, 10 + i);
    group.add_layer(weight, group.add_gram(rotorlin::whiten(gram_of(d, 20 + i)).factor),
                    1 / weight.squaredNorm());
  }
  return group;
}

/// GF/s of a product of d x d matrices.
double product_speed(Index d) {
  const Matrix a = random_matrix<double>(d, d, 1), b = random_matrix<double>(d, d, 2);
  Matrix c(d, d);
  double best = 1e300;
  for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of([&] { c.noalias() = a * b; }));
  bench::keep(c.data());
  return 2e-9 * static_cast<double>(d) * static_cast<double>(d) * static_cast<double>(d) / best;
}

void stages(const std::vector<Index>& sizes) {
  std::puts("| d | r | k | stage | seconds | GF | share of a product's speed |");
  std::puts("|--:|--:|--:|---|--:|--:|--:|");
  for (const Index size : sizes) {
    const Index rank = rotorlin::dense_rank(size, 2 * size, 0.3);
    const rotorlin::DictionarySize sparse = rotorlin::sparse_size(size, 2 * size, 0.3);
    const double speed = product_speed(size), d = static_cast<double>(size), r = static_cast<double>(rank),
                 n = 2 * d, a = static_cast<double>(sparse.rank);
    const auto row = [&](const char* stage, double flops, const std::function<void()>& body) {
      const double seconds = seconds_of(body);
      std::printf("| %ld | %ld | %ld | %s | %.3f | %.1f | %.0f %% |\n", static_cast<long>(size),
                  static_cast<long>(rank), static_cast<long>(sparse.nonzeros), stage, seconds, 1e-9 * flops,
                  100e-9 * flops / seconds / speed);
      std::fflush(stdout);
    };
    std::printf("| %ld | | | product of d x d | %.3f | %.1f | 100 %% |\n", static_cast<long>(size),
                2e-9 * d * d * d / speed, 2e-9 * d * d * d);
    const Matrix gram = gram_of(size, 20);
    row("whitening of one layer", d * d * d / 3, [&] { (void)rotorlin::whiten(gram); });
    const rotorlin::LayerGroup group = pair_of(size);
    Matrix dictionary;
    row("start (Basis Sharing)", d * d * (n + 9 * d), [&] {
      dictionary = rotorlin::basis_sharing(group, rank, rotorlin::MeanWhitening::normalized).dictionary;
    });
    std::unique_ptr<rotorlin::DictionaryStep> step;
    row("pencil of the Gram matrices", 27 * d * d * d,
        [&] { step = std::make_unique<rotorlin::DictionaryStep>(group); });
    std::vector<Matrix> coefficients;
    row("coefficients, dense", 2 * (2 * d * r * r + 4 * d * r * d), [&] {
      for (const auto& term : group.terms()) {
        coefficients.push_back(rotorlin::LeastSquares(term.factor.triangularView<Eigen::Upper>() * dictionary)
                                   .solve(term.whitened));
      }
    });
    std::vector<Matrix> residuals;
    row("residuals", 2 * (d * d * r + 2 * d * r * d),
        [&] { residuals = group.residuals(dictionary, coefficients); });
    row("dictionary",
        2 * (2 * d * r * d + d * d * r) + 27 * r * r * r + 4 * d * d * r + 4 * d * r * r + 2 * 2 * n * r * r,
        [&] { dictionary += step->correction(coefficients, residuals); });

    Matrix atoms =
        rotorlin::basis_sharing(group, sparse.rank, rotorlin::MeanWhitening::normalized).dictionary;
    std::vector<Matrix> codes;
    row("coefficients, sparse, from nothing", 2 * (2 * d * a * a + 2 * d * a * d), [&] {
      for (const auto& term : group.terms()) {
        const Matrix seen = term.factor.triangularView<Eigen::Upper>() * atoms;
        rotorlin::PursuitOptions options;
        options.nonzeros = sparse.nonzeros;
        codes.push_back(rotorlin::hard_thresholding_pursuit(seen.transpose() * seen,
                                                            seen.transpose() * term.whitened,
                                                            term.whitened.colwise().squaredNorm(), options)
                            .coefficients);
      }
    });
    residuals = group.residuals(atoms, codes);
    row("K-SVD sweep", 12 * d * d * a + 8 * d * n * a,
        [&] { rotorlin::ksvd_sweep(group, *step, atoms, codes, residuals); });
  }
}

void pair(Index d) {
  const rotorlin::LayerGroup group = pair_of(d);
  rotorlin::FactorizationOptions options;
  options.rank = rotorlin::dense_rank(d, 2 * d, 0.3);
  double objective = 0;
  const double seconds = seconds_of([&] { objective = rotorlin::factorize(group, options).objective; });
  std::printf("a dense pair, d = n = %ld, ratio 0.3, rank %ld, 30 iterations: %.1f s (objective %.6g)\n",
              static_cast<long>(d), static_cast<long>(options.rank), seconds, objective);
}

/// Pairs of the shapes of a TinyLlama with `d` features (2048), as compress_checkpoint has them; down at half
/// its size, since its 5632 inputs take eight times as long.
void shapes(Index d) {
  std::puts(
      "| layers | inputs | outputs | rank | whitening, start and pencil, s | an iteration, s | 10 "
      "iterations, s |");
  std::puts("|---|--:|--:|--:|--:|--:|--:|");
  const Index hidden = d * 11 / 4;
  const struct {
    const char* name;
    Index in, out;
  } all[] = {
      {"k or v", d, d / 8}, {"q or o", d, d}, {"gate or up", d, hidden}, {"down, halved", hidden / 2, d / 2}};
  for (const auto& shape : all) {
    rotorlin::FactorizationOptions options;
    options.rank = rotorlin::dense_rank(shape.in, 2 * shape.out, 0.3, true);
    std::unique_ptr<rotorlin::LayerGroup> group;
    const double whitening =
        seconds_of([&] { group = std::make_unique<rotorlin::LayerGroup>(pair_of(shape.in, shape.out)); });
    const auto run = [&](int iterations) {
      options.iterations = iterations;
      options.tolerance = 0;
      return seconds_of([&] { (void)rotorlin::factorize(*group, options); });
    };
    const double one = run(1), three = run(3), each = (three - one) / 2;
    std::printf("| %s | %ld | %ld | %ld | %.1f | %.1f | %.1f |\n", shape.name, static_cast<long>(shape.in),
                static_cast<long>(shape.out), static_cast<long>(options.rank), whitening + one - each, each,
                whitening + one + 9 * each);
    std::fflush(stdout);
  }
}

/// Peak resident memory of this process.
double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void model(Index d) {
  using rotorlin::CompressionMethod;
  rotorlin::GeoPairCompressor compressor;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto gram = compressor.add_gram(d, [=] { return gram_of(d, 20 + i); });
    compressor.add_layer(
        "layers." + std::to_string(i) + ".q", d, d, [=] { return random_matrix<double>(d, d, 10 + i); },
        gram);
  }
  std::printf("Gram matrices and weights in double: %.0f MB; before the start: %.0f MB\n",
              4 * 8e-6 * static_cast<double>(d * d), peak_mb());
  for (const bool sparse : {false, true}) {
    rotorlin::CompressorOptions options;
    options.ratio = 0.3;
    options.method = sparse ? CompressionMethod::geopair_sparse : CompressionMethod::geopair_dense;
    options.iterations = sparse ? 6 : 30;
    options.pairing = rotorlin::Pairing::adjacent;
    options.group_size = 2;
    double bytes = 0;
    const double seconds = seconds_of([&] { bytes = compressor.compress(options).bytes; });
    std::printf(
        "two layers of %ld x %ld, %s, %d iterations: %.1f s, %.1f MB left, peak memory so far %.0f MB\n",
        static_cast<long>(d), static_cast<long>(d), sparse ? "sparse" : "dense", options.iterations, seconds,
        1e-6 * bytes, peak_mb());
    std::fflush(stdout);
  }
}

void blossom() {
  Matrix cost = random_matrix<double>(448, 448, 3);
  cost = (cost + cost.transpose()).eval();
  std::size_t pairs = 0;
  const double seconds = seconds_of([&] { pairs = rotorlin::minimum_cost_matching(cost).size(); });
  std::printf("an optimal matching of 448 layers: %.3f s (%zu pairs)\n", seconds, pairs);
}

/// Solves the normal equations of the dictionary step as one system of d r unknowns.
Matrix kronecker_solve(const rotorlin::LayerGroup& group, const std::vector<Matrix>& c, const Matrix& s) {
  const Index d = s.rows(), r = s.cols();
  Matrix system = Matrix::Zero(d * r, d * r);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const Matrix g = group.terms()[i].factor.transpose() * group.terms()[i].factor,
                 b = c[i] * c[i].transpose();
    for (Index q = 0; q < r; ++q) {
      for (Index p = 0; p < r; ++p) system.block(p * d, q * d, d, d) += b(p, q) * g;
    }
  }
  const rotorlin::VectorX<double> x =
      Eigen::LLT<Matrix>(system).solve(Eigen::Map<const rotorlin::VectorX<double>>(s.data(), s.size()));
  return Eigen::Map<const Matrix>(x.data(), d, r);
}

void dictionary_step(const std::vector<Index>& sizes) {
  std::puts(
      "| d | r | closed form, s | its pencil, s | conjugate gradients to 1e-12, s | steps | Kronecker, s | "
      "largest difference |");
  std::puts("|--:|--:|--:|--:|--:|--:|--:|--:|");
  std::vector<Index> all = {16, 32, 48};
  all.insert(all.end(), sizes.begin(), sizes.end());
  for (const Index d : all) {
    const rotorlin::LayerGroup group = pair_of(d);
    const Index r = rotorlin::dense_rank(d, 2 * d, 0.3);
    const std::vector<Matrix> c = {random_matrix<double>(r, d, 4), random_matrix<double>(r, d, 5)};
    const Matrix zero = Matrix::Zero(d, r);
    const std::vector<Matrix> residuals = group.residuals(zero, c);
    Matrix closed, iterated, s = zero;
    std::unique_ptr<rotorlin::DictionaryStep> step;
    const double pencil = seconds_of([&] { step = std::make_unique<rotorlin::DictionaryStep>(group); });
    const double closed_seconds = seconds_of([&] { closed = step->correction(c, residuals); });
    std::vector<const Matrix*> factors;
    for (std::size_t i = 0; i < 2; ++i) {
      factors.push_back(&group.terms()[i].factor);
      s += factors[i]->transpose() * (residuals[i] * c[i].transpose());
    }
    rotorlin::SylvesterProgress progress;
    const double gradient_seconds = seconds_of([&] {
      iterated = rotorlin::SylvesterConjugateGradients(factors).solve(c, s, 200, 1e-12, &progress);
    });
    double difference = (closed - iterated).norm() / closed.norm();
    std::string kronecker = "";
    if (d * r <= 2000) {
      Matrix direct;
      const double seconds = seconds_of([&] { direct = kronecker_solve(group, c, s); });
      difference = std::max(difference, (closed - direct).norm() / closed.norm());
      char text[32];
      std::snprintf(text, sizeof text, "%.4f", seconds);
      kronecker = text;
    }
    std::printf("| %ld | %ld | %.4f | %.4f | %.4f | %d | %s | %.1e |\n", static_cast<long>(d),
                static_cast<long>(r), closed_seconds, pencil, gradient_seconds, progress.steps,
                kronecker.c_str(), difference);
    std::fflush(stdout);
  }
}

/// A pair's layer at a ratio, with random numbers in it.
rotorlin::SharedDictionaryLinear<float> shared_layer(Index d, double ratio, bool sparse, bool identity) {
  using rotorlin::SharedDictionary;
  const Index n = 2 * d;
  const rotorlin::DictionarySize size =
      sparse ? rotorlin::sparse_size(d, n, ratio)
             : rotorlin::DictionarySize{rotorlin::dense_rank(d, n, ratio, identity), 0};
  std::vector<Index> rows(identity ? static_cast<std::size_t>(size.rank) : 0);
  std::iota(rows.begin(), rows.end(), Index{0});
  rotorlin::Random(7).shuffle(rows);
  const auto dictionary = std::make_shared<const SharedDictionary<float>>(
      random_matrix<float>(identity ? d - size.rank : d, size.rank, 6), rows);
  rotorlin::Matrix<float> c = random_matrix<float>(size.rank, d, 8);
  if (sparse) {
    std::vector<Index> order(static_cast<std::size_t>(size.rank));
    std::iota(order.begin(), order.end(), Index{0});
    rotorlin::Random random(9);
    for (Index j = 0; j < d; ++j) {
      random.shuffle(order);
      for (std::size_t i = static_cast<std::size_t>(size.nonzeros); i < order.size(); ++i) c(order[i], j) = 0;
    }
  }
  return {dictionary, c, sparse ? rotorlin::CoefficientStorage::sparse : rotorlin::CoefficientStorage::dense};
}

void forward(const std::vector<Index>& sizes) {
  std::puts(
      "| d | ratio | coefficients | batch | ours, us a sample | dense, us a sample | dense over ours | MB "
      "read | "
      "dense MB |");
  std::puts("|--:|--:|---|--:|--:|--:|--:|--:|--:|");
  for (const Index d : sizes) {
    const rotorlin::Matrix<float> weight = random_matrix<float>(d, d, 1);
    for (const double ratio : {0.3, 0.5}) {
      for (const char* kind : {"dense", "dense, identity", "sparse"}) {
        const auto layer = shared_layer(d, ratio, kind[0] == 's', kind[5] == ',');
        const double read =
            4e-6 * static_cast<double>(layer.nonzeros() + layer.dictionary()->stored().size()) +
            4e-6 * static_cast<double>(layer.pattern().nonzeros());
        for (const Index batch : {Index{1}, Index{16}, Index{256}}) {
          const rotorlin::Matrix<float> x = random_matrix<float>(d, batch, 2);
          rotorlin::Matrix<float> y(d, batch), z(d, batch);
          rotorlin::SharedDictionaryLinear<float>::Workspace workspace;
          const bench::PairTime time = bench::measure_pair(
              {5, 0.05},
              [&](std::size_t) {
                layer.forward(x, y, workspace);
                bench::keep(y.data());
              },
              [&](std::size_t) {
                bench::dense_forward(bench::best_library, false, weight.data(), x, z);
                bench::keep(z.data());
              });
          std::printf("| %ld | %.1f | %s | %ld | %.2f | %.2f | %.2f | %.1f | %.1f |\n", static_cast<long>(d),
                      ratio, kind, static_cast<long>(batch), time.ours_us / static_cast<double>(batch),
                      time.other_us / static_cast<double>(batch), time.ratio, read,
                      4e-6 * static_cast<double>(d * d));
          std::fflush(stdout);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string only;
  std::vector<Index> sizes = {512, 1024, 2048};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--only") only = argv[i + 1];
    if (name == "--sizes") {
      sizes.clear();
      for (char* at = argv[i + 1]; *at != 0; at += *at == ',') sizes.push_back(std::strtol(at, &at, 10));
    }
  }
  if (argc % 2 == 0 || sizes.empty() ||
      std::any_of(sizes.begin(), sizes.end(), [](Index d) { return d < 2; })) {
    std::fprintf(stderr,
                 "usage: bench_geopair [--only stages|pair|shapes|model|blossom|dstep|forward|decoding] "
                 " [--sizes D,D,...]\n");
    return 2;
  }
  bench::one_thread();
#if defined(EIGEN_USE_BLAS)
  const char* library = "BLAS and LAPACKE";
#else
  const char* library = "Eigen alone";
#endif
  std::printf("%s, %s, %s; %s; one thread\n\n", bench::processor().c_str(), bench::compiler().c_str(),
              ROTORLIN_BENCH_FLAGS, library);
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  if (wanted("blossom")) blossom();
  if (wanted("pair")) pair(sizes.back());
  if (wanted("shapes")) shapes(sizes.back());
  if (wanted("model")) model(sizes.back());
  if (wanted("dstep")) dictionary_step(sizes);
  if (wanted("stages")) stages(sizes);
  if (wanted("forward")) forward(sizes);
  if (wanted("decoding")) {
    std::printf("%s\n", bench::blas_description().c_str());
    bench::decoding(sizes.back(), 22);
  }
}
