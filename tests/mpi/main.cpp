// SPDX-License-Identifier: MIT
// mpirun -n 2 test_mpi: the result of several processes is that of one, and what one of them can't do all
// report. Exits with 0 where that is so.
#include <mpi.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "geopair/problems.hpp"
#include "rotorlin/geopair/compressor.hpp"
#include "rotorlin/geopair/mpi.hpp"

namespace {

using rotorlin::CompressionMethod;
using rotorlin::CompressorOptions;
using rotorlin::GeoPairCompressor;

GeoPairCompressor model() {
  GeoPairCompressor compressor;
  for (std::uint64_t i = 0; i < 5; ++i) {
    rotorlin::LayerOptions options;
    if (i == 3) options.bias = rotorlin::VectorX<float>::Ones(12);
    if (i == 4) options.side = rotorlin::DictionarySide::output;
    compressor.add_layer("layer." + std::to_string(i), test::random_matrix(12, 16, i),
                         test::random_gram(16, 10, 10 + i), options);
  }
  return compressor;
}

bool same(const rotorlin::CompressionResult& a, const rotorlin::CompressionResult& b) {
  bool equal = a.bytes == b.bytes && a.layers.size() == b.layers.size() && a.groups.size() == b.groups.size();
  for (std::size_t i = 0; equal && i < a.layers.size(); ++i) {
    equal = a.layers[i].name == b.layers[i].name && a.layers[i].layer.bias() == b.layers[i].layer.bias() &&
            a.layers[i].layer.to_dense() == b.layers[i].layer.to_dense() &&
            a.layer_reports[i].relative_error == b.layer_reports[i].relative_error;
  }
  for (std::size_t g = 0; equal && g < a.groups.size(); ++g) {
    equal = a.groups[g].members == b.groups[g].members && a.groups[g].objective == b.groups[g].objective &&
            a.groups[g].trace.size() == b.groups[g].trace.size();
  }
  return equal;
}

int check(int rank, int size) {
  int failures = 0;
  const auto expect = [&](bool condition, const std::string& what) {
    if (condition) return;
    std::printf("process %d: %s\n", rank, what.c_str());
    ++failures;
  };
  const GeoPairCompressor compressor = model();
  for (const CompressionMethod method :
       {CompressionMethod::svd_llm, CompressionMethod::geopair_dense, CompressionMethod::geopair_sparse}) {
    CompressorOptions options{.ratio = 0.3, .method = method, .identity_gauge = true};
    options.group_size = 2;
    options.iterations = 5;
    const auto together = rotorlin::compress(compressor, options, MPI_COMM_WORLD);
    expect(together.has_value() == (rank == 0), "process 0 alone has the result");
    if (together) expect(same(*together, compressor.compress(options)), "another result than one process");
  }
  GeoPairCompressor failing;
  const auto gram = failing.add_gram(test::random_gram(16, 10, 20));
  for (const char* name : {"a", "b", "c", "d"}) {
    failing.add_layer(
        name, 12, 16,
        [=]() -> rotorlin::Matrix<double> {
          if (rank == 1) throw std::runtime_error("the disk of process 1 is gone");
          return test::random_matrix(12, 16, 9);
        },
        gram);
  }
  try {
    (void)rotorlin::compress(failing, {.method = CompressionMethod::svd_llm}, MPI_COMM_WORLD);
    expect(size == 1, "every process learns that one failed");
  } catch (const std::runtime_error& error) {
    expect(std::string(error.what()).find("the disk") != std::string::npos, error.what());
  }
  try {
    (void)rotorlin::compress(GeoPairCompressor(), {}, MPI_COMM_WORLD);
    expect(false, "an empty compressor is refused");
  } catch (const std::runtime_error&) {
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1, all = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int failures = check(rank, size);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0 && all == 0) std::puts("all processes agree");
  return all == 0 ? 0 : 1;
}
