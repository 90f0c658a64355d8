// What JavaScript sees of a CUDA device: `cudaProbe` and `cudaOpen` of the addon, and the functions of an open device.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../arguments.h"
#include "gpu.h"
#include "json.h"
#include "probe.h"

namespace kvtier {

namespace {

using cuda::Fence;
using cuda::Gpu;
using cuda::Outbox;

constexpr double kMostBytes = 9007199254740992.0;
constexpr std::size_t kMostCopies = 1u << 24;
/** Numbers of one fence in the mail: id, seconds, result, copies, method. */
constexpr std::size_t kMailWords = 5;

/** An open device, as one environment of JavaScript has it. Used on that thread alone, but for the outbox. */
struct Handle {
  napi_env env = nullptr;
  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<Outbox> outbox;
  napi_threadsafe_function wake = nullptr;
  napi_ref host = nullptr;
  napi_ref mail = nullptr;
  double* mailWords = nullptr;
  std::size_t mailFences = 0;
  std::vector<Fence> taken;
  std::size_t pending = 0;
  /** What the hook at the end of the environment was given; null once it has run or was taken back. */
  std::shared_ptr<Handle>* atExit = nullptr;
};

using Shared = std::shared_ptr<Handle>;

std::string textOf(Arguments& arguments, size_t at) {
  napi_value from = arguments.value(at);
  if (!arguments.ok()) return "";
  size_t length = 0;
  if (napi_get_value_string_utf8(arguments.env(), from, nullptr, 0, &length) != napi_ok) {
    arguments.fail("not a string");
    return "";
  }
  std::string text(length, '\0');
  napi_get_value_string_utf8(arguments.env(), from, text.data(), length + 1, &length);
  return text;
}

bool flagOf(Arguments& arguments, size_t at) { return arguments.index(at, 1) == 1; }

napi_value string(napi_env env, const std::string& text) {
  napi_value result = nullptr;
  napi_create_string_utf8(env, text.data(), text.size(), &result);
  return result;
}

/** A number, or the reason as a string. */
napi_value numberOr(napi_env env, int value, const std::string& reason) {
  return value >= 0 ? number(env, value) : string(env, reason);
}

void countPending(Handle& handle, std::size_t pending) {
  if (handle.wake != nullptr && (handle.pending == 0) != (pending == 0)) {
    if (pending == 0) napi_unref_threadsafe_function(handle.env, handle.wake);
    else napi_ref_threadsafe_function(handle.env, handle.wake);
  }
  handle.pending = pending;
}

/** Gives all fences that have come to JavaScript, as many a call as the mail holds. */
void deliver(napi_env env, napi_value call, void* context, void*) {
  if (env == nullptr || call == nullptr) return;
  const Shared handle = *static_cast<Shared*>(context);
  if (handle->mail == nullptr) return;
  handle->taken.clear();
  handle->outbox->take(handle->taken);
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
    }
    first += count;
    countPending(*handle, handle->pending - count);
    napi_value argument = number(env, static_cast<double>(count));
    if (napi_call_function(env, self, call, 1, &argument, nullptr) == napi_pending_exception) {
      napi_value error = nullptr;
      napi_get_and_clear_last_exception(env, &error);
      napi_fatal_exception(env, error);
    }
  }
}

bool closeHandle(Handle& handle, int64_t limitMs);

void closeAtExit(void* data) {
  auto* owned = static_cast<Shared*>(data);
  (*owned)->atExit = nullptr;
  closeHandle(**owned, 2000);
  delete owned;
}

/** The functions of a device share its handle; the last of them frees it. */
Shared* sharedOf(napi_env env, napi_callback_info info) {
  void* data = nullptr;
  napi_get_cb_info(env, info, nullptr, nullptr, nullptr, &data);
  return static_cast<Shared*>(data);
}

bool closeHandle(Handle& handle, int64_t limitMs) {
  if (handle.gpu == nullptr) return true;
  if (handle.atExit != nullptr) {
    napi_remove_env_cleanup_hook(handle.env, closeAtExit, handle.atExit);
    delete handle.atExit;
    handle.atExit = nullptr;
  }
  const bool isAtRest = handle.gpu->close(std::chrono::milliseconds(limitMs));
  handle.outbox->close();
  countPending(handle, 0);
  napi_release_threadsafe_function(handle.wake, napi_tsfn_abort);
  handle.wake = nullptr;
  handle.gpu.reset();
  // A device that did not come to rest may still write into the host's memory: then that is never freed.
  if (isAtRest && handle.host != nullptr) napi_delete_reference(handle.env, handle.host);
  if (handle.mail != nullptr) napi_delete_reference(handle.env, handle.mail);
  handle.host = nullptr;
  handle.mail = nullptr;
  return isAtRest;
}

