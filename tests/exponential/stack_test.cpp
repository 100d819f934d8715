// SPDX-License-Identifier: MIT
// How much stack exp, log and slerp take: fibres and threads of some C libraries have 128 KiB and less.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <pthread.h>

#include "algebra/oracle.hpp"
#include "rotorlin/exponential/exp.hpp"
#include "rotorlin/exponential/log.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ROTORLIN_TEST_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROTORLIN_TEST_SANITIZED 1
#endif

using namespace rotorlin;

namespace {

/// Bytes of stack that body() touches, in a thread whose stack is painted before.
template <class Body>
std::size_t stack_of(Body body) {
  constexpr std::size_t size = std::size_t{1} << 20;
  auto* stack = static_cast<unsigned char*>(std::aligned_alloc(4096, size));
  for (std::size_t i = 0; i < size; ++i) stack[i] = 0xa5;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, size);
  pthread_t thread;
  const int started = pthread_create(
      &thread, &attributes,
      [](void* f) -> void* {
        (*static_cast<Body*>(f))();
        return nullptr;
      },
      &body);
  REQUIRE(started == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  std::size_t untouched = 0;
  while (untouched < size && stack[untouched] == 0xa5) ++untouched;
  std::free(stack);
  return size - untouched;
}

template <class S>
void check_stack(int n) {
  std::mt19937 generator(3);
  const auto b = test::random_element<Bivector<S, Dynamic>>(n, generator, 0.3);
  const Rotor<S, Dynamic> r = exp(b);
  const std::size_t idle = stack_of([] {});  // what a thread itself takes
  CAPTURE(n, sizeof(S), idle);
  CHECK(stack_of([&] { (void)exp(b); }) - idle < 32 * 1024);
  CHECK(stack_of([&] { (void)log(r); }) - idle < 32 * 1024);
  CHECK(stack_of([&] { (void)slerp(r, Rotor<S, Dynamic>(n), S(0.5)); }) - idle < 32 * 1024);
  CHECK(stack_of([&] { (void)r.normalized(); }) - idle < 32 * 1024);
  CHECK(stack_of([&] { (void)Rotor<S, Dynamic>::from_rotation_matrix(r.to_rotation_matrix()); }) - idle <
        32 * 1024);
}

}  // namespace

TEST_CASE("stack of exp, log, slerp and normalized below 32 KiB at every n") {
#if ROTORLIN_TEST_SANITIZED
  WARN("skipped: the sanitizer has its own frames");
#else
  for (int n = 2; n <= 14; ++n) {
    check_stack<double>(n);
    if (n <= 6) check_stack<float>(n);
  }
#endif
}
