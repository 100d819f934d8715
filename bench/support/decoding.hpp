// SPDX-License-Identifier: MIT
/// \file
/// One token through the q, k and v of many layers that share a dictionary, against the dense layers: the
/// dictionary stays in the cache, coefficients and dense weights come from memory.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "rotorlin/core/random.hpp"
#include "rotorlin/geopair/accounting.hpp"
#include "rotorlin/layers/shared_dictionary_group.hpp"
#include "support/dense.hpp"
#include "support/timing.hpp"

namespace bench {

/// Of this thread, in seconds.
inline double thread_seconds(const std::function<void()>& body) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  body();
  return now() - start;
}

/// q, k and v, d x d each, of as many layers, on one dictionary of the input side.
class SharedDecoder {
 public:
  using Layer = rotorlin::SharedDictionaryLinear<float>;
  using Group = rotorlin::SharedDictionaryGroup<float>;

  SharedDecoder(Index d, Index layers, double ratio, bool sparse) {
    const Index columns = 3 * layers * d;
    const rotorlin::DictionarySize size =
        sparse ? rotorlin::sparse_size(d, columns, ratio)
               : rotorlin::DictionarySize{rotorlin::dense_rank(d, columns, ratio, true), 0};
    std::vector<Index> rows(sparse ? 0 : static_cast<std::size_t>(size.rank));
    std::iota(rows.begin(), rows.end(), Index{0});
    const auto dictionary = std::make_shared<const rotorlin::SharedDictionary<float>>(
        random(sparse ? d : d - size.rank, size.rank, 1), rows);
    for (std::uint64_t i = 0; i < 3; ++i) {
      rotorlin::Matrix<float> c = random(size.rank, d, 2 + i);
      if (sparse) keep_some(c, size.nonzeros, 5 + i);
      kinds_.push_back({dictionary, c,
                        sparse ? rotorlin::CoefficientStorage::sparse : rotorlin::CoefficientStorage::dense});
    }
    layers_.reserve(static_cast<std::size_t>(3 * layers));
    for (Index l = 0; l < layers; ++l) {
      for (const Layer& kind : kinds_) layers_.push_back(kind);
      const Layer* first = layers_.data() + 3 * l;
      groups_.push_back(Group({first, first + 1, first + 2}));
    }
    mb_of_dictionary_ = 4e-6 * static_cast<double>(dictionary->stored().size());
    const Layer& kind = kinds_[0];
    const double mask = sparse ? static_cast<double>(kind.pattern().rows) / 8 * static_cast<double>(d) : 0;
    mb_of_coefficients_ =
        3e-6 * static_cast<double>(layers) * (4 * static_cast<double>(kind.nonzeros()) + mask);
  }

  /// One token: x (d) on its way, replaced by what the last q makes of it.
  void together(rotorlin::Matrix<float>& x) {
    prepare(x);
    std::array<rotorlin::MatrixRef<float>, 3> outputs = {y_[0], y_[1], y_[2]};
    for (const Group& group : groups_) {
      group.forward(x, outputs, workspace_);
      x = y_[0] / y_[0].norm();
    }
  }
  void one_by_one(rotorlin::Matrix<float>& x) {
    prepare(x);
    for (std::size_t l = 0; l < layers_.size(); l += 3) {
      for (std::size_t i = 0; i < 3; ++i) layers_[l + i].forward(x, y_[i], workspace_);
      x = y_[0] / y_[0].norm();
    }
  }
  Index rank() const { return kinds_[0].rank(); }
  double mb_of_dictionary() const { return mb_of_dictionary_; }
  double mb_of_coefficients() const { return mb_of_coefficients_; }

  static rotorlin::Matrix<float> random(Index rows, Index cols, std::uint64_t seed) {
    rotorlin::Matrix<float> m(rows, cols);
    rotorlin::Random(seed).fill_uniform(m, -1, 1);
    return m;
  }

 private:
  void prepare(const rotorlin::Matrix<float>& x) {
    for (auto& y : y_) y.resize(x.rows(), 1);
  }
  /// In each column `count` entries anywhere, all others zero.
  static void keep_some(rotorlin::Matrix<float>& c, Index count, std::uint64_t seed) {
    rotorlin::Random random(seed);
    for (Index j = 0; j < c.cols(); ++j) {
      Index left = count;
      for (Index i = 0; i < c.rows(); ++i) {
        if (random.uniform() * static_cast<double>(c.rows() - i) < static_cast<double>(left)) {
          --left;
        } else {
          c(i, j) = 0;
        }
      }
    }
  }

