// SPDX-License-Identifier: MIT
// Gram matrices on the disk.
#pragma once

#include <map>
#include <set>
#include <string>

#include "checkpoint.hpp"
#include "spool.hpp"

namespace examples {

struct GramFiles {
  std::map<std::string, Spool::File> files;  ///< by what is read, each with a tensor "gram"
  std::set<std::string>
      unseen;  ///< what had no samples, or none but zeros: the identity, the metric of plain SVD
};

/// All that a checkpoint reads, with a line of progress.
GramFiles gather(const Checkpoint& checkpoint, Spool& spool);

/// E |m x|^2.
double output_energy(const Matrix<double>& m, const Matrix<double>& gram);

}  // namespace examples
