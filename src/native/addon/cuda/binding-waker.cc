#include "binding-waker.h"

namespace kvtier {

Waker* Waker::make(napi_env env, std::function<void()> onWake, std::function<void()> onEnd) {
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) return nullptr;
  auto* waker = new Waker(env, std::move(onWake), std::move(onEnd));
  waker->async_.data = waker;
  if (uv_async_init(loop, &waker->async_, woken) != 0) {
    delete waker;
    return nullptr;
  }
  uv_unref(reinterpret_cast<uv_handle_t*>(&waker->async_));
  // The loop of an environment must not end with handles in it: the environment waits for those that have a hook.
  if (napi_add_async_cleanup_hook(env, ended, waker, &waker->hook_) == napi_ok) return waker;
  waker->close();
  return nullptr;
}

void Waker::keepAlive(bool isNeeded) {
  auto* handle = reinterpret_cast<uv_handle_t*>(&async_);
  if (isNeeded) uv_ref(handle);
  else uv_unref(handle);
}

void Waker::close() {
  if (isClosed_) return;
  isClosed_ = true;
  uv_close(reinterpret_cast<uv_handle_t*>(&async_), [](uv_handle_t* handle) {
    auto* waker = static_cast<Waker*>(handle->data);
    if (waker->hook_ != nullptr) napi_remove_async_cleanup_hook(waker->hook_);
    delete waker;
  });
}

void Waker::woken(uv_async_t* async) {
  auto* waker = static_cast<Waker*>(async->data);
  if (waker->isClosed_) return;
  napi_handle_scope scope = nullptr;
  if (napi_open_handle_scope(waker->env_, &scope) != napi_ok) return;
  const napi_env env = waker->env_;
  waker->onWake_();
  napi_close_handle_scope(env, scope);
}

void Waker::ended(napi_async_cleanup_hook_handle, void* data) {
  auto* waker = static_cast<Waker*>(data);
  if (!waker->isClosed_) waker->onEnd_();
  waker->close();
}

}  // namespace kvtier