/** The handle of the device whose function is called; null, with an error for JavaScript, once it is closed. */
Handle* openHandle(napi_env env, napi_callback_info info) {
  Handle* handle = sharedOf(env, info)->get();
  if (handle->gpu != nullptr) return handle;
  napi_throw_error(env, "ERR_CLOSED", "the device is closed");
  return nullptr;
}

napi_value createStream(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  return handle == nullptr ? nullptr : number(env, handle->gpu->createStream());
}

napi_value waitFor(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  const size_t lane = arguments.index(0, 1u << 16);
  const size_t earlier = arguments.index(1, 1u << 16);
  if (!arguments.ok()) return nullptr;
  handle->gpu->wait(lane, earlier);
  return undefined(env);
}

/** Takes an array of `count` words out of a view that must have as many. */
template <typename Word>
void copyWords(Arguments& arguments, size_t at, size_t count, std::vector<Word>& out, size_t first) {
  const Bytes from = arguments.words(at, sizeof(Word));
  if (arguments.ok() && from.length < count) arguments.range("an array is shorter than its count");
  if (arguments.ok() && count > 0) std::memcpy(out.data() + first, from.data, count * sizeof(Word));
}

void begin(Arguments& arguments, Handle& handle, cuda::Transfer& transfer) {
  transfer.id = static_cast<double>(arguments.index(0, 0xffffffffu));
  transfer.lane = arguments.index(1, 1u << 16);
  transfer.isStore = flagOf(arguments, 2);
  if (arguments.ok() && transfer.lane >= handle.gpu->streams()) arguments.range("no such stream");
}

// submit(id, stream, isStore, pool, count, deviceOffsets, hostOffsets, lengths)
napi_value submit(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  auto transfer = handle->gpu->blank();
  begin(arguments, *handle, *transfer);
  transfer->pool = static_cast<std::uint32_t>(arguments.index(3, 1u << 16));
  const size_t count = arguments.index(4, kMostCopies);
  if (!arguments.ok()) return nullptr;
  transfer->count = count;
  if (transfer->offsets.size() < count * 3) transfer->offsets.resize(count * 3);
  for (size_t i = 0; i < 3; i += 1) copyWords(arguments, 5 + i, count, transfer->offsets, i * count);
  if (!arguments.ok()) return nullptr;
  countPending(*handle, handle->pending + 1);
  handle->gpu->submit(std::move(transfer));
  return undefined(env);
}

// submitPaged(id, stream, isStore, layout, blocks, blockCount, hostOffsets, shards)
napi_value submitPaged(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  auto transfer = handle->gpu->blank();
  begin(arguments, *handle, *transfer);
  transfer->layout = static_cast<std::int32_t>(arguments.index(3, 1u << 16));
  const size_t blocks = arguments.index(5, kMostCopies);
  const size_t shards = arguments.index(7, kMostCopies);
  if (!arguments.ok()) return nullptr;
  if (shards == 0 || blocks == 0 || blocks % shards != 0) {
    arguments.range("each shard has the same number of blocks");
    return nullptr;
  }
  transfer->blocks.resize(blocks);
  transfer->hostOffsets.resize(shards);
  transfer->blocksPerShard = blocks / shards;
  copyWords(arguments, 4, blocks, transfer->blocks, 0);
  copyWords(arguments, 6, shards, transfer->hostOffsets, 0);
  if (!arguments.ok()) return nullptr;
  countPending(*handle, handle->pending + 1);
  handle->gpu->submit(std::move(transfer));
  return undefined(env);
}

// addLayout(pool, planes, blockStride, blockBytes)
napi_value addLayout(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  cuda::PagedLayout layout;
  layout.pool = static_cast<std::uint32_t>(arguments.index(0, 1u << 16));
  const Bytes planes = arguments.words(1, sizeof(double));
  layout.blockStride = arguments.index(2, static_cast<size_t>(kMostBytes));
  layout.blockBytes = arguments.index(3, static_cast<size_t>(kMostBytes));
  if (!arguments.ok()) return nullptr;
  for (size_t i = 0; i < planes.length; i += 1) {
    double plane = 0;
    std::memcpy(&plane, planes.data + i * sizeof plane, sizeof plane);
    if (!(plane >= 0) || plane > kMostBytes || std::floor(plane) != plane) {
      arguments.range("a plane is a whole number of bytes");
      return nullptr;
    }
    layout.planes.push_back(static_cast<std::uint64_t>(plane));
  }
  std::string reason;
  const int made = handle->gpu->addLayout(std::move(layout), reason);
  return numberOr(env, made, reason);
}

