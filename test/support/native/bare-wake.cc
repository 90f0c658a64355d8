// An addon that hands a thread something to do and is woken when it is done, and does nothing else: the floor of what any
// work on another thread costs JavaScript.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "arguments.h"

namespace {

constexpr size_t kBusyBytes = 4u << 20;

struct Worker {
  std::mutex lock;
  std::condition_variable come;
  size_t wanted = 0;
  size_t busyMicroseconds = 0;
  napi_threadsafe_function called = nullptr;
};
Worker* worker = nullptr;

void work() {
  std::vector<unsigned char> memory(kBusyBytes);
  for (size_t done = 0;; done += 1) {
    std::chrono::microseconds busy{0};
    {
      std::unique_lock<std::mutex> hold(worker->lock);
      worker->come.wait(hold, [&] { return worker->wanted > done; });
      busy = std::chrono::microseconds(worker->busyMicroseconds);
    }
    const auto end = std::chrono::steady_clock::now() + busy;
    do {
      for (size_t at = 0; at < memory.size(); at += 4096) memory[at + done % 4096] += 1;
    } while (std::chrono::steady_clock::now() < end);
    napi_call_threadsafe_function(worker->called, nullptr, napi_tsfn_nonblocking);
  }
}

/// start(called): a thread that lasts as long as the process.
napi_value start(napi_env env, napi_callback_info info) {
  kvtier::Arguments arguments(env, info);
  napi_value called = arguments.value(0);
  if (!arguments.ok()) return nullptr;
  worker = new Worker;
  napi_value name = nullptr;
  napi_create_string_utf8(env, "bare wake", NAPI_AUTO_LENGTH, &name);
  napi_create_threadsafe_function(env, called, nullptr, name, 0, 1, nullptr, nullptr, nullptr, nullptr, &worker->called);
  std::thread(work).detach();
  return kvtier::undefined(env);
}

/// ask(busyMicroseconds): the thread works on memory for a while, and calls `called`.
napi_value ask(napi_env env, napi_callback_info info) {
  kvtier::Arguments arguments(env, info);
  const size_t busy = arguments.index(0, 1000000);
  if (!arguments.ok()) return nullptr;
  const std::lock_guard<std::mutex> hold(worker->lock);
  worker->busyMicroseconds = busy;
  worker->wanted += 1;
  worker->come.notify_one();
  return kvtier::undefined(env);
}

}  // namespace

NAPI_MODULE_INIT() {
  kvtier::define(env, exports, "start", start);
  kvtier::define(env, exports, "ask", ask);
  return exports;
}
