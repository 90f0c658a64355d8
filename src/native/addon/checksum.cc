// Checksums of arena bytes: the crc32 of zlib (polynomial 0xEDB88320, reflected).
#include "parts.h"

namespace kvtier {
namespace {

/// processor(): what instruction sets this processor has of those that the addon knows.
napi_value processor(napi_env env, napi_callback_info) {
  const char* name = "plain";
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) name = "avx2";
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("vpclmulqdq")) {
    name = "avx512";
  }
#endif
  napi_value text = nullptr;
  napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &text);
  return text;
}

}  // namespace

void register_checksum(napi_env env, napi_value exports) { define(env, exports, "processor", processor); }

}  // namespace kvtier