  std::vector<Layer> kinds_, layers_;
  std::vector<Group> groups_;
  Group::Workspace workspace_;
  std::array<rotorlin::Matrix<float>, 3> y_;
  double mb_of_dictionary_, mb_of_coefficients_;
};

/// The dense rival: as many matrices of d x d.
class DenseDecoder {
 public:
  DenseDecoder(Index d, Index layers) {
    const rotorlin::Matrix<float> weight = SharedDecoder::random(d, d, 9);
    weights_.assign(static_cast<std::size_t>(3 * layers), weight);
  }
  void run(Library library, bool by_rows, rotorlin::Matrix<float>& x) {
    for (auto& y : y_) y.resize(x.rows(), 1);
    for (std::size_t l = 0; l < weights_.size(); l += 3) {
      for (std::size_t i = 0; i < 3; ++i) dense_forward(library, by_rows, weights_[l + i].data(), x, y_[i]);
      x = y_[0] / y_[0].norm();
    }
  }

 private:
  std::vector<rotorlin::Matrix<float>> weights_;
  std::array<rotorlin::Matrix<float>, 3> y_;
};

/// A table of tokens a second, one thread; at most 4 GB for d = 2048 and 22 layers.
inline void decoding(Index d, Index layers, int rounds = 9) {
  DenseDecoder dense(d, layers);
  struct Rival {
    const char* name;
    Library library;
    bool by_rows;
  };
  std::vector<Rival> rivals = {{"Eigen, by rows", Library::eigen, true},
                               {"Eigen, by columns", Library::eigen, false}};
  if (have_openblas) {
    rivals.push_back({"OpenBLAS, by rows", Library::openblas, true});
    rivals.push_back({"OpenBLAS, by columns", Library::openblas, false});
  }
  std::printf(
      "A token through q, k and v of %ld layers of %ld x %ld, float, batch 1, %.0f MB of dense weights; "
      "tokens a "
      "second of the thread's own time. \"Over the best dense\": medians of %d rounds in turn.\n\n",
      static_cast<long>(layers), static_cast<long>(d), static_cast<long>(d),
      12e-6 * static_cast<double>(layers) * static_cast<double>(d) * static_cast<double>(d), rounds);
  std::puts(
      "| removed | coefficients | rank | dictionary, MB | coefficients, MB | best dense | dense, tokens/s | "
      "one by "
      "one, tokens/s | group, tokens/s | one by one over the best dense | group over the best dense |");
  std::puts("|--:|---|--:|--:|--:|---|--:|--:|--:|--:|--:|");
  rotorlin::Matrix<float> x = SharedDecoder::random(d, 1, 4);
  for (const bool sparse : {false, true}) {
    for (const double ratio : {0.3, 0.5}) {
      SharedDecoder ours(d, layers, ratio, sparse);
      std::vector<double> singles, groups, over_single, over_group, best;
      std::vector<std::vector<double>> theirs(rivals.size());
      for (int round = -1; round < rounds; ++round) {  // one round to touch everything
        const double single = thread_seconds([&] { ours.one_by_one(x); });
        const double group = thread_seconds([&] { ours.together(x); });
        double fastest = 1e300;
        std::vector<double> times;
        for (const Rival& rival : rivals) {
          times.push_back(thread_seconds([&] { dense.run(rival.library, rival.by_rows, x); }));
          fastest = std::min(fastest, times.back());
        }
        if (round < 0) continue;
        singles.push_back(single);
        groups.push_back(group);
        best.push_back(fastest);
        for (std::size_t i = 0; i < rivals.size(); ++i) theirs[i].push_back(times[i]);
        over_single.push_back(fastest / single);
        over_group.push_back(fastest / group);
      }
      std::size_t fastest = 0;
      for (std::size_t i = 1; i < rivals.size(); ++i) {
        if (median(theirs[i]) < median(theirs[fastest])) fastest = i;
      }
      keep(x.data());
      std::printf("| %.0f %% | %s | %ld | %.1f | %.0f | %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n",
                  100 * ratio, sparse ? "sparse" : "dense, identity rows", static_cast<long>(ours.rank()),
                  ours.mb_of_dictionary(), ours.mb_of_coefficients(), rivals[fastest].name, 1 / median(best),
                  1 / median(singles), 1 / median(groups), median(over_single), median(over_group));
      std::fflush(stdout);
    }
  }
}

}  // namespace bench
