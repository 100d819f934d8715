// SPDX-License-Identifier: MIT
#include "rotorlin/layers/options.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>

using namespace rotorlin;
using Catch::Contains;

namespace {

enum class Colour { red, green };
std::string_view to_string(Colour colour) {
  if (colour == Colour::red) return "red";
  if (colour == Colour::green) return "green";
  throw std::invalid_argument("colour " + std::to_string(static_cast<int>(colour)) +
                              ", expected red or green");
}
void from_string(std::string_view text, Colour& colour) {
  if (text != "red" && text != "green")
    throw std::invalid_argument("colour '" + std::string(text) + "', expected red or green");
  colour = text == "red" ? Colour::red : Colour::green;
}

struct ToyOptions {
  Index count = 3;
  double epsilon = 1e-5;
  bool bias = true;
  Colour colour = Colour::green;
  std::uint64_t seed = 0;

  static constexpr auto fields() {
    return std::tuple(option_field("count", &ToyOptions::count, 1, 9),
                      option_field("epsilon", &ToyOptions::epsilon, 0.0),
                      option_field("bias", &ToyOptions::bias), option_field("colour", &ToyOptions::colour));
  }
};

std::string error_of(const ToyOptions& options) {
  try {
    detail::check_options("Toy", options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("options become text and are read back") {
  for (const double epsilon : {1e-5, 0.1, 1.0 / 3, 0.0, 5e-324, 1.7976931348623157e308, 12345678.0}) {
    const ToyOptions options{.count = 7, .epsilon = epsilon, .bias = false, .colour = Colour::red, .seed = 5};
    const Description text = detail::describe_options(4, 5, options);
    const auto again = detail::parse_options<ToyOptions>(text);
    CHECK(again.count == 7);
    CHECK(again.epsilon == epsilon);
    CHECK(again.bias == false);
    CHECK(again.colour == Colour::red);
    CHECK(again.seed == 0);  // no field
    CHECK(text.size() == 6);
    CHECK(text.at("in") == "4");
  }
  CHECK(detail::describe_options(1, 1, ToyOptions()).at("epsilon") == "1e-05");
}

TEST_CASE("a description that is not one of these options names the option") {
  const Description good = detail::describe_options(4, 5, ToyOptions());
  for (const auto& [key, value] : good) {
    if (key == "in" || key == "out") continue;
    Description bad = good;
    bad.erase(key);
    CHECK_THROWS_WITH(detail::parse_options<ToyOptions>(bad), Contains("'" + key + "' is missing"));
    for (const std::string text :
         {"", "x", " 1", "1 ", "1,5", "0x", "nan", "inf", "1e400", "--1", "truefalse"}) {
      bad[key] = text;
      CHECK_THROWS_WITH(detail::parse_options<ToyOptions>(bad),
                        Contains(key == "colour" ? "colour" : "'" + key + "'") && Contains("'" + text + "'"));
    }
  }
}

TEST_CASE("numbers out of their range and values that are none of an enumeration are refused") {
  CHECK(error_of({}) == "accepted");
  CHECK(error_of({.count = 0}) == "Toy: count = 0, expected 1 ... 9");
  CHECK(error_of({.count = 10}) == "Toy: count = 10, expected 1 ... 9");
  CHECK(error_of({.count = std::numeric_limits<Index>::min()}) != "accepted");
  CHECK(error_of({.epsilon = -1e-300}) == "Toy: epsilon = -1e-300, expected at least 0");
  CHECK(error_of({.epsilon = std::nan("")}) != "accepted");
  CHECK(error_of({.epsilon = std::numeric_limits<double>::infinity()}) != "accepted");
  CHECK_THAT(error_of({.colour = static_cast<Colour>(7)}), Contains("colour 7"));
}