napi_value exportPool(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  cuda::IpcHandle shared{};
  std::string reason;
  if (!handle->gpu->exportPool(shared, reason)) return string(env, reason);
  napi_value buffer = nullptr;
  napi_create_buffer_copy(env, sizeof shared.reserved, shared.reserved, nullptr, &buffer);
  return buffer;
}

// importPool(handle, offset, bytes)
napi_value importPool(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  const Bytes bytes = arguments.bytes(0);
  const size_t offset = arguments.index(1, static_cast<size_t>(kMostBytes));
  const size_t length = arguments.index(2, static_cast<size_t>(kMostBytes));
  if (arguments.ok() && bytes.length != cuda::IPC_HANDLE_BYTES) arguments.range("an IPC handle has 64 bytes");
  if (!arguments.ok()) return nullptr;
  cuda::IpcHandle shared{};
  std::memcpy(shared.reserved, bytes.data, sizeof shared.reserved);
  std::string reason;
  const int pool = handle->gpu->importPool(shared, offset, length, reason);
  return numberOr(env, pool, reason);
}

napi_value closePool(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  const size_t pool = arguments.index(0, 1u << 16);
  if (!arguments.ok()) return nullptr;
  handle->gpu->closePool(static_cast<std::uint32_t>(pool));
  return undefined(env);
}

// semaphore(isSignal, stream, pool, offset, value)
napi_value semaphore(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  const bool isSignal = flagOf(arguments, 0);
  const size_t lane = arguments.index(1, 1u << 16);
  const auto pool = static_cast<std::uint32_t>(arguments.index(2, 1u << 16));
  const size_t offset = arguments.index(3, static_cast<size_t>(kMostBytes));
  const size_t value = arguments.index(4, static_cast<size_t>(kMostBytes));
  if (!arguments.ok()) return nullptr;
  if (isSignal) handle->gpu->signal(lane, pool, offset, value);
  else handle->gpu->waitForValue(lane, pool, offset, value);
  return undefined(env);
}

napi_value measure(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  const double seconds = arguments.number(0);
  if (!arguments.ok()) return nullptr;
  handle->gpu->measure(seconds);
  return undefined(env);
}

/** Figures of the device, as JSON. */
napi_value figures(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  static const char* const names[] = {"loop", "batch", "kernel"};
  Gpu& gpu = *handle->gpu;
  const cuda::GpuStats stats = gpu.stats();
  std::string methods;
  for (std::uint32_t i = 0; i < cuda::METHODS; i += 1) {
    const std::string reason = gpu.methodReason(static_cast<cuda::Method>(i));
    methods += std::string(i == 0 ? "" : ",") + "{\"name\":\"" + names[i] +
               "\",\"available\":" + (reason.empty() ? "true" : "false") + ",\"reason\":" + cuda::quoted(reason) +
               ",\"transfers\":" + std::to_string(stats.transfers[i]) + "}";
  }
  std::string table;
  for (const auto& row : gpu.table()) {
    table += std::string(table.empty() ? "" : ",") + "{\"direction\":\"" + (row.isStore ? "store" : "load") +
             "\",\"pieceBytes\":" + std::to_string(row.pieceBytes) + ",\"count\":" + std::to_string(row.count);
    for (std::size_t i = 0; i < cuda::METHODS; i += 1) {
      table += std::string(",\"") + names[i] + "Seconds\":" + cuda::numeral(row.seconds[i]);
    }
    table += "}";
  }
  return string(env, "{\"methods\":[" + methods + "],\"table\":[" + table +
                         "],\"poolBytes\":" + std::to_string(stats.poolBytes) +
                         ",\"pinnedBytes\":" + std::to_string(stats.pinnedBytes) +
                         ",\"importedPools\":" + std::to_string(stats.importedPools) +
                         ",\"failures\":" + std::to_string(stats.failures) +
                         ",\"wakes\":" + std::to_string(handle->outbox->wakes()) +
                         ",\"lostWith\":" + std::to_string(gpu.lostWith()) + "}");
}

napi_value nameOfResult(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  if (handle == nullptr) return nullptr;
  Arguments arguments(env, info);
  const double result = arguments.number(0);
  if (!arguments.ok()) return nullptr;
  return string(env, handle->gpu->driver().nameOf(static_cast<cuda::Result>(result)));
}

napi_value lostWith(napi_env env, napi_callback_info info) {
  Handle* handle = openHandle(env, info);
  return handle == nullptr ? nullptr : number(env, handle->gpu->lostWith());
}

napi_value closeDevice(napi_env env, napi_callback_info info) {
  Shared* shared = sharedOf(env, info);
  Arguments arguments(env, info);
  const size_t limitMs = arguments.index(0, 3'600'000);
  if (!arguments.ok()) return nullptr;
  const bool isAtRest = closeHandle(**shared, static_cast<int64_t>(limitMs));
  napi_value result = nullptr;
  napi_get_boolean(env, isAtRest, &result);
  return result;
}

