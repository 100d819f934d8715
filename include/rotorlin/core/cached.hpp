// SPDX-License-Identifier: MIT
/// \file
/// A state that is made from parameters and made anew where these have changed.
#pragma once

#include <cstring>
#include <mutex>

#include "rotorlin/core/types.hpp"

namespace rotorlin::detail {

/// `get` may be called by several threads at once, as long as nobody changes the parameters meanwhile. What
/// it returns stays as it is until the parameters change. A copy is empty and makes its own: copying reads
/// nothing that another thread may be writing.
template <class S, class State>
class Cached {
 public:
  Cached() = default;
  Cached(const Cached&) {}
  Cached& operator=(const Cached&) {
    ready_ = false;
    return *this;
  }

  /// Which of the parameters a state was made for have changed since.
  class Changes {
   public:
    Changes(const S* now, const S* before) : now_(now), before_(before) {}
    bool operator()(Index first, Index count) const {
      return before_ == nullptr ||
             std::memcmp(now_ + first, before_ + first, static_cast<std::size_t>(count) * sizeof(S)) != 0;
    }

   private:
    const S *now_, *before_;  // null: all
  };

  /// The state of `count` parameters, bit by bit; with what gradients need where `adjoint` is true.
  /// make(state, adjoint, changes) brings it up to date; after an exception of its own nothing is ready.
  template <class F>
  const State& get(const S* parameters, Index count, bool adjoint, const F& make) {
    const std::lock_guard lock(mutex_);
    const bool suffices = ready_ && snapshot_.size() == count && (adjoint_ || !adjoint);
    const Changes changes(parameters, suffices ? snapshot_.data() : nullptr);
    if (suffices && !changes(0, count)) return state_;
    ready_ = false;
    adjoint_ = adjoint_ || adjoint;
    make(state_, adjoint_, changes);
    snapshot_ = Eigen::Map<const VectorX<S>>(parameters, count);
    ready_ = true;
    return state_;
  }

 private:
  std::mutex mutex_;
  bool ready_ = false;
  bool adjoint_ = false;
  VectorX<S> snapshot_;
  State state_;
};

}  // namespace rotorlin::detail
