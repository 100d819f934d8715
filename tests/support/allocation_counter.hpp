// SPDX-License-Identifier: MIT
// Counts what the whole program allocates: `test::allocations()` before and after a stretch of code, and
// `test::largest_allocation_of(work)`, in bytes. It stands in front of glibc's malloc, which Eigen and
// operator new both end in; elsewhere, and under sanitizers, which have a malloc of their own,
// `test::counts_allocations` is false and the count stays 0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ROTORLIN_TEST_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROTORLIN_TEST_SANITIZED
#endif

namespace test {

inline std::atomic<long> allocation_count{0};
inline long allocations() { return allocation_count.load(); }
inline std::atomic<std::size_t> largest_allocation{0};

/// Bytes of the largest single allocation in `work`; exceptions pass.
template <class Work>
std::size_t largest_allocation_of(const Work& work) {
  largest_allocation = 0;
  work();
  return largest_allocation.load();
}

inline void count_allocation(std::size_t size) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (size > largest_allocation.load(std::memory_order_relaxed)) largest_allocation = size;
}

#if defined(__GLIBC__) && !defined(ROTORLIN_TEST_SANITIZED)
inline constexpr bool counts_allocations = true;
#else
inline constexpr bool counts_allocations = false;
#endif

}  // namespace test

#if defined(__GLIBC__) && !defined(ROTORLIN_TEST_SANITIZED)
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

// Weak, so that several files of one program may include this.
__attribute__((weak)) void* malloc(std::size_t size) {
  test::count_allocation(size);
  return __libc_malloc(size);
}
__attribute__((weak)) void* aligned_alloc(std::size_t alignment, std::size_t size) {
  test::count_allocation(size);
  return __libc_memalign(alignment, size);
}
}
#endif
