// Tokens of a MessagePack array: whole numbers of 0..2^32-1, each in any form that MessagePack has for it.
//
//     00..7f                       itself
//     cc|cd|ce|cf  1|2|4|8 bytes   unsigned, big-endian
//     d0|d1|d2|d3  1|2|4|8 bytes   signed: fine where it is not negative
//
// A number's length follows from its first byte, but where that lies only from the numbers before: what counts is how
// long one step takes, not how much it does. So two numbers make a step, and nothing branches on their forms: prompts mix
// them, and a wrong guess costs more than several numbers.
#include <cstring>

#include "parts.h"

namespace kvtier {
namespace {

constexpr size_t kBroken = static_cast<size_t>(-1);

inline uint64_t big_endian(const uint8_t* from) {
  uint64_t word;
  std::memcpy(&word, from, 8);
  return __builtin_bswap64(word);
}

/// One number in any form. @returns where the next one begins, or kBroken.
size_t read_any(const uint8_t* data, size_t length, size_t at, uint32_t* word) {
  if (at >= length) return kBroken;
  const uint8_t head = data[at];
  if (head < 0x80) {
    *word = head;
    return at + 1;
  }
  if (head < 0xcc || head > 0xd3) return kBroken;
  const size_t width = size_t{1} << (head & 3);
  if (width > length - at - 1) return kBroken;
  uint64_t value = 0;
  for (size_t byte = 0; byte < width; byte += 1) value = (value << 8) | data[at + 1 + byte];
  const bool is_negative = head >= 0xd0 && (value >> (8 * width - 1)) != 0;
  if (is_negative || value > 0xffffffffu) return kBroken;
  *word = static_cast<uint32_t>(value);
  return at + 1 + width;
}

struct Forms {
  uint8_t length[256];  // of a number with this first byte, the byte included; 0 = another form, or no number
};

constexpr Forms forms() {
  Forms made{};
  for (int head = 0; head < 0x80; head += 1) made.length[head] = 1;
  made.length[0xcc] = 2;
  made.length[0xcd] = 3;
  made.length[0xce] = 5;
  return made;
}

constexpr Forms kForms = forms();
/// The bits of a number of that length, its first byte left out unless it is the number.
constexpr uint32_t kBits[6] = {0, 0xff, 0xff, 0xffff, 0, 0xffffffff};
/// No two numbers of the usual forms need more, the word that is read at the second one included.
constexpr size_t kPairBytes = 16;

/// Reads `count` numbers from byte `at` on. @returns where what follows begins, or kBroken.
size_t read_words(const uint8_t* data, size_t length, size_t at, uint32_t* words, size_t count) {
  size_t index = 0;
  while (index < count) {
    if (index + 2 <= count && length - at >= kPairBytes) {
      uint64_t next;
      std::memcpy(&next, data + at, 8);
      // The second number begins after 1, 2, 3 or 5 bytes: its length is looked up for all four, then chosen.
      const uint64_t first = kForms.length[next & 0xff];
      const uint64_t lengths =
          static_cast<uint64_t>(kForms.length[(next >> 8) & 0xff]) << 8 | static_cast<uint64_t>(kForms.length[(next >> 16) & 0xff]) << 16 |
          static_cast<uint64_t>(kForms.length[(next >> 24) & 0xff]) << 24 | static_cast<uint64_t>(kForms.length[(next >> 40) & 0xff]) << 40;
      const uint64_t second = (lengths >> (8 * first)) & 0xff;
      if (first != 0 && second != 0) {
        words[index] = static_cast<uint32_t>(__builtin_bswap64(next) >> (64 - 8 * first)) & kBits[first];
        words[index + 1] = static_cast<uint32_t>(big_endian(data + at + first) >> (64 - 8 * second)) & kBits[second];
        index += 2;
        at += first + second;
        continue;
      }
    }
    at = read_any(data, length, at, words + index);
    if (at == kBroken) return kBroken;
    index += 1;
  }
  return at;
}

/// readWords(message, at, words, from) -> where what follows begins; -1 when there is anything but words.
napi_value read_words_call(napi_env env, napi_callback_info info) {
  Arguments call(env, info);
  Bytes message = call.bytes(0);
  size_t at = call.index(1, message.length);
  Bytes words = call.words(2, 4);
  size_t from = call.index(3, words.length);
  if (!call.ok()) return nullptr;
  uint32_t* out = reinterpret_cast<uint32_t*>(words.data) + from;
  size_t end = read_words(message.data, message.length, at, out, words.length - from);
  return number(env, end == kBroken ? -1 : static_cast<double>(end));
}

}  // namespace

void register_token_list(napi_env env, napi_value exports) { define(env, exports, "readWords", read_words_call); }

}  // namespace kvtier
