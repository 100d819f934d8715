// SPDX-License-Identifier: MIT
#include "rotorlin/core/text.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <clocale>
#include <cmath>
#include <cstdint>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/random.hpp"
#include "rotorlin/core/types.hpp"

using namespace rotorlin::detail;

namespace {

/// 1.234,5 and a blank between thousands, as some countries write.
struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

void check_round_trip(double value) {
  CAPTURE(value);
  for (const std::string& text : {format_real(value), format_real_by_stream(value)}) {
    CAPTURE(text);
    CHECK(text.find(',') == text.npos);
    REQUIRE(parse_real(text));
    CHECK(std::bit_cast<std::uint64_t>(*parse_real(text)) == std::bit_cast<std::uint64_t>(value));
    REQUIRE(parse_real_by_stream(text));
    CHECK(std::bit_cast<std::uint64_t>(*parse_real_by_stream(text)) == std::bit_cast<std::uint64_t>(value));
  }
}

}  // namespace

TEST_CASE("Numbers survive as text, in any locale") {
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Commas));
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0, -0.0, 1.0, 0.1, 1e-5, 1234567.0, 1e22, 1.0 / 3, Limits::max(),
                             Limits::lowest(), Limits::min(), std::nextafter(1.0, 2.0)}) {
    check_round_trip(value);
  }
  rotorlin::Random random(1);
  for (int i = 0; i < 1000; ++i)
    check_round_trip(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.below(2000)) - 1000));
  const std::string message =
      concatenate("in = ", rotorlin::Index{1234567}, ", x = ", 1.5);  // files have such
  std::locale::global(before);
  CHECK(message == "in = 1234567, x = 1.5");
  CHECK(format_real(1e-5) == "1e-05");
  CHECK(format_real_by_stream(1e-5) == "1e-05");
  CHECK(format_real(0.25) == "0.25");
}

TEST_CASE("Texts that are no number, or more than one, are none") {
  for (const char* text :
       {"",    " ",     "+",   "-",    ".",   "e",   "1 ",    " 1",     "1,5", "1.5.5", "+1",  "1e",
        "1e+", "0x1p3", "inf", "-inf", "nan", "NAN", "1e400", "-1e400", "1\n", "1f",    "--1", "e5"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_real(text));
  }
  CHECK_FALSE(parse_real(std::string_view("1\0", 2)));
  CHECK(parse_real("-12.5e-1") == -1.25);
  CHECK(parse_real("7") == 7.0);
  CHECK(parse_real(".5") == 0.5);
}