constexpr struct {
  const char* name;
  napi_callback call;
} kFunctions[] = {
    {"createStream", createStream}, {"wait", waitFor},           {"submit", submit},
    {"submitPaged", submitPaged},   {"addLayout", addLayout},    {"exportPool", exportPool},
    {"importPool", importPool},     {"closePool", closePool},    {"semaphore", semaphore},
    {"measure", measure},           {"figures", figures},        {"nameOf", nameOfResult},
    {"lostWith", lostWith},         {"close", closeDevice},
};

napi_value deviceObject(napi_env env, const Shared& handle) {
  napi_value object = nullptr;
  napi_create_object(env, &object);
  for (const auto& one : kFunctions) {
    auto* data = new Shared(handle);
    napi_value function = nullptr;
    napi_create_function(env, one.name, NAPI_AUTO_LENGTH, one.call, data, &function);
    const auto forget = [](napi_env, void* owned, void*) { delete static_cast<Shared*>(owned); };
    napi_add_finalizer(env, function, data, forget, nullptr, nullptr);
    napi_set_named_property(env, object, one.name, function);
  }
  return object;
}

napi_value failureOf(napi_env env, const cuda::OpenFailure& failure) {
  static const char* const steps[] = {"none", "driver", "device", "pool", "host", "streams"};
  return string(env, std::string("{\"step\":\"") + steps[static_cast<int>(failure.step)] +
                         "\",\"result\":" + std::to_string(failure.result) +
                         ",\"reason\":" + cuda::quoted(failure.reason) + "}");
}

// cudaOpen(library, ordinal, poolBytes, host | null, methods, mail, onFences): functions, or a failure as JSON
napi_value open(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  cuda::GpuOptions options;
  options.library = textOf(arguments, 0);
  options.ordinal = static_cast<int>(arguments.index(1, 1u << 16));
  options.poolBytes = arguments.index(2, static_cast<size_t>(kMostBytes));
  options.methods = static_cast<unsigned>(arguments.index(4, cuda::ALL_METHODS));
  const Bytes mail = arguments.words(5, sizeof(double));
  napi_value host = arguments.value(3);
  napi_value onFences = arguments.value(6);
  if (!arguments.ok()) return nullptr;
  napi_valuetype hostType = napi_undefined;
  napi_typeof(env, host, &hostType);
  if (hostType != napi_null) {
    const Bytes bytes = arguments.bytes(3);
    if (!arguments.ok()) return nullptr;
    options.host = bytes.data;
    options.hostBytes = bytes.length;
  }
  if (mail.length < kMailWords) {
    arguments.range("the mail holds one fence at least");
    return nullptr;
  }
  auto handle = std::make_shared<Handle>();
  handle->env = env;
  handle->mailWords = reinterpret_cast<double*>(mail.data);
  handle->mailFences = mail.length / kMailWords;
  auto* context = new Shared(handle);
  const auto forget = [](napi_env, void*, void* owned) { delete static_cast<Shared*>(owned); };
  const napi_status made = napi_create_threadsafe_function(env, onFences, nullptr, string(env, "kvtier fences"), 0, 1,
                                                           nullptr, forget, context, deliver, &handle->wake);
  if (made != napi_ok) {
    delete context;
    arguments.fail("onFences is not a function");
    return nullptr;
  }
  napi_unref_threadsafe_function(env, handle->wake);
  const napi_threadsafe_function wake = handle->wake;
  handle->outbox = std::make_shared<Outbox>([wake] {
    napi_call_threadsafe_function(wake, nullptr, napi_tsfn_nonblocking);
  });
  cuda::OpenFailure failure;
  handle->gpu = Gpu::open(options, handle->outbox, failure);
  if (handle->gpu == nullptr) {
    napi_release_threadsafe_function(handle->wake, napi_tsfn_abort);
    return failureOf(env, failure);
  }
  if (options.host != nullptr) napi_create_reference(env, host, 1, &handle->host);
  napi_create_reference(env, arguments.value(5), 1, &handle->mail);
  handle->atExit = new Shared(handle);
  napi_add_env_cleanup_hook(env, closeAtExit, handle->atExit);
  return deviceObject(env, handle);
}

napi_value probe(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  const std::string library = textOf(arguments, 0);
  return arguments.ok() ? string(env, cuda::probe(library)) : nullptr;
}

}  // namespace

void register_cuda(napi_env env, napi_value exports) {
  define(env, exports, "cudaProbe", probe);
  define(env, exports, "cudaOpen", open);
}

}  // namespace kvtier
