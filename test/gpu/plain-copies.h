// Copies as a program makes them that knows nothing of pieces: pinned memory of the driver, one call a copy.
#pragma once

#include "check.h"

namespace kvtier::check {

class PlainCopies {
 public:
  /** Memory for `bytes` each way. False when there is none. */
  bool open(const std::string& library, std::uint64_t bytes);
  void close();

  /** GB/s of all bytes one way, in pieces of `piece` bytes; 0 = it failed. */
  double oneWay(bool isStore, std::uint64_t piece, int repeats) const;
  /** GB/s of both ways together: a loop that feeds two streams in turn. */
  double bothWays(std::uint64_t piece, int repeats) const;

 private:
  cuda::Result copy(bool isStore, std::uint64_t at, std::uint64_t piece) const;

  const cuda::Driver* driver_ = nullptr;
  cuda::Result (*hostAlloc_)(void**, std::size_t, unsigned) = nullptr;
  cuda::Result (*freeHost_)(void*) = nullptr;
  cuda::Result (*synchronize_)(cuda::Stream) = nullptr;
  cuda::Context context_ = nullptr;
  std::uint64_t bytes_ = 0;
  unsigned char* host_[2] = {nullptr, nullptr};
  cuda::DevicePointer device_[2] = {0, 0};
  cuda::Stream streams_[2] = {nullptr, nullptr};
};

}  // namespace kvtier::check
