// SPDX-License-Identifier: MIT
/// \file
/// What the library needs of the compiler and its settings, said in words before anything else is compiled.
/// Every header includes it, directly or through core/types.hpp or core/error.hpp.
#pragma once

#if defined(_MSVC_LANG)
#if _MSVC_LANG < 202002L
#error "rotorlin needs C++20: compile with /std:c++20"
#endif
#elif __cplusplus < 202002L
#error "rotorlin needs C++20: compile with -std=c++20 (gcc 12 or newer, clang 14 or newer)"
#endif

#if defined(__apple_build_version__)
#if __clang_major__ < 14
#error "rotorlin needs Xcode 14 (Apple clang 14) or newer"
#endif
#elif defined(__clang__)
#if __clang_major__ < 14
#error "rotorlin needs clang 14 or newer"
#endif
#elif defined(__GNUC__)
#if __GNUC__ < 12
#error "rotorlin needs gcc 12 or newer"
#endif
#elif defined(_MSC_VER)
#if _MSC_VER < 1930
#error "rotorlin needs Visual Studio 2022 or newer"
#endif
#endif

#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "rotorlin reports wrong shapes, NaN and broken files by exceptions: compile without -fno-exceptions"
#endif

// Under -ffast-math (-ffinite-math-only) the compiler takes every number for finite. The checks of arguments
// look at bit patterns and hold all the same (core/finite.hpp), but NaN and infinities that arise within a
// computation, and the accuracy stated in the documentation, are no longer anybody's promise.
#if !defined(ROTORLIN_ALLOW_FAST_MATH) && ((defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ != 0) || \
                                           defined(__FAST_MATH__) || defined(_M_FP_FAST))
#error \
    "rotorlin is tested without -ffast-math (-ffinite-math-only, -Ofast, /fp:fast): drop it (-O3 -march=native costs no accuracy), or define ROTORLIN_ALLOW_FAST_MATH, which keeps the checks of arguments for NaN but not the stated accuracy"
#endif
