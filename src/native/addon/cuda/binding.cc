// What JavaScript sees of a CUDA device: `cudaProbe` and `cudaOpen` of the addon, and the functions of an open device.
#include "binding-handle.h"
#include "json.h"
#include "probe.h"

namespace kvtier {

namespace {

using cuda::Gpu;
using cuda::Outbox;

/** What the end of an environment waits for transfers under way. */
constexpr int64_t kEndMs = 10000;

napi_value closeDevice(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  const std::size_t limitMs = arguments.index(0, 3'600'000);
  if (!arguments.ok()) return nullptr;
  const bool isAtRest = closeHandle(*sharedOf(env, info), static_cast<int64_t>(limitMs));
  napi_value result = nullptr;
  napi_get_boolean(env, isAtRest, &result);
  return result;
}

constexpr struct {
  const char* name;
  napi_callback call;
} kFunctions[] = {
    {"createStream", onOpenDevice<createStream>}, {"wait", onOpenDevice<waitFor>},
    {"submit", onOpenDevice<submit>},             {"submitPaged", onOpenDevice<submitPaged>},
    {"submitRuns", onOpenDevice<submitRuns>},     {"useBlocks", onOpenDevice<useBlocks>},
    {"addLayout", onOpenDevice<addLayout>},       {"exportPool", onOpenDevice<exportPool>},
    {"importPool", onOpenDevice<importPool>},     {"closePool", onOpenDevice<closePool>},
    {"semaphore", onOpenDevice<semaphore>},       {"measure", onOpenDevice<measure>},
    {"figures", onOpenDevice<figures>},           {"nameOf", onOpenDevice<nameOf>},
    {"lostWith", onOpenDevice<lostWith>},         {"close", closeDevice},
};

napi_value failureOf(napi_env env, const cuda::OpenFailure& failure) {
  static const char* const steps[] = {"none", "driver", "device", "pool", "host", "streams"};
  return string(env, std::string("{\"step\":\"") + steps[static_cast<int>(failure.step)] +
                         "\",\"result\":" + std::to_string(failure.result) +
                         ",\"reason\":" + cuda::quoted(failure.reason) + "}");
}

cuda::GpuOptions optionsOf(Arguments& arguments) {
  cuda::GpuOptions options;
  options.library = textOf(arguments, 0);
  options.ordinal = static_cast<int>(arguments.index(1, 1u << 16));
  options.poolBytes = arguments.index(2, static_cast<std::size_t>(kMostBytes));
  options.methods = static_cast<unsigned>(arguments.index(4, cuda::ALL_METHODS));
  napi_value host = arguments.value(3);
  napi_valuetype hostType = napi_undefined;
  if (arguments.ok()) napi_typeof(arguments.env(), host, &hostType);
  if (hostType == napi_null) return options;
  const Bytes bytes = arguments.bytes(3);
  options.host = bytes.data;
  options.hostBytes = bytes.length;
  return options;
}

/** Wakes the environment for its fences from now on, and closes the device when it ends. Keeps the handle until then. */
bool makeWaker(napi_env env, const Shared& handle) {
  handle->waker = Waker::make(
      env, [handle] { deliver(handle); },
      [handle] { closeHandle(*handle, kEndMs); });
  if (handle->waker == nullptr) return false;
  handle->outbox = std::make_shared<Outbox>([waker = handle->waker] { waker->wake(); });
  return true;
}

// cudaOpen(library, ordinal, poolBytes, host | null, methods, mail, onFences): functions, or a failure as JSON
napi_value open(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  const cuda::GpuOptions options = optionsOf(arguments);
  const Bytes mail = arguments.words(5, sizeof(double));
  napi_value onFences = arguments.value(6);
  napi_valuetype type = napi_undefined;
  if (arguments.ok() && mail.length < kMailWords) arguments.range("the mail holds one fence at least");
  if (arguments.ok()) napi_typeof(env, onFences, &type);
  if (arguments.ok() && type != napi_function) arguments.fail("onFences is not a function");
  if (!arguments.ok()) return nullptr;
  auto handle = std::make_shared<Handle>();
  handle->env = env;
  handle->mailWords = reinterpret_cast<double*>(mail.data);
  handle->mailFences = mail.length / kMailWords;
  if (!makeWaker(env, handle)) {
    arguments.fail("the environment is ending");
    return nullptr;
  }
  cuda::OpenFailure failure;
  handle->gpu = Gpu::open(options, handle->outbox, failure);
  if (handle->gpu == nullptr) {
    handle->waker->close();
    return failureOf(env, failure);
  }
  if (options.host != nullptr) hold(*handle, arguments.value(3));
  napi_create_reference(env, arguments.value(5), 1, &handle->mail);
  napi_create_reference(env, onFences, 1, &handle->onFences);
  napi_async_init(env, nullptr, string(env, "kvtier fences"), &handle->context);
  napi_value object = nullptr;
  napi_create_object(env, &object);
  for (const auto& one : kFunctions) addFunction(env, object, one.name, one.call, handle);
  return object;
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
