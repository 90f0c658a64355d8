// Copies many ranges of memory in one go. Knows nothing of Node.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvtier {

struct CopyRange {
  uint8_t* to;
  const uint8_t* from;
  size_t length;
};

/// Threads that copy at most, the caller's included.
constexpr int kCopyThreadsMost = 16;

/// Copies ranges[0] up to ranges[count - 1]. No range of `to` may overlap one of `from` or of `to` when there is more
/// than one thread; on one thread they are copied in order, each as memmove would. What was copied is seen by every
/// thread that learns of the return.
///
/// @param threads how many may work on it; there are fewer where there is little to do, or none is to be had.
void copy_ranges(const CopyRange* ranges, size_t count, int threads);

}  // namespace kvtier
