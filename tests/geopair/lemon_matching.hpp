// SPDX-License-Identifier: MIT
// The LEMON library's matching, in a file of its own: LEMON does not compile as C++20.
#pragma once

#include <cstdint>
#include <vector>

namespace test {

bool has_lemon();

/// The least total of a perfect matching; costs: n x n, symmetric, n even.
std::int64_t lemon_matching_cost(int n, const std::vector<std::int64_t>& costs);

}  // namespace test
