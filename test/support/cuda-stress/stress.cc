// Opens, uses and closes devices on the stand-in driver again and again, with failures of its calls on the way: for the
// sanitizers, and for leaks. Free of Node. Usage: stress LIBRARY CYCLES SEED; prints one line, exits 0 when all is well.
#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu.h"

namespace {

using namespace kvtier::cuda;

constexpr std::uint64_t POOL_BYTES = 64 * 1024;
constexpr std::uint64_t HALF_BYTES = POOL_BYTES;
constexpr std::uint64_t PIECE_BYTES = 4096;
constexpr std::size_t PIECES = POOL_BYTES / PIECE_BYTES;
/** Of fences of pools that were given back. */
constexpr double CLOSE_ID = 1e6;

// Calls that give something back are left out: one that fails there leaves what it was to free.
const char* const CALLS[] = {"cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuMemAlloc", "cuMemHostRegister",
                             "cuMemHostGetDevicePointer", "cuModuleLoadData", "cuModuleGetFunction", "cuStreamCreate",
                             "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime",
                             "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyBatchAsync", "cuLaunchKernel",
                             "cuStreamWaitEvent", "cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuPointerGetAttribute"};
const int RESULTS[] = {1, 2, 46, 700, 719, 801, 999};
const char* const COUNTERS[] = {"allocated", "registered", "streams", "events", "modules", "imported", "contexts"};

int (*control)(const char*);
long long (*count)(const char*);

/** Where the fences of one device come to. */
struct Arrivals {
  std::mutex lock;
  std::condition_variable come;
  std::shared_ptr<Outbox> outbox;
  std::vector<Fence> fences;
  bool isWoken = false;

  void wake() {
    const std::lock_guard<std::mutex> hold(lock);
    isWoken = true;
    come.notify_all();
  }

