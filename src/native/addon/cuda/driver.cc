#include "driver.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <vector>

namespace kvtier::cuda {

namespace {

/** Where libcuda lies; containers and WSL have it off the linker's path. */
const std::vector<std::string> USUAL_PLACES = {
    "libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
};
/** Asynchronous pinned copies with 64-bit sizes are far older; this is the first with every required ABI. */
constexpr int OLDEST_DRIVER = 11000;

using GetProcAddress = Result (*)(const char*, void**, int, std::uint64_t, int*);

/** Finds entry points by the version of their ABI; by plain symbol where the driver is too old to be asked. */
class Resolver {
 public:
  explicit Resolver(void* library) : library_(library) {
    getProcAddress_ = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  }

  void* require(const char* symbol, int version) const {
    void* found = ask(symbol, version);
    return found != nullptr ? found : bySymbol(symbol);
  }

  /** A driver that can be asked has the last word: a plain symbol may have a newer ABI (cuMemcpyBatchAsync_v2). */
  void* find(const char* symbol, int version) const {
    return getProcAddress_ != nullptr ? ask(symbol, version) : bySymbol(symbol);
  }

 private:
  void* ask(const char* symbol, int version) const {
    void* found = nullptr;
    int status = 0;
    if (getProcAddress_ == nullptr) return nullptr;
    return getProcAddress_(symbol, &found, version, 0, &status) == SUCCESS ? found : nullptr;
  }

  void* bySymbol(const char* symbol) const {
    const std::string newer = std::string(symbol) + "_v2";
    void* found = dlsym(library_, newer.c_str());
    return found != nullptr ? found : dlsym(library_, symbol);
  }

  void* library_;
  GetProcAddress getProcAddress_;
};

std::string lastLoadError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown" : text;
}

std::unique_ptr<Driver> resolve(void* library, std::string& reason) {
  auto driver = std::make_unique<Driver>();
  const Resolver resolver(library);
#define KVTIER_CUDA_REQUIRE(member, symbol, version, parameters) \
  driver->member = reinterpret_cast<decltype(driver->member)>(resolver.require(#symbol, version));
#define KVTIER_CUDA_FIND(member, symbol, version, parameters) \
  driver->member = reinterpret_cast<decltype(driver->member)>(resolver.find(#symbol, version));
  KVTIER_CUDA_REQUIRED(KVTIER_CUDA_REQUIRE)
  KVTIER_CUDA_OPTIONAL(KVTIER_CUDA_FIND)
#undef KVTIER_CUDA_REQUIRE
#undef KVTIER_CUDA_FIND
#define KVTIER_CUDA_CHECK(member, symbol, version, parameters)          \
  if (driver->member == nullptr) {                                      \
    reason = std::string("the driver is too old: it lacks ") + #symbol; \
    return nullptr;                                                     \
  }
  KVTIER_CUDA_REQUIRED(KVTIER_CUDA_CHECK)
#undef KVTIER_CUDA_CHECK
  driver->isStandIn = dlsym(library, "kvtierStandInControl") != nullptr;
  return driver;
}

bool initialise(Driver& driver, std::string& reason) {
  const Result started = driver.init(0);
  if (started == STUB_LIBRARY) {
    reason = "the library is the toolkit's stub, not a driver";
    return false;
  }
  if (started == NO_DEVICE) {
    reason = "the driver finds no device";
    return false;
  }
  if (started != SUCCESS) {
    reason = "cuInit failed: " + driver.nameOf(started);
    return false;
  }
  driver.driverGetVersion(&driver.version);
  if (driver.version >= OLDEST_DRIVER) return true;
  reason = "the driver serves CUDA " + std::to_string(driver.version / 1000) + ", 11 is the oldest that will do";
  return false;
}

std::mutex loadedLock;
std::map<std::string, std::unique_ptr<Driver>> loadedDrivers;

}  // namespace

std::string Driver::nameOf(Result result) const {
  const char* name = nullptr;
  if (getErrorName == nullptr || getErrorName(result, &name) != SUCCESS || name == nullptr) name = "CUDA error";
  return std::string(name) + " (" + std::to_string(result) + ")";
}

const Driver* loadDriver(const std::string& path, std::string& reason) {
  const std::lock_guard<std::mutex> lock(loadedLock);
  if (const auto found = loadedDrivers.find(path); found != loadedDrivers.end()) return found->second.get();
  const std::vector<std::string> places = path.empty() ? USUAL_PLACES : std::vector<std::string>{path};
  void* library = nullptr;
  std::string place;
  for (const auto& one : places) {
    place = one;
    library = dlopen(one.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (reason.empty()) reason = "no driver: " + lastLoadError();
  }
  if (library == nullptr) return nullptr;
  reason.clear();
  auto driver = resolve(library, reason);
  if (driver == nullptr) return nullptr;
  if (driver->isStandIn && path.empty()) {
    reason = "the library on the system's path is a test's stand-in";
    return nullptr;
  }
  driver->library = place;
  if (!initialise(*driver, reason)) return nullptr;
  return (loadedDrivers[path] = std::move(driver)).get();
}

bool isFatal(Result result) {
  switch (result) {
    case DEINITIALIZED:
    case DEVICE_UNAVAILABLE:
    case INVALID_CONTEXT:
    case ECC_UNCORRECTABLE:
    case NVLINK_UNCORRECTABLE:
    case CONTAINED:
    case ILLEGAL_ADDRESS:
    case LAUNCH_TIMEOUT:
    case CONTEXT_IS_DESTROYED:
    case ASSERT:
    case LAUNCH_FAILED:
    case TENSOR_MEMORY_LEAK:
    case MPS_RPC_FAILURE:
    case MPS_CLIENT_TERMINATED:
    case EXTERNAL_DEVICE:
    case UNKNOWN:
      return true;
    default:
      return result >= HARDWARE_STACK_ERROR && result < LAUNCH_FAILED;
  }
}

}  // namespace kvtier::cuda
