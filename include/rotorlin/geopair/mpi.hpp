// SPDX-License-Identifier: MIT
/// \file
/// The compression on several machines. An optional part: define ROTORLIN_MPI and compile with MPI (the CMake
/// option ROTORLIN_MPI does both).
#pragma once

#if defined(ROTORLIN_MPI)

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rotorlin/core/error.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/core/workers.hpp"
#include "rotorlin/geopair/compression.hpp"
#include "rotorlin/geopair/compressor.hpp"
#include "rotorlin/geopair/group_codec.hpp"
#include "rotorlin/io/safetensors.hpp"

namespace rotorlin {

namespace detail {

/// Values one after another, as they lie in memory: for processes of one program on machines of one kind.
class WireWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value);
  }
  template <class T>
  void put_list(const T* values, std::size_t count) {
    put(count);
    append(values, count * sizeof(T));
  }
  void put(const std::string& text) { put_list(text.data(), text.size()); }
  template <class T>
  void put(const std::vector<T>& values) {
    put_list(values.data(), values.size());
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  void append(const void* from, std::size_t count) {
    if (count == 0) return;
    bytes_.resize(bytes_.size() + count);
    std::memcpy(bytes_.data() + bytes_.size() - count, from, count);
  }
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    T value;
    take(&value, sizeof value);
    return value;
  }
  template <class List>
  List get_list() {
    List list;
    list.resize(get<std::size_t>());
    take(list.data(), list.size() * sizeof(list[0]));
    return list;
  }
  std::string text() { return get_list<std::string>(); }

 private:
  void take(void* to, std::size_t count) {
    if (count == 0) return;
    std::memcpy(to, bytes_.data() + place_, count);
    place_ += count;
  }
  const std::vector<std::byte>& bytes_;
  std::size_t place_ = 0;
};

/// Messages of any length between the processes of one communicator: first their size, then pieces that MPI
/// can count.
class Messages {
 public:
  explicit Messages(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }

  void broadcast(std::vector<std::byte>& bytes) const {
    std::uint64_t count = bytes.size();
    MPI_Bcast(&count, 1, MPI_UINT64_T, 0, comm_);
    bytes.resize(count);
    pieces(bytes, [&](std::byte* data, int n) { MPI_Bcast(data, n, MPI_BYTE, 0, comm_); });
  }
  void send(std::vector<std::byte>& bytes, int to) const {
    std::uint64_t count = bytes.size();
    MPI_Send(&count, 1, MPI_UINT64_T, to, 0, comm_);
    pieces(bytes, [&](std::byte* data, int n) { MPI_Send(data, n, MPI_BYTE, to, 0, comm_); });
  }
  std::vector<std::byte> receive(int from) const {
    std::uint64_t count = 0;
    MPI_Recv(&count, 1, MPI_UINT64_T, from, 0, comm_, MPI_STATUS_IGNORE);
    std::vector<std::byte> bytes(count);
    pieces(bytes,
           [&](std::byte* data, int n) { MPI_Recv(data, n, MPI_BYTE, from, 0, comm_, MPI_STATUS_IGNORE); });
    return bytes;
  }

 private:
  template <class F>
  static void pieces(std::vector<std::byte>& bytes, const F& f) {
    constexpr std::size_t most = std::size_t{1} << 30;
    for (std::size_t first = 0; first < bytes.size(); first += most) {
      f(bytes.data() + first, static_cast<int>(std::min(most, bytes.size() - first)));
    }
  }
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
};

/// The result of f as a message that begins with "", or the text of what it threw.
template <class F>
std::vector<std::byte> attempt(const F& f) {
  WireWriter wire;
  try {
    wire.put(std::string());
    f(wire);
  } catch (const std::exception& error) {
    wire = {};
    wire.put(std::string(error.what()));
  }
  return std::move(wire.bytes());
}

}  // namespace detail

/// GeoPairCompressor::compress by all processes of `comm`: process 0 finds the groups, each compresses some
/// of them with options.threads threads, and process 0 has the result, which is the same as that of one
/// process; the others get none. Every process calls this, with the same layers (best as functions that load
/// them: a process loads what its groups need) and options. \throws std::runtime_error in every process with
/// the text of what any of them threw.
template <class = void>
std::optional<CompressionResult> compress(const GeoPairCompressor& compressor,
                                          const CompressorOptions& options, MPI_Comm comm) {
  const detail::Messages messages(comm);
  std::vector<std::byte> message;
  if (messages.rank() == 0) {
    message = detail::attempt([&](detail::WireWriter& wire) {
      const std::vector<PlannedGroup> groups = compressor.plan(options);
      wire.put(groups.size());
      for (const PlannedGroup& group : groups) {
        wire.put(group.members);
        wire.put(group.ratio);
      }
    });
  }
  messages.broadcast(message);
  detail::WireReader plan(message);
  if (const std::string failure = plan.text(); !failure.empty()) detail::throw_runtime(failure);
  std::vector<PlannedGroup> groups(plan.get<std::size_t>());
  for (PlannedGroup& group : groups) {
    group.members = plan.get_list<std::vector<std::size_t>>();
    group.ratio = plan.get<double>();
  }

  // The costliest group first to whom has the least to do: the same in every process.
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return compressor.cost(groups[a]) > compressor.cost(groups[b]);
  });
  std::vector<std::vector<std::size_t>> shares(static_cast<std::size_t>(messages.size()));
  std::vector<double> loads(shares.size(), 0);
  for (const std::size_t g : order) {
    const auto least = static_cast<std::size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    shares[least].push_back(g);
    loads[least] += compressor.cost(groups[g]);
  }

  const std::vector<std::size_t>& mine = shares[static_cast<std::size_t>(messages.rank())];
  std::vector<CompressedGroup> done(groups.size());
  message = detail::attempt([&](detail::WireWriter& wire) {
    detail::run_tasks(mine, options.threads,
                      [&](std::size_t g) { done[g] = compressor.compress_group(groups[g], options); });
    if (messages.rank() == 0) return;
    for (const std::size_t g : mine) {
      SafetensorsWriter group;
      write_group(group, done[g]);
      wire.put(group.bytes());
    }
  });
  std::string failure = detail::WireReader(message).text();
  if (messages.rank() != 0) {
    messages.send(message, 0);
  } else {
    for (int from = 1; from < messages.size(); ++from) {
      const std::vector<std::byte> received = messages.receive(from);
      detail::WireReader wire(received);
      if (const std::string theirs = wire.text(); !theirs.empty()) {
        failure = theirs;
        continue;
      }
      for (const std::size_t g : shares[static_cast<std::size_t>(from)]) {
        const auto sender = detail::concatenate("message of process ", from);
        done[g] = read_group(SafetensorsFile(wire.get_list<std::vector<std::byte>>(), sender));
      }
    }
    detail::WireWriter verdict;
    verdict.put(failure);
    message = std::move(verdict.bytes());
  }
  messages.broadcast(message);
  if (failure = detail::WireReader(message).text(); !failure.empty()) detail::throw_runtime(failure);
  if (messages.rank() != 0) return std::nullopt;
  return compressor.assemble(std::move(done));
}

}  // namespace rotorlin

#endif