  void waitFor(std::size_t wanted) {
    while (fences.size() < wanted) {
      {
        std::unique_lock<std::mutex> hold(lock);
        come.wait(hold, [&] { return isWoken; });
        isWoken = false;
      }
      std::vector<Fence> taken;
      outbox->take(taken);
      for (const Fence& fence : taken)
        if (fence.id != CLOSE_ID) fences.push_back(fence);
    }
  }
};

std::unique_ptr<Transfer> transferOf(Gpu& gpu, int id, int lane, bool isStore, const std::vector<std::size_t>& order) {
  auto transfer = gpu.blank();
  transfer->id = id;
  transfer->lane = static_cast<std::size_t>(lane);
  transfer->isStore = isStore;
  transfer->count = order.size();
  transfer->offsets.resize(order.size() * 3);
  for (std::size_t i = 0; i < order.size(); i += 1) {
    transfer->offsets[i] = static_cast<double>(order[i] * PIECE_BYTES);
    transfer->offsets[order.size() + i] = static_cast<double>((isStore ? HALF_BYTES : 0) + i * PIECE_BYTES);
    transfer->offsets[order.size() * 2 + i] = static_cast<double>(PIECE_BYTES);
  }
  return transfer;
}

/** As above, but the blocks are told as one list, from `order[0]` on. `next` stays as it is until the fence. */
std::unique_ptr<Transfer> runOf(Gpu& gpu, int id, int lane, bool isStore, const std::vector<std::size_t>& order,
                                std::vector<std::int32_t>& next) {
  next.assign(PIECES, -1);
  for (std::size_t i = 0; i + 1 < order.size(); i += 1) next[order[i]] = static_cast<std::int32_t>(order[i + 1]);
  gpu.useBlocks({next.data(), next.size(), PIECE_BYTES});
  auto transfer = gpu.blank();
  transfer->pieces = Pieces::RUNS;
  transfer->id = id;
  transfer->lane = static_cast<std::size_t>(lane);
  transfer->isStore = isStore;
  transfer->count = 1;
  transfer->blocks.assign(1, static_cast<std::int32_t>(order[0]));
  transfer->offsets.assign({0, static_cast<double>(isStore ? HALF_BYTES : 0)});
  transfer->rowBytes = order.size() * PIECE_BYTES;
  return transfer;
}

/** Loads the first half of the host memory in some order and stores it into the second half. */
bool useDevice(Gpu& gpu, Arrivals& arrivals, std::vector<unsigned char>& host, std::vector<std::int32_t>& next,
               std::mt19937& random, bool isEarlyClose) {
  const int loads = gpu.createStream();
  const int stores = gpu.createStream();
  if (loads < 0 || stores < 0) return true;
  if (random() % 4 == 0) gpu.measure(0.001);
  if (random() % 4 == 0) {
    IpcHandle handle{};
    std::string reason;
    if (gpu.exportPool(handle, reason)) {
      const int pool = gpu.importPool(handle, 0, POOL_BYTES, reason);
      if (pool > 0) gpu.closePool(static_cast<std::uint32_t>(pool), CLOSE_ID);
    }
  }
  std::vector<std::size_t> order(PIECES);
  for (std::size_t i = 0; i < PIECES; i += 1) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  const bool isRun = random() % 2 == 0;
  const std::size_t rounds = 1 + random() % 3;
  for (std::size_t round = 0; round < rounds; round += 1) {
    if (round > 0) gpu.wait(static_cast<std::size_t>(loads), static_cast<std::size_t>(stores));
    const int id = static_cast<int>(round * 2);
    gpu.submit(isRun && round == 0 ? runOf(gpu, id, loads, false, order, next) : transferOf(gpu, id, loads, false, order));
    gpu.wait(static_cast<std::size_t>(stores), static_cast<std::size_t>(loads));
    gpu.submit(transferOf(gpu, static_cast<int>(round * 2 + 1), stores, true, order));
  }
  if (isEarlyClose) return true;
  arrivals.waitFor(rounds * 2);
  bool isFine = true;
  for (std::size_t i = 0; i < arrivals.fences.size(); i += 1) {
    isFine = isFine && arrivals.fences[i].result == SUCCESS;
    if (arrivals.fences[i].id == static_cast<double>(i)) continue;
    std::fprintf(stderr, "fence %g came as number %zu\n", arrivals.fences[i].id, i);
    return false;
  }
  return !isFine || std::memcmp(host.data(), host.data() + HALF_BYTES, HALF_BYTES) == 0;
}

bool runCycle(const std::string& library, std::mt19937& random, long& failed) {
  std::vector<unsigned char> host(HALF_BYTES * 2);
  std::vector<std::int32_t> next; // outlives the device, as the host memory
  for (std::size_t i = 0; i < HALF_BYTES; i += 4) {
    const std::uint32_t word = random();
    std::memcpy(host.data() + i, &word, 4);
  }
  control("revive");
  control("own 1");
  if (random() % 3 != 0) {
    char command[128];
    std::snprintf(command, sizeof command, "fail %s %u %d", CALLS[random() % std::size(CALLS)],
                  static_cast<unsigned>(1 + random() % 4), RESULTS[random() % std::size(RESULTS)]);
    control(command);
  }
  GpuOptions options;
  options.library = library;
  options.poolBytes = POOL_BYTES;
  options.host = host.data();
  options.hostBytes = host.size();
  options.methods = 1 + 2 * (random() % 4);
  auto arrivals = std::make_shared<Arrivals>();
  arrivals->outbox = std::make_shared<Outbox>([arrivals = arrivals.get()] { arrivals->wake(); });
  OpenFailure failure;
  auto gpu = Gpu::open(options, arrivals->outbox, failure);
  bool isFine = true;
  if (gpu == nullptr) {
    failed += 1;
  } else {
    isFine = useDevice(*gpu, *arrivals, host, next, random, random() % 4 == 0);
    isFine = gpu->close(std::chrono::seconds(60)) && isFine;
  }
  for (const char* name : COUNTERS) {
    if (count(name) == 0) continue;
    std::fprintf(stderr, "%lld left of %s\n", count(name), name);
    isFine = false;
  }
  return isFine;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  control = reinterpret_cast<int (*)(const char*)>(dlsym(library, "kvtierStandInControl"));
  count = reinterpret_cast<long long (*)(const char*)>(dlsym(library, "kvtierStandInCount"));
  const long cycles = std::atol(argv[2]);
  std::mt19937 random(static_cast<unsigned>(std::atol(argv[3])));
  long failed = 0;
  for (long cycle = 0; cycle < cycles; cycle += 1) {
    if (runCycle(argv[1], random, failed)) continue;
    std::fprintf(stderr, "cycle %ld of seed %s failed\n", cycle, argv[3]);
    return 1;
  }
  std::printf("%ld cycles, %ld not opened, %lld calls, %lld violations\n", cycles, failed, count("calls"),
              count("violations"));
  return count("violations") == 0 ? 0 : 1;
}
