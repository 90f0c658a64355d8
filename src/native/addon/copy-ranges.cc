#include "copy-ranges.h"

#include <cstring>

#include <pthread.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvtier {
namespace {

/// From here on stores go past the caches: what is copied is not needed by this processor soon, and a line that is
/// written whole need not be read before. The C library does so from many MiB on.
constexpr size_t kStreamedBytes = 512 * 1024;
/// A thread is worth its start from here on.
constexpr size_t kThreadBytes = 4 * 1024 * 1024;
constexpr size_t kLine = 64;

#if defined(__x86_64__)
/// Ranges that do not overlap.
void stream(uint8_t* to, const uint8_t* from, size_t length) {
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from, head);
  to += head, from += head, length -= head;
  for (; length >= kLine; to += kLine, from += kLine, length -= kLine) {
    const __m128i* source = reinterpret_cast<const __m128i*>(from);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    __m128i* target = reinterpret_cast<__m128i*>(to);
    _mm_stream_si128(target, a), _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c), _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
  std::memcpy(to, from, length);
}
#endif

void copy_one(const CopyRange& range) {
  if (range.length == 0) return;
#if defined(__x86_64__)
  const uintptr_t to = reinterpret_cast<uintptr_t>(range.to), from = reinterpret_cast<uintptr_t>(range.from);
  const bool overlaps = to < from + range.length && from < to + range.length;
  if (range.length >= kStreamedBytes && !overlaps) return stream(range.to, range.from, range.length);
#endif
  std::memmove(range.to, range.from, range.length);
}

/// Bytes [from, to) of all ranges laid end to end.
struct Share {
  const CopyRange* ranges;
  size_t count;
  size_t from;
  size_t to;
};

void copy_share(const Share& share) {
  size_t start = 0;
  for (size_t at = 0; at < share.count && start < share.to; at += 1) {
    const CopyRange& range = share.ranges[at];
    const size_t first = share.from > start ? share.from - start : 0;
    const size_t last = share.to - start < range.length ? share.to - start : range.length;
    if (first < last) copy_one({range.to + first, range.from + first, last - first});
    start += range.length;
  }
}

void* run_share(void* share) {
  copy_share(*static_cast<const Share*>(share));
  return nullptr;
}

}  // namespace

void copy_ranges(const CopyRange* ranges, size_t count, int threads) {
  size_t total = 0;
  for (size_t at = 0; at < count; at += 1) total += ranges[at].length;
  size_t shares = total / kThreadBytes;
  if (shares > static_cast<size_t>(threads)) shares = static_cast<size_t>(threads);
  if (shares > kCopyThreadsMost) shares = kCopyThreadsMost;
  if (shares < 2) return copy_share({ranges, count, 0, total});
  Share parts[kCopyThreadsMost];
  pthread_t others[kCopyThreadsMost];
  size_t started = 1;
  const size_t each = (total / shares + kLine - 1) / kLine * kLine;
  for (size_t at = 0; at < shares; at += 1) {
    const size_t end = at + 1 == shares ? total : (at + 1) * each;
    parts[at] = {ranges, count, at * each, end < total ? end : total};
  }
  while (started < shares && pthread_create(&others[started], nullptr, run_share, &parts[started]) == 0) started += 1;
  copy_share(parts[0]);
  for (size_t at = started; at < shares; at += 1) copy_share(parts[at]);  // there was no thread for them
  for (size_t at = 1; at < started; at += 1) pthread_join(others[at], nullptr);
}

}  // namespace kvtier
