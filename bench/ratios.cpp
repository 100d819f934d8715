// SPDX-License-Identifier: MIT
// rotorlin_ratios: how many times faster than the dense layer that it replaces. See docs/performance.md.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "rotorlin/core/random.hpp"
#include "rotorlin/layers/rotor_linear.hpp"
#include "support/dense.hpp"
#include "support/machine.hpp"
#include "support/reference.hpp"
#include "support/timing.hpp"

namespace bench {
namespace {

using rotorlin::Matrix;
using rotorlin::RotorLinear;
using rotorlin::VectorX;
using Layer = RotorLinear<float>;

constexpr Index pool_size = Index{1} << 26;  // floats: 256 MB, what the cold rows walk through

struct Row {
  std::string name;
  PairTime time;
  double our_flops = 0;  ///< a call, of the kernel in use; 0 where nobody counted
  double other_flops = 0;
  double other_bytes = 0;  ///< read from memory a call; 0 where the caches hold them
};

struct Options {
  std::filesystem::path out = ".";
  std::string only;
  bool quick = false;
};

Matrix<float> random_matrix(Index rows, Index cols, std::uint64_t seed) {
  Matrix<float> matrix(rows, cols);
  rotorlin::Random(seed).fill_uniform(matrix, -1, 1);
  return matrix;
}

/// Flops a sample of a layer of one rotor pair: products (2 for multiply and add) and transforms.
double rotor_flops(const Layer& layer) {
  const int n = layer.dimension();
  const double size = static_cast<double>(Index{1} << n);
  switch (layer.kernel()) {
    case rotorlin::Kernel::shears:
      return 2 * size * n * (n - 1) / 4;
    case rotorlin::Kernel::spinor: {
      const rotorlin::SpinorBasis& basis = rotorlin::spinor_basis(n);
      const double products = 4 * size * static_cast<double>(basis.real_order());
      return products + 2 * size * std::log2(static_cast<double>(basis.length()));
    }
    default:
      return size * size;  // two blocks of half the order
  }
}

class Ratios {
 public:
  explicit Ratios(Options options)
      : options_(std::move(options)),
        effort_{options_.quick ? 7 : 9, options_.quick ? 0.002 : 0.008},
        pool_(pool_size),
        peak_(peak_gflops()) {
    rotorlin::Random random(1);
    for (Index i = 0; i < pool_size; ++i) pool_[i] = static_cast<float>(random.uniform(-1, 1)) / 32;
    bandwidth_ = memory_gbytes(pool_);
  }

  void run() {
    std::cout << machine_description(peak_, bandwidth_) << '\n';
    std::printf("| case | ours, us | other, us | ratio | ours, GF/s (of peak) | other, GF/s (of peak) | other, GB/s |\n");
    std::printf("|---|---|---|---|---|---|---|\n");
    for (const bool single : {false, true}) {
      for (int n = 12; n >= 6; --n) {
        for (const Index batch : {1, 16, 256}) forward_rows(n, batch, single);
      }
    }
    write_csv();
  }

 private:
  bool wanted(const std::string& name) const {
    return options_.only.empty() || name.find(options_.only) != std::string::npos;
  }

  /// The layer against dense layers of both libraries, the weights warm and cold.
  void forward_rows(int n, Index batch, bool single) {
    const std::string base =
        (single ? "single_n" : "double_n") + std::to_string(n) + "_b" + std::to_string(batch);
    const Index size = Index{1} << n;
    for (const bool cold : {false, true}) {
      for (const Library library : {best_library, Library::eigen}) {
        const std::string name =
            base + (cold ? "_cold" : "") + (library == best_library ? "" : "_eigen");
        if (!wanted(name)) continue;
        const Index dense_count = cold ? std::max<Index>(1, pool_size / (size * size)) : 1;
        const Index count = cold ? 16 : 1;
        std::vector<Layer> layers;
        for (Index i = 0; i < count; ++i) {
          rotorlin::RotorLinearOptions options;
          options.single_rotor = single;
          options.bias = false;
          options.seed = static_cast<std::uint64_t>(i);
          layers.emplace_back(size, size, options);
        }
        const Matrix<float> x = random_matrix(size, batch, 2);
        Matrix<float> y(size, batch);
        Layer::Workspace workspace;
        check(name, layers[0], x);
        const auto ours = [&](std::size_t i) {
          layers[i % layers.size()].forward(x, y, workspace);
          keep(y.data());
        };
        Matrix<float> dense_y(size, batch);
        const auto dense = [&](bool by_rows) {
          return [&, by_rows](std::size_t i) {
            const Index matrix = static_cast<Index>(i) % dense_count;
            Dense{library, by_rows}.forward(pool_.data() + matrix * size * size, x, dense_y);
            keep(dense_y.data());
          };
        };
        Repeated columns(dense(false), effort_.min_seconds);
        Repeated rows(dense(true), effort_.min_seconds);
        double by_columns = 1e30, by_rows = 1e30;
        for (int i = 0; i < 3; ++i) {
          by_columns = std::min(by_columns, columns.microseconds());
          by_rows = std::min(by_rows, rows.microseconds());
        }
        Row row{name, measure_pair(effort_, ours, dense(by_rows < by_columns)),
                rotor_flops(layers[0]) * static_cast<double>(batch),
                2.0 * static_cast<double>(size * size * batch),
                cold ? 4.0 * static_cast<double>(size * size) : 0};
        add(row);
      }
    }
  }

  void check(const std::string& name, const Layer& layer, const Matrix<float>& x) const {
    const Matrix<float> y = layer.forward(x);
    const Vector left = layer.bivectors_left().col(0).cast<double>();
    const Vector right = layer.options().single_rotor ? left : Vector(layer.bivectors_right().col(0).cast<double>());
    const Index column = x.cols() - 1;
    demand_close(name, y.col(column),
                 direct_sandwich(layer.dimension(), left, right, x.col(column).cast<double>()));
  }

  void add(const Row& row) {
    const auto rate = [&](double flops, double us) {
      char text[64] = "";
      if (flops > 0) std::snprintf(text, sizeof text, "%.1f (%.0f %%)", flops / us * 1e-3, flops / us * 1e-1 / peak_);
      return std::string(text);
    };
    char bytes[32] = "";
    if (row.other_bytes > 0) std::snprintf(bytes, sizeof bytes, "%.1f", row.other_bytes / row.time.other_us * 1e-3);
    std::printf("| %s | %.2f | %.2f | %.2f | %s | %s | %s |\n", row.name.c_str(), row.time.ours_us, row.time.other_us,
                row.time.ratio, rate(row.our_flops, row.time.ours_us).c_str(),
                rate(row.other_flops, row.time.other_us).c_str(), bytes);
    std::fflush(stdout);
    rows_.push_back(row);
  }

  void write_csv() const {
    std::filesystem::create_directories(options_.out);
    std::ofstream csv(options_.out / "ratios.csv");
    csv << "case,ours_us,other_us,ratio\n";
    for (const Row& row : rows_) {
      csv << row.name << ',' << row.time.ours_us << ',' << row.time.other_us << ',' << row.time.ratio << '\n';
    }
  }

  Options options_;
  Effort effort_;
  VectorX<float> pool_;
  double peak_;
  double bandwidth_ = 0;
  std::vector<Row> rows_;
};

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--out" && i + 1 < argc) {
      options.out = argv[++i];
    } else if (argument == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else {
      std::fprintf(stderr, "usage: rotorlin_ratios [--out DIR] [--quick] [--only CASE]\n");
      return 2;
    }
  }
  bench::one_thread();
  bench::Ratios(options).run();
}
