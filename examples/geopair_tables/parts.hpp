// SPDX-License-Identifier: MIT
// The tables and plots of this program. Each prints its table, writes it as CSV, and plots where there is a
// curve; files begin with the name of the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/table.hpp"
#include "study.hpp"

namespace examples {

/// The published methods and ours, each as good as it could be made on the validation stream.
std::vector<std::string> method_names();
/// \throws std::invalid_argument for another name.
Recipe recipe(const Setup& setup, const std::string& method, double ratio);

/// Every method at every ratio: geopair.csv, in which rows of other models and methods stay as they are.
void compare_methods(Study& study, const std::vector<std::string>& methods,
                     const std::vector<double>& ratios);
/// What each idea contributes, added one after another.
void ablate(Study& study, double ratio);
/// Atoms a nonzero, ridge, calibration tokens, iterations, layers in a group.
void sweep_ks(Study& study, double ratio);
void sweep_eta(Study& study, double ratio);
void sweep_tokens(Study& study, double ratio);
void sweep_iterations(Study& study, double ratio);
void sweep_group_size(Study& study, double ratio);
/// The objective after every iteration.
void show_convergence(Study& study, double ratio);
/// Who shares with whom, by each measure.
void show_pairs(Study& study, double ratio);
/// What an error costs, by type and layer.
void show_damages(Study& study);

/// Cross-entropy against bytes, of weights that are only rounded and of dictionaries in few bits.
void compare_storage(Study& study, const std::vector<double>& ratios);

/// Runs recipes one after another with a line of progress for each, and makes a table of what came of them.
class Rows {
 public:
  Rows(Study& study, std::size_t count) : study_(study), count_(count) {}

  /// `label` stands in the first column; `x` is what is swept over, NaN where nothing is.
  const Outcome& add(const std::string& label, double x, const Recipe& recipe);

  struct Row {
    std::string label;
    double x;
    Recipe recipe;
    Outcome outcome;
  };
  const std::vector<Row>& rows() const { return rows_; }

  /// Prints the table and writes NAME.csv; `first` is the title of the first column.
  void finish(const std::string& name, const std::string& title, const std::string& first) const;
  /// Plots the cross-entropies over x as NAME.svg.
  void plot(const std::string& name, const std::string& title, const std::string& x_label,
            bool logarithmic) const;

 private:
  Study& study_;
  std::size_t count_;
  std::vector<Row> rows_;
  double seconds_ = 0;
};

}  // namespace examples
