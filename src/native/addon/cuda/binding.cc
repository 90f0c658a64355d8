// What JavaScript sees of a CUDA device: `cudaProbe` and `cudaOpen` of the addon, and the functions of an open device.
#include "binding-handle.h"
#include "json.h"
#include "probe.h"

namespace kvtier {

namespace {

using cuda::Gpu;
using cuda::Outbox;

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

/** The function that wakes the environment for its fences. It keeps the handle until it is released. */
bool makeWake(napi_env env, napi_value onFences, const std::shared_ptr<Handle>& handle) {
  auto* context = new Shared(handle);
  const auto forget = [](napi_env, void*, void* owned) { delete static_cast<Shared*>(owned); };
  const napi_status made = napi_create_threadsafe_function(env, onFences, nullptr, string(env, "kvtier fences"), 0, 1,
                                                           nullptr, forget, context, deliver, &handle->wake);
  if (made != napi_ok) {
    delete context;
    return false;
  }
  napi_unref_threadsafe_function(env, handle->wake);
  const napi_threadsafe_function wake = handle->wake;
  handle->outbox = std::make_shared<Outbox>([wake] {
    napi_call_threadsafe_function(wake, nullptr, napi_tsfn_nonblocking);
  });
  return true;
}

// cudaOpen(library, ordinal, poolBytes, host | null, methods, mail, onFences): functions, or a failure as JSON
napi_value open(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  const cuda::GpuOptions options = optionsOf(arguments);
  const Bytes mail = arguments.words(5, sizeof(double));
  napi_value onFences = arguments.value(6);
  if (arguments.ok() && mail.length < kMailWords) arguments.range("the mail holds one fence at least");
  if (!arguments.ok()) return nullptr;
  auto handle = std::make_shared<Handle>();
  handle->env = env;
  handle->mailWords = reinterpret_cast<double*>(mail.data);
  handle->mailFences = mail.length / kMailWords;
  if (!makeWake(env, onFences, handle)) {
    arguments.fail("onFences is not a function");
    return nullptr;
  }
  cuda::OpenFailure failure;
  handle->gpu = Gpu::open(options, handle->outbox, failure);
  if (handle->gpu == nullptr) {
    napi_release_threadsafe_function(handle->wake, napi_tsfn_abort);
    return failureOf(env, failure);
  }
  if (options.host != nullptr) hold(*handle, arguments.value(3));
  napi_create_reference(env, arguments.value(5), 1, &handle->mail);
  handle->atExit = new Shared(handle);
  napi_add_env_cleanup_hook(env, closeAtExit, handle->atExit);
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
