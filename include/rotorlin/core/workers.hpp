// SPDX-License-Identifier: MIT
/// \file
/// Independent tasks on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace rotorlin::detail {

/// body(i) for every i in `order`, begun in that order, on up to `threads` threads of which this is one.
/// After an exception no further task begins; of several, that of the task first in order is thrown on.
template <class F>
void run_tasks(const std::vector<std::size_t>& order, int threads, const F& body) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(order.size());
  std::atomic<bool> failed{false};
  const auto work = [&] {
    while (!failed) {
      const std::size_t i = next++;
      if (i >= order.size()) return;
      try {
        body(order[i]);
      } catch (...) {
        failures[i] = std::current_exception();
        failed = true;
      }
    }
  };
  std::vector<std::thread> others;
  const std::size_t useful = std::min(order.size(), static_cast<std::size_t>(std::max(threads, 1)));
  try {
    for (std::size_t t = 1; t < useful; ++t) others.emplace_back(work);
  } catch (const std::system_error&) {  // fewer threads will do
  }
  work();
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace rotorlin::detail
