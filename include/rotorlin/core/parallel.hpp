// SPDX-License-Identifier: MIT
/// \file
/// Loops over independent parts of a batch, on several threads where the user turned OpenMP on: compile with
/// -fopenmp and define ROTORLIN_OPENMP (the CMake option of that name does both). Without it the library
/// knows nothing of threads. How the work is cut never depends on the number of threads, so neither do the
/// results.
#pragma once

#include <atomic>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"

#if defined(ROTORLIN_OPENMP)
#if !defined(_OPENMP)
#error "ROTORLIN_OPENMP is defined, but the compiler was not asked for OpenMP: add -fopenmp"
#endif
#include <omp.h>
#endif

namespace rotorlin {

namespace detail {
inline std::atomic<int>& requested_threads() {
  static std::atomic<int> threads{0};
  return threads;
}
}  // namespace detail

/// Threads that a forward or backward pass may use; 0, the default, leaves it to OpenMP. Without OpenMP it
/// has no effect. \throws std::invalid_argument for a negative number.
inline void set_num_threads(int threads) {
  if (threads < 0) detail::throw_invalid("set_num_threads: ", threads, ", expected 0 (automatic) or more");
  detail::requested_threads() = threads;
}

/// Threads in use: 1 without OpenMP.
inline int num_threads() {
#if defined(ROTORLIN_OPENMP)
  const int requested = detail::requested_threads();
  return requested > 0 ? requested : omp_get_max_threads();
#else
  return 1;
#endif
}

namespace detail {

/// body(index, thread) for 0 <= index < count, thread < threads. The body must not throw.
template <class F>
void parallel_for(Index count, [[maybe_unused]] int threads, F&& body) {
#if defined(ROTORLIN_OPENMP)
  if (threads > 1 && count > 1) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (Index i = 0; i < count; ++i) body(i, omp_get_thread_num());
    return;
  }
#endif
  for (Index i = 0; i < count; ++i) body(i, 0);
}

}  // namespace detail

}  // namespace rotorlin
