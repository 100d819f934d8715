// SPDX-License-Identifier: MIT
/// \file
/// A table that is printed in aligned columns and written as CSV: each cell has a text for the reader and,
/// where that differs, a plain value for programs.
#pragma once

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/output.hpp"

namespace examples {

/// printf into a string: format("%.3f", x).
template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  const int size = std::snprintf(nullptr, 0, pattern, arguments...);
  std::string text(static_cast<std::size_t>(std::max(size, 0)) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  text.pop_back();
  return text;
}

/// 262144 -> "262,144".
inline std::string with_commas(long long number) {
  std::string text = std::to_string(number);
  for (auto i = static_cast<int>(text.size()) - 3; i > (number < 0 ? 1 : 0); i -= 3) {
    text.insert(static_cast<std::size_t>(i), ",");
  }
  return text;
}

/// Number of columns that a UTF-8 text takes (one for each code point).
inline std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

class Table {
 public:
  struct Column {
    std::string title;     ///< above the column when printed; '\n' separates lines
    std::string csv_name;  ///< in the first line of the CSV
    bool left = false;     ///< texts are left-aligned, numbers right
  };
  struct Cell {
    std::string text;   ///< for the reader
    std::string value;  ///< for the CSV; the text where empty
    Cell(std::string t) : text(std::move(t)) {}
    Cell(const char* t) : text(t) {}
    Cell(std::string t, std::string v) : text(std::move(t)), value(std::move(v)) {}
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// \throws std::invalid_argument unless there is a cell for each column.
  void add_row(std::vector<Cell> row) {
    if (row.size() != columns_.size()) {
      throw std::invalid_argument("Table::add_row: " + std::to_string(row.size()) + " cells for " +
                                  std::to_string(columns_.size()) + " columns");
    }
    rows_.push_back(std::move(row));
  }

  /// Aligned columns under their titles.
  std::string text() const {
    std::vector<std::vector<std::string>> titles;
    std::size_t lines = 1;
    for (const Column& column : columns_) {
      titles.push_back(split_lines(column.title));
      lines = std::max(lines, titles.back().size());
    }
    std::vector<std::size_t> width(columns_.size(), 0);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      for (const auto& line : titles[c]) width[c] = std::max(width[c], display_width(line));
      for (const auto& row : rows_) width[c] = std::max(width[c], display_width(row[c].text));
    }
    std::string result;
    const auto put = [&](std::size_t c, const std::string& text) {
      if (c > 0) result += "  ";
      const std::string padding(width[c] - display_width(text), ' ');
      result += columns_[c].left ? text + padding : padding + text;
    };
    const auto end_line = [&] {
      while (!result.empty() && result.back() == ' ') result.pop_back();
      result += '\n';
    };
    for (std::size_t line = 0; line < lines; ++line) {
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::size_t empty = lines - titles[c].size();
        put(c, line < empty ? "" : titles[c][line - empty]);
      }
      end_line();
    }
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      put(c, [&] {
        std::string rule;
        for (std::size_t i = 0; i < width[c]; ++i) rule += "─";
        return rule;
      }());
    }
    end_line();
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < columns_.size(); ++c) put(c, row[c].text);
      end_line();
    }
    return result;
  }

  /// Comma-separated values with a line of names.
  std::string csv() const {
    std::string result;
    for (std::size_t c = 0; c < columns_.size(); ++c) result += (c ? "," : "") + quoted(columns_[c].csv_name);
    result += '\n';
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        result += (c ? "," : "") + quoted(row[c].value.empty() ? row[c].text : row[c].value);
      }
      result += '\n';
    }
    return result;
  }

 private:
  static std::vector<std::string> split_lines(const std::string& text) {
    std::vector<std::string> lines(1);
    for (char c : text) {
      if (c == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += c;
      }
    }
    return lines;
  }

  static std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string result = "\"";
    for (char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
    return result + '"';
  }

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace examples
