// The arguments of one call from JavaScript, checked: every function of the addon reads them through here.
// A wrong argument leaves a TypeError or a RangeError behind and makes `ok()` false; nothing else may be done then.
#pragma once

#include <cstddef>
#include <cstdint>

#define NAPI_VERSION 9
#include <node_api.h>

namespace kvtier {

/// Memory of a typed array or a Buffer, as long as the call lasts.
struct Bytes {
  uint8_t* data = nullptr;
  size_t length = 0;
};

class Arguments {
 public:
  static constexpr size_t kMost = 12;

  Arguments(napi_env env, napi_callback_info info) : env_(env) {
    if (napi_get_cb_info(env, info, &count_, values_, nullptr, nullptr) != napi_ok) fail("no arguments");
    if (count_ > kMost) count_ = kMost;
  }

  napi_env env() const { return env_; }
  bool ok() const { return ok_; }
  size_t count() const { return count_; }

  napi_value value(size_t at) {
    if (at >= count_) fail("too few arguments");
    return ok_ ? values_[at] : nullptr;
  }

  /// Bytes of any view. A detached one has none.
  Bytes bytes(size_t at) { return view(at, 1, 1); }

  /// Words of 4 or 8 bytes: a Uint32Array, a Float64Array. `length` counts words.
  Bytes words(size_t at, size_t word_bytes) {
    Bytes all = view(at, word_bytes, word_bytes);
    all.length /= word_bytes;
    return all;
  }

  /// A whole number from 0 to `most`.
  size_t index(size_t at, size_t most) {
    double number = this->number(at);
    if (!ok_) return 0;
    if (!(number >= 0) || number > static_cast<double>(most) || number != static_cast<double>(static_cast<size_t>(number))) {
      range("a number is out of range");
      return 0;
    }
    return static_cast<size_t>(number);
  }

  double number(size_t at) {
    double number = 0;
    napi_value from = value(at);
    if (ok_ && napi_get_value_double(env_, from, &number) != napi_ok) fail("not a number");
    return number;
  }

  void fail(const char* message) {
    if (ok_) napi_throw_type_error(env_, "ERR_INVALID_ARG_TYPE", message);
    ok_ = false;
  }

  void range(const char* message) {
    if (ok_) napi_throw_range_error(env_, "ERR_OUT_OF_RANGE", message);
    ok_ = false;
  }

 private:
  Bytes view(size_t at, size_t word_bytes, size_t alignment) {
    Bytes found;
    napi_value from = value(at);
    if (!ok_) return found;
    bool is_view = false;
    void* data = nullptr;
    if (napi_is_typedarray(env_, from, &is_view) == napi_ok && is_view) {
      napi_typedarray_type type;
      size_t length = 0;
      if (napi_get_typedarray_info(env_, from, &type, &length, &data, nullptr, nullptr) != napi_ok) {
        fail("not a view of memory");
        return found;
      }
      size_t width = width_of(type);
      if (word_bytes != 1 && width != word_bytes) fail("a view of words of another size");
      found.length = length * width;
    } else {
      fail("not a typed array");
    }
    if (reinterpret_cast<uintptr_t>(data) % alignment != 0) fail("a view that is not aligned");
    found.data = static_cast<uint8_t*>(data);
    return found;
  }

  static size_t width_of(napi_typedarray_type type) {
    switch (type) {
      case napi_int16_array:
      case napi_uint16_array:
        return 2;
      case napi_int32_array:
      case napi_uint32_array:
      case napi_float32_array:
        return 4;
      case napi_float64_array:
      case napi_bigint64_array:
      case napi_biguint64_array:
        return 8;
      default:
        return 1;
    }
  }

  napi_env env_;
  size_t count_ = kMost;
  napi_value values_[kMost] = {};
  bool ok_ = true;
};

/// True when bytes [from, from + length) lie within `total`.
inline bool is_within(size_t from, size_t length, size_t total) { return from <= total && length <= total - from; }

inline napi_value undefined(napi_env env) {
  napi_value result = nullptr;
  napi_get_undefined(env, &result);
  return result;
}

inline napi_value number(napi_env env, double value) {
  napi_value result = nullptr;
  napi_create_double(env, value, &result);
  return result;
}

/// Puts a function into the exports.
inline void define(napi_env env, napi_value exports, const char* name, napi_callback call) {
  napi_value function = nullptr;
  if (napi_create_function(env, name, NAPI_AUTO_LENGTH, call, nullptr, &function) != napi_ok) return;
  napi_set_named_property(env, exports, name, function);
}

}  // namespace kvtier
