// The crc32 of zlib: polynomial 0x04C11DB7, bits reflected, complemented before and after.
//
// Where the processor multiplies polynomials in 512-bit registers, 256 bytes are folded at a time:
//
//     | z0  z1  z2  z3 |  ->  each times x^2048, added to the next 256 bytes     four products under way at once
//     z0 .. z3 -> z3          each times x^512, added to the next
//     z3 -> 16 bytes          its lanes, each times x^128
//     -> 8 -> 4 bytes         by x^64, then by Barrett's reduction
//
// (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.) The
// constants are calculated here, by the definition. Elsewhere a table of 8 x 256 words gives 8 bytes at a time.
#include <array>
#include <cstring>

#include "parts.h"
#include "processor.h"

namespace kvtier {
namespace {

constexpr uint32_t kPolynomial = 0x04C11DB7;

constexpr uint32_t reflected(uint32_t value) {
  uint32_t result = 0;
  for (int bit = 0; bit < 32; bit += 1) result |= ((value >> bit) & 1u) << (31 - bit);
  return result;
}

/// x^exponent modulo the polynomial, reflected; the product of two reflected factors is one bit short, hence the shift.
constexpr uint64_t power(int exponent) {
  uint32_t rest = 1;
  for (int step = 0; step < exponent; step += 1) rest = (rest << 1) ^ ((rest >> 31) != 0 ? kPolynomial : 0);
  return static_cast<uint64_t>(reflected(rest)) << 1;
}

// Values that the paper prints for this polynomial.
static_assert(power(4 * 128 + 32) == 0x154442bd4 && power(4 * 128 - 32) == 0x1c6e41596, "folding by 512 bits");
static_assert(power(128 + 32) == 0x1751997d0 && power(128 - 32) == 0x0ccaa009e && power(64) == 0x163cd6124, "by 128");

constexpr std::array<std::array<uint32_t, 256>, 8> tables() {
  std::array<std::array<uint32_t, 256>, 8> made{};
  for (uint32_t byte = 0; byte < 256; byte += 1) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; bit += 1) rest = (rest >> 1) ^ ((rest & 1) != 0 ? reflected(kPolynomial) : 0);
    made[0][byte] = rest;
  }
  for (int row = 1; row < 8; row += 1) {
    for (uint32_t byte = 0; byte < 256; byte += 1) {
      made[row][byte] = (made[row - 1][byte] >> 8) ^ made[0][made[row - 1][byte] & 0xff];
    }
  }
  return made;
}

constexpr auto kTables = tables();

/// `state` is the complement of a checksum, as between the pieces of one.
uint32_t by_table(const uint8_t* data, size_t length, uint32_t state) {
  for (; length >= 8; data += 8, length -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    word ^= state;
    state = 0;
    for (int byte = 0; byte < 8; byte += 1) state ^= kTables[7 - byte][(word >> (8 * byte)) & 0xff];
  }
  for (; length > 0; data += 1, length -= 1) state = (state >> 8) ^ kTables[0][(state ^ *data) & 0xff];
  return state;
}

#if defined(__x86_64__)
#define KVTIER_WIDE __attribute__((target("avx512f,avx512vl,avx512bw,vpclmulqdq,pclmul,sse4.1")))

KVTIER_WIDE inline __m512i fold(__m512i value, __m512i by, __m512i next) {
  __m512i low = _mm512_clmulepi64_epi128(value, by, 0x00);
  __m512i high = _mm512_clmulepi64_epi128(value, by, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96);
}

KVTIER_WIDE inline __m128i fold(__m128i value, __m128i by, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(value, by, 0x00);
  __m128i high = _mm_clmulepi64_si128(value, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

template <int kBits>
KVTIER_WIDE inline __m128i distance() {
  constexpr int64_t high = static_cast<int64_t>(power(kBits - 32));
  constexpr int64_t low = static_cast<int64_t>(power(kBits + 32));
  return _mm_set_epi64x(high, low);
}

/// 16 bytes, folded to the state.
KVTIER_WIDE inline uint32_t reduce(__m128i value) {
  const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
  const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const __m128i by64 = _mm_set_epi64x(0, 0x163cd6124);
  const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);  // the quotient of x^64; the polynomial
  value = _mm_xor_si128(_mm_srli_si128(value, 8), _mm_clmulepi64_si128(value, by128, 0x10));
  value = _mm_xor_si128(_mm_srli_si128(value, 4), _mm_clmulepi64_si128(_mm_and_si128(value, low32), by64, 0x00));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(value, low32), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(value, quotient), 1));
}

/// At least 256 bytes. @returns the state; `rest` bytes at the end, under 16, are left.
KVTIER_WIDE uint32_t by_folding(const uint8_t* data, size_t length, uint32_t state, size_t* rest) {
  const __m512i by2048 = _mm512_broadcast_i32x4(distance<2048>());
  const __m512i by512 = _mm512_broadcast_i32x4(distance<512>());
  __m512i z[4];
  for (int at = 0; at < 4; at += 1) z[at] = _mm512_loadu_si512(data + 64 * at);
  z[0] = _mm512_xor_si512(z[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  for (data += 256, length -= 256; length >= 256; data += 256, length -= 256) {
    for (int at = 0; at < 4; at += 1) z[at] = fold(z[at], by2048, _mm512_loadu_si512(data + 64 * at));
  }
  __m512i wide = fold(fold(fold(z[0], by512, z[1]), by512, z[2]), by512, z[3]);
  for (; length >= 64; data += 64, length -= 64) wide = fold(wide, by512, _mm512_loadu_si512(data));
  const __m128i by128 = distance<128>();
  __m128i value = fold(_mm512_castsi512_si128(wide), by128, _mm512_extracti32x4_epi32(wide, 1));
  value = fold(value, by128, _mm512_extracti32x4_epi32(wide, 2));
  value = fold(value, by128, _mm512_extracti32x4_epi32(wide, 3));
  for (; length >= 16; data += 16, length -= 16) {
    value = fold(value, by128, _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
  }
  *rest = length;
  return reduce(value);
}
#endif

uint32_t crc32(const uint8_t* data, size_t length, uint32_t before) {
  uint32_t state = ~before;
#if defined(__x86_64__)
  if (length >= 256 && has_wide_products()) {
    size_t rest = 0;
    state = by_folding(data, length, state, &rest);
    data += length - rest;
    length = rest;
  }
#endif
  return ~by_table(data, length, state);
}

/// crc32(bytes, before) -> the checksum of what `before` is that of, followed by `bytes`.
napi_value crc32_call(napi_env env, napi_callback_info info) {
  Arguments call(env, info);
  Bytes bytes = call.bytes(0);
  size_t before = call.index(1, 0xffffffffu);
  if (!call.ok()) return nullptr;
  return number(env, crc32(bytes.data, bytes.length, static_cast<uint32_t>(before)));
}

/// processor() -> what the loops of the addon are made for here.
napi_value processor(napi_env env, napi_callback_info) {
  napi_value text = nullptr;
  napi_create_string_utf8(env, processor_name(), NAPI_AUTO_LENGTH, &text);
  return text;
}

/// isWide() -> whether sums are taken in 512-bit registers.
napi_value is_wide(napi_env env, napi_callback_info) {
  napi_value result = nullptr;
  napi_get_boolean(env, has_wide_products(), &result);
  return result;
}

}  // namespace

void register_checksum(napi_env env, napi_value exports) {
  define(env, exports, "processor", processor);
  define(env, exports, "isWide", is_wide);
  define(env, exports, "crc32", crc32_call);
}

}  // namespace kvtier
