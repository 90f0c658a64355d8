// An open device, as one environment of JavaScript has it, and what every function of it begins and ends with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "binding-waker.h"
#include "gpu.h"

namespace kvtier {

constexpr double kMostBytes = 9007199254740992.0;
constexpr std::size_t kMostCopies = 1u << 24;
/** Streams, pools and layouts of a device at most. */
constexpr std::size_t kMostNumbers = 1u << 16;
/** Numbers of one fence in the mail: id, seconds, result, copies, method, bad piece (-1 = none). */
constexpr std::size_t kMailWords = 6;

/** Used on the thread of its environment alone, but for the outbox. */
struct Handle {
  napi_env env = nullptr;
  std::shared_ptr<cuda::Gpu> gpu;
  std::shared_ptr<cuda::Outbox> outbox;
  Waker* waker = nullptr;
  /** What the device reads and writes: the host's memory, and the lists of blocks it was given. */
  std::vector<napi_ref> held;
  napi_ref mail = nullptr;
  napi_ref onFences = nullptr;
  napi_async_context context = nullptr;
  double* mailWords = nullptr;
  std::size_t mailFences = 0;
  std::vector<cuda::Fence> taken;
  std::size_t pending = 0;
};

using Shared = std::shared_ptr<Handle>;
/** A function of an open device. What it returns counts only where its arguments were right. */
using DeviceCall = napi_value (*)(Handle& handle, Arguments& arguments);

/** The handle behind the function that is called, open or not. */
Shared& sharedOf(napi_env env, napi_callback_info info);
/** The functions of a device share its handle; the last of them frees it. */
void addFunction(napi_env env, napi_value object, const char* name, napi_callback call, const Shared& handle);

/** Gives fences that have come to JavaScript, as many a call as the mail holds. */
void deliver(const Shared& handle);
/** Keeps a value, and so its memory, until the device is closed and has let go of it. */
void hold(Handle& handle, napi_value value);
/** Counts the transfers whose fence has not come: while there are any, the environment stays alive. */
void countPending(Handle& handle, std::size_t pending);
/** @return false when the device did not come to rest: then what it holds is kept for good. */
bool closeHandle(Handle& handle, int64_t limitMs);

/** An error for JavaScript once the device is closed, or when an argument is wrong; else what the call returns. */
template <DeviceCall call>
napi_value onOpenDevice(napi_env env, napi_callback_info info) {
  const Shared& handle = sharedOf(env, info);
  if (handle->gpu == nullptr) {
    napi_throw_error(env, "ERR_CLOSED", "the device is closed");
    return nullptr;
  }
  Arguments arguments(env, info);
  napi_value result = call(*handle, arguments);
  return arguments.ok() ? result : nullptr;
}

/** Text of an argument; empty when it is none. */
std::string textOf(Arguments& arguments, std::size_t at);
napi_value string(napi_env env, const std::string& text);
/** A number, or the reason as a string. */
napi_value numberOr(napi_env env, int value, const std::string& reason);

// Of the device's object, by the file they lie in.
// binding-transfers.cc
napi_value createStream(Handle& handle, Arguments& arguments);
napi_value waitFor(Handle& handle, Arguments& arguments);
napi_value submit(Handle& handle, Arguments& arguments);
napi_value submitPaged(Handle& handle, Arguments& arguments);
napi_value submitRuns(Handle& handle, Arguments& arguments);
napi_value useBlocks(Handle& handle, Arguments& arguments);
napi_value semaphore(Handle& handle, Arguments& arguments);
// binding-pools.cc
napi_value addLayout(Handle& handle, Arguments& arguments);
napi_value exportPool(Handle& handle, Arguments& arguments);
napi_value importPool(Handle& handle, Arguments& arguments);
napi_value closePool(Handle& handle, Arguments& arguments);
// binding-figures.cc
napi_value measure(Handle& handle, Arguments& arguments);
napi_value figures(Handle& handle, Arguments& arguments);
napi_value nameOf(Handle& handle, Arguments& arguments);
napi_value lostWith(Handle& handle, Arguments& arguments);

}  // namespace kvtier
