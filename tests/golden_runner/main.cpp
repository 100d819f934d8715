// SPDX-License-Identifier: MIT
// rotorlin_golden [--kernel NAME | --all-kernels] DIR...: checks every *.json below the given folders against
// the library. A file's format is told by its fields. Prints a line a file with the largest error, and "N
// passed, M failed" last; the exit status is 0 only where there was something to check and nothing failed, no
// unknown format or unreadable file among it.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "format_geopair.hpp"
#include "format_layer.hpp"
#include "format_llama.hpp"
#include "format_network.hpp"
#include "format_power_iteration.hpp"
#include "format_sandwich.hpp"
#include "format_spinor_generators.hpp"
#include "kernels.hpp"
#include "report.hpp"

namespace {

using golden::Report;
using nlohmann::json;

struct Format {
  const char* name;
  bool (*matches)(const json&);
  void (*check)(const json&, Report&);
  bool (*can_check)() = nullptr;  // null: always
};

constexpr Format formats[] = {
    {"sandwich", golden::sandwich::matches, golden::sandwich::check},
    {"power iteration", golden::power_iteration::matches, golden::power_iteration::check},
    {"spinor generators", golden::spinor_generators::matches, golden::spinor_generators::check},
    {"layer", golden::layer::matches, golden::layer::check},
    {"network", golden::network::matches, golden::network::check},
    {"geopair", golden::geopair::matches, golden::geopair::check},
    {"llama", golden::llama::matches, golden::llama::check, golden::llama::can_check},
};

std::vector<std::filesystem::path> json_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_regular_file(folder)) return {folder};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

enum class Outcome { passed, failed, skipped };

Outcome check_file(const std::filesystem::path& path) {
  Report report;
  const Format* format = nullptr;
  try {
    const json file = json::parse(std::ifstream(path));
    format = std::find_if(std::begin(formats), std::end(formats),
                          [&](const Format& f) { return f.matches(file); });
    if (format == std::end(formats)) {
      report.fail("unknown format: no fields of a known one");
    } else if (format->can_check != nullptr && !format->can_check()) {
      std::cout << "skipped " << path.string()
                << "  ROTORLIN_TEST_DATA does not name the folder of its data\n";
      return Outcome::skipped;
    } else {
      format->check(file, report);
    }
  } catch (const std::exception& error) {
    report.fail(error.what());
  }
  const bool passed = report.failures().empty();
  std::cout << (passed ? "pass " : "FAIL ") << path.string() << "  " << report.summary() << '\n';
  constexpr std::size_t shown = 10;
  for (std::size_t i = 0; i < std::min(shown, report.failures().size()); ++i) {
    std::cout << "     " << report.failures()[i] << '\n';
  }
  if (report.failures().size() > shown)
    std::cout << "     and " << report.failures().size() - shown << " more\n";
  return passed ? Outcome::passed : Outcome::failed;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> folders;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--all-kernels") {
        golden::kernels() = golden::all_kernels();
      } else if (argument == "--kernel" && i + 1 < argc) {
        golden::kernels() = {rotorlin::kernel_from_string(argv[++i])};
      } else if (argument.rfind("--", 0) == 0) {
        throw std::invalid_argument("unknown option " + argument);
      } else {
        folders.push_back(argument);
      }
    }
    if (folders.empty()) throw std::invalid_argument("no folder given");
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\nusage: rotorlin_golden [--kernel NAME | --all-kernels] DIR...\n";
    return 1;
  }
  int count[3] = {0, 0, 0};
  for (const std::string& folder : folders) {
    try {
      for (const auto& path : json_files(folder)) ++count[static_cast<int>(check_file(path))];
    } catch (const std::exception& error) {
      std::cout << "FAIL " << folder << "  " << error.what() << '\n';
      ++count[static_cast<int>(Outcome::failed)];
    }
  }
  const int passed = count[static_cast<int>(Outcome::passed)],
            failed = count[static_cast<int>(Outcome::failed)];
  std::cout << passed << " passed, " << failed << " failed\n";
  return passed > 0 && failed == 0 ? 0 : 1;
}
