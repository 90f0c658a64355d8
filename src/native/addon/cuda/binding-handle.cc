#include "binding-handle.h"

#include <algorithm>

namespace kvtier {

using cuda::Fence;

Shared& sharedOf(napi_env env, napi_callback_info info) {
  void* data = nullptr;
  napi_get_cb_info(env, info, nullptr, nullptr, nullptr, &data);
  return *static_cast<Shared*>(data);
}

void addFunction(napi_env env, napi_value object, const char* name, napi_callback call, const Shared& handle) {
  auto* data = new Shared(handle);
  napi_value function = nullptr;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, call, data, &function);
  const auto forget = [](napi_env, void* owned, void*) { delete static_cast<Shared*>(owned); };
  napi_add_finalizer(env, function, data, forget, nullptr, nullptr);
  napi_set_named_property(env, object, name, function);
}

void hold(Handle& handle, napi_value value) {
  napi_ref reference = nullptr;
  if (napi_create_reference(handle.env, value, 1, &reference) == napi_ok) handle.held.push_back(reference);
}

void countPending(Handle& handle, std::size_t pending) {
  const bool isNeeded = pending > 0;
  if (handle.waker != nullptr && (handle.pending > 0) != isNeeded) handle.waker->keepAlive(isNeeded);
  handle.pending = pending;
}

void deliver(const Shared& handle) {
  handle->taken.clear();
  handle->outbox->take(handle->taken);
  const napi_env env = handle->env;
  napi_callback_scope scope = nullptr;
  napi_value call = nullptr;
  // An environment that is ending has no scopes any more, and its transfers no receiver.
  if (handle->taken.empty() || napi_open_callback_scope(env, nullptr, handle->context, &scope) != napi_ok) return;
  napi_get_reference_value(env, handle->onFences, &call);
  napi_value self = undefined(env);
  for (std::size_t first = 0; first < handle->taken.size() && handle->mail != nullptr;) {
    const std::size_t count = std::min(handle->mailFences, handle->taken.size() - first);
    for (std::size_t i = 0; i < count; i += 1) {
      const Fence& fence = handle->taken[first + i];
      double* words = handle->mailWords + i * kMailWords;
      words[0] = fence.id;
      words[1] = fence.seconds;
      words[2] = fence.result;
      words[3] = fence.copies;
      words[4] = fence.method;
      words[5] = fence.badPiece == cuda::NO_PIECE ? -1 : fence.badPiece;
    }
    first += count;
    countPending(*handle, handle->pending - count);
    napi_value values[] = {number(env, static_cast<double>(count)), number(env, handle->gpu->lostWith())};
    if (napi_call_function(env, self, call, 2, values, nullptr) == napi_pending_exception) {
      napi_value error = nullptr;
      napi_get_and_clear_last_exception(env, &error);
      napi_fatal_exception(env, error);
    }
  }
  napi_close_callback_scope(env, scope);
}

bool closeHandle(Handle& handle, int64_t limitMs) {
  if (handle.gpu == nullptr) return true;
  const bool isAtRest = handle.gpu->close(std::chrono::milliseconds(limitMs));
  handle.outbox->close();
  handle.waker->close();
  handle.waker = nullptr;
  handle.pending = 0;
  // Memory that a device may still write, or has locked in place, is never freed.
  if (isAtRest && handle.gpu->isHostFree()) {
    for (napi_ref one : handle.held) napi_delete_reference(handle.env, one);
  }
  handle.held.clear();
  handle.gpu.reset();
  for (napi_ref one : {handle.mail, handle.onFences}) napi_delete_reference(handle.env, one);
  handle.mail = nullptr;
  handle.onFences = nullptr;
  napi_async_destroy(handle.env, handle.context);
  return isAtRest;
}

std::string textOf(Arguments& arguments, std::size_t at) {
  napi_value from = arguments.value(at);
  if (!arguments.ok()) return "";
  std::size_t length = 0;
  if (napi_get_value_string_utf8(arguments.env(), from, nullptr, 0, &length) != napi_ok) {
    arguments.fail("not a string");
    return "";
  }
  std::string text(length, '\0');
  napi_get_value_string_utf8(arguments.env(), from, text.data(), length + 1, &length);
  return text;
}

napi_value string(napi_env env, const std::string& text) {
  napi_value result = nullptr;
  napi_create_string_utf8(env, text.data(), text.size(), &result);
  return result;
}

napi_value numberOr(napi_env env, int value, const std::string& reason) {
  return value >= 0 ? number(env, value) : string(env, reason);
}

}  // namespace kvtier
