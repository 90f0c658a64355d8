#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "check.h"
#include "probe.h"

namespace kvtier::check {

using namespace kvtier::cuda;

namespace {

constexpr const char* METHOD_NAMES[] = {"loop", "batch", "kernel"};

/** Loads the first half of the arena, stores it into the second, and compares. */
bool checkMethod(const GpuOptions& options, Method method, std::uint64_t piece) {
  Fences fences;
  OpenFailure failure;
  GpuOptions own = options;
  own.methods = 1u | (1u << method);
  auto gpu = Gpu::open(own, fences.outbox, failure);
  if (gpu == nullptr) {
    std::printf("{\"check\":\"bytes\",\"failed\":%s}\n", quoted(failure.reason).c_str());
    return false;
  }
  const std::string missing = gpu->methodReason(method);
  gpu->prefer(method);
  const std::uint64_t half = options.hostBytes / 2;
  std::mt19937_64 random(piece);
  for (std::uint64_t i = 0; i < half; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(options.host + i, &word, 8);
  }
  std::memset(options.host + half, 0, half);
  // As many as one launch of the kernel takes.
  const std::uint64_t launches = SLAB_COPIES / ((piece + KERNEL_PIECE_BYTES - 1) / KERNEL_PIECE_BYTES);
  std::vector<std::uint64_t> order(std::min(options.poolBytes / piece, launches));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const int loads = gpu->createStream();
  const int stores = gpu->createStream();
  submit(*gpu, loads, false, piece, 0, order);
  gpu->wait(static_cast<std::size_t>(stores), static_cast<std::size_t>(loads));
  submit(*gpu, stores, true, piece, half, order);
  const bool isFine = fences.waitFor(2) && std::memcmp(options.host, options.host + half, order.size() * piece) == 0;
  const GpuStats stats = gpu->stats();
  const std::string after = gpu->methodReason(method);
  gpu->close(std::chrono::seconds(30));
  std::printf("{\"check\":\"bytes\",\"method\":\"%s\",\"pieceBytes\":%llu,\"pieces\":%zu,\"missing\":%s,"
              "\"transfersByMethod\":[%llu,%llu,%llu],\"fine\":%s}\n",
              METHOD_NAMES[method], static_cast<unsigned long long>(piece), order.size(),
              quoted(missing.empty() ? after : missing).c_str(), static_cast<unsigned long long>(stats.transfers[LOOP]),
              static_cast<unsigned long long>(stats.transfers[BATCH]),
              static_cast<unsigned long long>(stats.transfers[KERNEL]), wordOf(isFine));
  return isFine;
}

}  // namespace

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void submit(Gpu& gpu, int lane, bool isStore, std::uint64_t piece, std::uint64_t host,
            const std::vector<std::uint64_t>& order) {
  auto transfer = gpu.blank();
  const std::size_t count = order.size();
  transfer->lane = static_cast<std::size_t>(lane);
  transfer->isStore = isStore;
  transfer->count = count;
  transfer->offsets.resize(count * 3);
  for (std::size_t i = 0; i < count; i += 1) {
    transfer->offsets[i] = static_cast<double>(order[i] * piece);
    transfer->offsets[count + i] = static_cast<double>(host + i * piece);
    transfer->offsets[count * 2 + i] = static_cast<double>(piece);
  }
  gpu.submit(std::move(transfer));
}

bool checkBytes(const std::string& library, std::uint64_t bytes) {
  GpuOptions options;
  options.library = library;
  options.poolBytes = bytes;
  options.hostBytes = bytes * 2;
  options.host = mapHost(options.hostBytes);
  if (options.host == nullptr) return false;
  bool isFine = true;
  for (const Method method : {LOOP, BATCH, KERNEL}) {
    for (const std::uint64_t piece : {std::uint64_t{4} << 10, std::uint64_t{48} << 10, std::uint64_t{1} << 20}) {
      isFine = checkMethod(options, method, piece) && isFine;
    }
  }
  return isFine;
}

bool checkDriver(const std::string& library) {
  std::printf("%s\n", probe(library).c_str());
  std::string reason;
  const Driver* driver = loadDriver(library, reason);
  Context context = nullptr;
  if (driver == nullptr || driver->primaryContextRetain(&context, 0) != SUCCESS) return false;
  bool isFine = driver->contextSetCurrent(context) == SUCCESS;
  const auto start = std::chrono::steady_clock::now();
  Module module = nullptr;
  Function kernel = nullptr;
  Result loaded = driver->moduleLoadData(&module, COPY_KERNEL_PTX);
  if (loaded == SUCCESS) loaded = driver->moduleGetFunction(&kernel, module, COPY_KERNEL_NAME);
  const double seconds = secondsSince(start);
  const auto attribute = [&](int which) {
    int value = -1;
    driver->deviceGetAttribute(&value, which, 0);
    return value;
  };
  // 91: the device takes host pointers of registered memory as they are; 125: IPC.
  std::printf("{\"check\":\"driver\",\"kernelLoadSeconds\":%.4f,\"kernelResult\":%d,\"batch\":%s,\"words\":%s,"
              "\"wordsOf64Bits\":%d,\"hostPointersAsTheyAre\":%d,\"ipc\":%d,\"unifiedAddressing\":%d}\n",
              seconds, loaded, wordOf(driver->copyBatch != nullptr), wordOf(driver->streamWaitValue64 != nullptr),
              attribute(ATTRIBUTE_STREAM_MEMORY_OPS_64), attribute(91), attribute(125),
              attribute(ATTRIBUTE_UNIFIED_ADDRESSING));
  isFine = isFine && loaded == SUCCESS;
  if (module != nullptr) driver->moduleUnload(module);
  driver->contextSetCurrent(nullptr);
  driver->primaryContextRelease(0);
  return isFine;
}

}  // namespace kvtier::check
