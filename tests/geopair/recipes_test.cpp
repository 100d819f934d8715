// SPDX-License-Identifier: MIT
#include "rotorlin/geopair/recipes.hpp"

#include <catch2/catch.hpp>

using rotorlin::DictionarySide;

TEST_CASE("Every recipe that is named exists, and unknown names list them", "[geopair][recipes]") {
  for (const std::string& name : rotorlin::recipe_names()) {
    CAPTURE(name);
    CHECK(rotorlin::recipe(name, 0.4).options.ratio == 0.4);
  }
  for (const char* name : {"", "geopair", "svd_llm, basis_sharing"}) {
    CHECK_THROWS_WITH(rotorlin::recipe(name), Catch::Contains("geopair_groups_inputs"));
  }
  const rotorlin::Recipe groups = rotorlin::recipe("geopair_groups");
  CHECK(groups.options.pairing == rotorlin::Pairing::automatic);
  CHECK(groups.side_of(8192, 2048, true) == DictionarySide::output);  // down
  CHECK(groups.side_of(2048, 512, false) == DictionarySide::input);   // k, narrow
  CHECK(groups.side_of(2048, 2048, true) == DictionarySide::input);   // o
  CHECK(rotorlin::recipe("geopair_groups_inputs").side_of(8192, 2048, true) == DictionarySide::input);
  CHECK(rotorlin::recipe("geopair_dense_identity").options.identity_gauge);
  CHECK(rotorlin::recipe("geopair_sparse").options.group_size == 2);
}
