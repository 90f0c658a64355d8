// The chain of chunk hashes (core/chunk-hash.ts): h(i) = blake3(h(i-1) || tokens as big-endian words).
//
//     input     | h(i-1) |  tokens of chunk i                      |      32 + 4 x chunkTokens bytes
//     leaves    |        1024        |        1024        |  rest  |      leaf 0 waits for h(i-1), the others do not
//
// BLAKE3 by its specification (J. O'Connor et al., 2020), unkeyed. One chain cannot be hashed side by side: each block of
// 64 bytes waits for the one before. So the state lies in plain registers, whose additions and rotations take one cycle
// each; vectors take two on some processors, and a compression 1.7 times as long.
#include <cstring>

#include "parts.h"

namespace kvtier {
namespace {

constexpr size_t kHashBytes = 32;
constexpr size_t kBlockBytes = 64;
constexpr size_t kLeafBytes = 1024;
constexpr size_t kTokensMost = size_t{1} << 24;
/// Halves of a tree of 2^24 tokens and more.
constexpr int kDepthMost = 32;

enum Flag : uint32_t { kLeafStart = 1, kLeafEnd = 2, kParent = 4, kRoot = 8 };

constexpr uint32_t kInitial[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                  0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

constexpr uint8_t kOrder[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};

inline uint32_t rotated(uint32_t value, int bits) { return (value >> bits) | (value << (32 - bits)); }

/// The words come before what is waited for: they are added while it is on its way.
inline void mix(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint32_t x, uint32_t y) {
  a = (a + x) + b;
  d = rotated(d ^ a, 16);
  c = c + d;
  b = rotated(b ^ c, 12);
  a = (a + y) + b;
  d = rotated(d ^ a, 8);
  c = c + d;
  b = rotated(b ^ c, 7);
}

/// One block of 16 words into the chaining value.
void compress(uint32_t chain[8], const uint32_t words[16], uint64_t leaf, uint32_t length, uint32_t flags) {
  uint32_t v0 = chain[0], v1 = chain[1], v2 = chain[2], v3 = chain[3];
  uint32_t v4 = chain[4], v5 = chain[5], v6 = chain[6], v7 = chain[7];
  uint32_t v8 = kInitial[0], v9 = kInitial[1], v10 = kInitial[2], v11 = kInitial[3];
  uint32_t v12 = static_cast<uint32_t>(leaf), v13 = static_cast<uint32_t>(leaf >> 32), v14 = length, v15 = flags;
#pragma GCC unroll 7
  for (const uint8_t(&at)[16] : kOrder) {
    mix(v0, v4, v8, v12, words[at[0]], words[at[1]]);
    mix(v1, v5, v9, v13, words[at[2]], words[at[3]]);
    mix(v2, v6, v10, v14, words[at[4]], words[at[5]]);
    mix(v3, v7, v11, v15, words[at[6]], words[at[7]]);
    mix(v0, v5, v10, v15, words[at[8]], words[at[9]]);
    mix(v1, v6, v11, v12, words[at[10]], words[at[11]]);
    mix(v2, v7, v8, v13, words[at[12]], words[at[13]]);
    mix(v3, v4, v9, v14, words[at[14]], words[at[15]]);
  }
  chain[0] = v0 ^ v8, chain[1] = v1 ^ v9, chain[2] = v2 ^ v10, chain[3] = v3 ^ v11;
  chain[4] = v4 ^ v12, chain[5] = v5 ^ v13, chain[6] = v6 ^ v14, chain[7] = v7 ^ v15;
}

/// The input of one chunk: words as they go into blocks, made on the way.
struct Input {
  const uint32_t* parent;  // 8 words
  const uint32_t* tokens;
  size_t length;  // bytes, parent included: a multiple of 4

  /// The words of the block at byte `from`, zeros behind the end.
  void block(size_t from, uint32_t words[16]) const {
    size_t word = from / 4;
    size_t count = (length - from) / 4;
    if (count > 16) count = 16;
    size_t done = 0;
    for (; done < count && word + done < 8; done += 1) words[done] = parent[word + done];
    for (; done < count; done += 1) words[done] = __builtin_bswap32(tokens[word + done - 8]);
    for (; done < 16; done += 1) words[done] = 0;
  }
};

/// The chaining value of leaf `leaf`. @param last flags of its last block: kRoot when it is the only leaf.
void hash_leaf(const Input& input, size_t leaf, uint32_t last, uint32_t chain[8]) {
  std::memcpy(chain, kInitial, kHashBytes);
  size_t from = leaf * kLeafBytes;
  size_t end = from + kLeafBytes < input.length ? from + kLeafBytes : input.length;
  uint32_t start = kLeafStart;
  uint32_t words[16];
  for (; end - from > kBlockBytes; from += kBlockBytes) {
    input.block(from, words);
    compress(chain, words, leaf, kBlockBytes, start);
    start = 0;
  }
  input.block(from, words);
  compress(chain, words, leaf, static_cast<uint32_t>(end - from), start | kLeafEnd | last);
}

void join(const uint32_t left[8], const uint32_t right[8], uint32_t flags, uint32_t out[8]) {
  uint32_t words[16];
  std::memcpy(words, left, kHashBytes);
  std::memcpy(words + 8, right, kHashBytes);
  std::memcpy(out, kInitial, kHashBytes);
  compress(out, words, 0, kBlockBytes, kParent | flags);
}

/// Leaves are joined as they come: the tree's left halves are as large as they can be, powers of two.
void hash_input(const Input& input, uint32_t out[8]) {
  size_t leaves = (input.length + kLeafBytes - 1) / kLeafBytes;
  if (leaves == 1) return hash_leaf(input, 0, kRoot, out);
  uint32_t stack[kDepthMost][8];
  int depth = 0;
  uint32_t value[8];
  for (size_t leaf = 0; leaf + 1 < leaves; leaf += 1) {
    hash_leaf(input, leaf, 0, value);
    for (size_t done = leaf + 1; (done & 1) == 0; done >>= 1) {
      depth -= 1;
      uint32_t joined[8];
      join(stack[depth], value, 0, joined);
      std::memcpy(value, joined, kHashBytes);
    }
    std::memcpy(stack[depth], value, kHashBytes);
    depth += 1;
  }
  hash_leaf(input, leaves - 1, 0, value);
  for (; depth > 1; depth -= 1) {
    uint32_t joined[8];
    join(stack[depth - 1], value, 0, joined);
    std::memcpy(value, joined, kHashBytes);
  }
  join(stack[0], value, kRoot, out);
}

/// hashChunks(parent, tokens, chunkTokens, hashes): the hashes of the whole chunks of `tokens`, laid end to end.
napi_value hash_chunks(napi_env env, napi_callback_info info) {
  Arguments call(env, info);
  Bytes parent = call.bytes(0);
  Bytes tokens = call.words(1, 4);
  size_t chunk_tokens = call.index(2, kTokensMost);
  Bytes hashes = call.bytes(3);
  if (call.ok() && parent.length != kHashBytes) call.range("a parent is 32 bytes");
  if (call.ok() && chunk_tokens == 0) call.range("a chunk without tokens");
  if (!call.ok()) return nullptr;
  size_t chunks = tokens.length / chunk_tokens;
  if (hashes.length / kHashBytes < chunks) call.range("no room for the hashes");
  if (!call.ok()) return nullptr;
  uint32_t chain[8];
  std::memcpy(chain, parent.data, kHashBytes);
  const uint32_t* from = reinterpret_cast<const uint32_t*>(tokens.data);
  for (size_t chunk = 0; chunk < chunks; chunk += 1) {
    uint32_t hash[8];
    hash_input({chain, from + chunk * chunk_tokens, kHashBytes + 4 * chunk_tokens}, hash);
    std::memcpy(hashes.data + chunk * kHashBytes, hash, kHashBytes);
    std::memcpy(chain, hash, kHashBytes);
  }
  return undefined(env);
}

}  // namespace

void register_chunk_hashes(napi_env env, napi_value exports) { define(env, exports, "hashChunks", hash_chunks); }

}  // namespace kvtier
