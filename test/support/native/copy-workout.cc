// Copies random ranges on several threads and compares every byte. Built with a sanitizer by the tests, without Node.
// With an argument it gives two ranges the same target, which is not allowed: the sanitizer has to say so.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../../src/native/addon/copy-ranges.h"

namespace {

uint64_t state = 1;

size_t below(size_t limit) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<size_t>((state >> 33) % limit);
}

constexpr size_t kBytes = 24u << 20;

}  // namespace

int main(int count, char**) {
  const bool is_wrong = count > 1;
  std::vector<uint8_t> source(kBytes), target(kBytes), expected(kBytes);
  for (size_t at = 0; at < kBytes; at += 1) source[at] = static_cast<uint8_t>(at * 2654435761u >> 11);
  for (int round = 0; round < 4; round += 1) {
    std::vector<kvtier::CopyRange> ranges;
    for (size_t to = 0; to < kBytes;) {
      size_t length = 1 + below(below(3) == 0 ? 9u << 20 : 200000);
      if (length > kBytes - to) length = kBytes - to;
      const size_t from = below(kBytes - length + 1);
      ranges.push_back({target.data() + to, source.data() + from, length});
      if (!is_wrong) std::memcpy(expected.data() + to, source.data() + from, length);
      to += length;
    }
    if (is_wrong) {
      for (kvtier::CopyRange& range : ranges) range.to = target.data();
    }
    kvtier::copy_ranges(ranges.data(), ranges.size(), 1 + static_cast<int>(below(8)) + (is_wrong ? 4 : 0));
    if (!is_wrong && std::memcmp(target.data(), expected.data(), kBytes) != 0) {
      std::puts("the copy is not the source");
      return 1;
    }
  }
  std::puts("done");
  return 0;
}
