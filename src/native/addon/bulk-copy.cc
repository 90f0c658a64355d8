// Copies between two views of memory, many ranges in one call.
#include <vector>

#include "copy-ranges.h"
#include "parts.h"

namespace kvtier {
namespace {

bool overlaps(const Bytes& one, const Bytes& other) {
  const uintptr_t a = reinterpret_cast<uintptr_t>(one.data), b = reinterpret_cast<uintptr_t>(other.data);
  return a < b + other.length && b < a + one.length;
}

/// A whole number of 0..2^53 that a Float64Array holds.
bool whole(double value, size_t* out) {
  if (!(value >= 0 && value <= 9007199254740991.0)) return false;
  *out = static_cast<size_t>(value);
  return static_cast<double>(*out) == value;
}

/// copyRanges(target, source, targetOffsets, sourceOffsets, lengths, count, threads). Either all is copied or, when a
/// range is not within its view, nothing.
napi_value copy_ranges_call(napi_env env, napi_callback_info info) {
  Arguments call(env, info);
  Bytes target = call.bytes(0);
  Bytes source = call.bytes(1);
  Bytes columns[3] = {call.words(2, 8), call.words(3, 8), call.words(4, 8)};
  size_t most = columns[0].length;
  for (const Bytes& column : columns) most = column.length < most ? column.length : most;
  size_t count = call.index(5, most);
  size_t threads = call.index(6, 1024);
  if (!call.ok()) return nullptr;
  std::vector<CopyRange> ranges(count);
  const double* numbers[3];
  for (int at = 0; at < 3; at += 1) numbers[at] = reinterpret_cast<const double*>(columns[at].data);
  for (size_t at = 0; at < count; at += 1) {
    size_t to = 0, from = 0, length = 0;
    const bool are_whole = whole(numbers[0][at], &to) && whole(numbers[1][at], &from) && whole(numbers[2][at], &length);
    if (!are_whole || !is_within(to, length, target.length) || !is_within(from, length, source.length)) {
      call.range("a range is not within its memory");
      return nullptr;
    }
    ranges[at] = {target.data + to, source.data + from, length};
  }
  // Where the views overlap so may the ranges: in order, then.
  copy_ranges(ranges.data(), count, overlaps(target, source) ? 1 : static_cast<int>(threads));
  return undefined(env);
}

}  // namespace

void register_bulk_copy(napi_env env, napi_value exports) { define(env, exports, "copyRanges", copy_ranges_call); }

}  // namespace kvtier
