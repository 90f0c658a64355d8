// What this processor can do. Code for newer ones is compiled always and chosen here, at run time.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvtier {

/// 512-bit registers, and products of polynomials in them.
inline bool has_wide_products() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("vpclmulqdq") &&
                          __builtin_cpu_supports("pclmul");
  return has;
#else
  return false;
#endif
}

inline const char* processor_name() {
#if defined(__x86_64__)
  return has_wide_products() ? "x86-64 with avx512" : "x86-64";
#elif defined(__aarch64__)
  return "arm64";
#else
  return "portable";
#endif
}

}  // namespace kvtier
