// SPDX-License-Identifier: MIT
#include "grams.hpp"

#include <algorithm>
#include <utility>

#include "common/progress.hpp"
#include "rotorlin/linalg/products.hpp"

namespace examples {

GramFiles gather(const Checkpoint& checkpoint, Spool& spool) {
  std::map<std::string, Index> features;
  for (const Slot& slot : checkpoint.slots()) features[slot.reads] = slot.in;
  Progress progress("Gram matrices");
  GramFiles grams;
  checkpoint.for_each_gram(
      [&](const std::string& reads, Matrix<double> gram) {
        if (gram.size() == 0 || (gram.array() == 0).all()) {
          gram.setIdentity(features.at(reads), features.at(reads));
          grams.unseen.insert(reads);
        }
        rotorlin::SafetensorsWriter writer;
        writer.add("gram", gram);
        grams.files[reads] = spool.keep(writer);
      },
      [&](double fraction) { progress.update(fraction, ""); });
  progress.finish(format("%zu of them", grams.files.size()));
  return grams;
}

double output_energy(const Matrix<double>& m, const Matrix<double>& gram) {
  return std::max(0.0, rotorlin::linalg::product<double>(m, gram).cwiseProduct(m).sum());
}

}  // namespace examples
