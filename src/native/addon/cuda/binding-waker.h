// Wakes the event loop of one environment from any thread: a handle of libuv, and no more. A thread-safe function of
// Node-API would do the same through a queue, a lock and an async resource of its own, at half as much again.
//
//   make --> open --close--> closing --the loop comes round--> freed
//              \---the environment ends: it waits for this----/
#pragma once

#include <functional>

#include "../arguments.h"

#include <uv.h>

namespace kvtier {

class Waker {
 public:
  /**
   * On the thread of the environment, which it does not keep alive before `keepAlive`.
   *
   * @param onWake called on that thread, once for any number of wakes before it, with a scope for handles.
   * @param onEnd called there when the environment ends before `close` was called; it is closed afterwards.
   * @return null when the environment is ending. Freed by itself, some time after `close`.
   */
  static Waker* make(napi_env env, std::function<void()> onWake, std::function<void()> onEnd);

  /** From any thread, not after `close`. */
  void wake() { uv_async_send(&async_); }

  /** Whether the environment stays alive for it. */
  void keepAlive(bool isNeeded);

  /** Neither callback is called any more. Idempotent. */
  void close();

 private:
  Waker(napi_env env, std::function<void()> onWake, std::function<void()> onEnd)
      : env_(env), onWake_(std::move(onWake)), onEnd_(std::move(onEnd)) {}

  static void woken(uv_async_t* async);
  static void ended(napi_async_cleanup_hook_handle hook, void* data);

  napi_env env_;
  std::function<void()> onWake_;
  std::function<void()> onEnd_;
  uv_async_t async_{};
  napi_async_cleanup_hook_handle hook_ = nullptr;
  bool isClosed_ = false;
};

}  // namespace kvtier
