// One unattended run of the CUDA device on a machine with a GPU; needs g++ and the driver, no Node and no network.
// Usage: check [LIBRARY [MEBIBYTES]]; '' = the usual places. Prints one JSON object a line; exits 0 when all is well.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "check.h"
#include "probe.h"

namespace {

using namespace kvtier::cuda;
using kvtier::check::Fences;
using Clock = std::chrono::steady_clock;

constexpr const char* METHOD_NAMES[] = {"loop", "batch", "kernel"};

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/** Pieces of the pool in an order of their own; on the host one after the other from `host` on. */
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
  // A table of one row makes the method the only choice.
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
  gpu->close(std::chrono::seconds(30));
  std::printf("{\"check\":\"bytes\",\"method\":\"%s\",\"pieceBytes\":%llu,\"missing\":%s,\"transfersByMethod\":[%llu,%llu,%llu],\"fine\":%s}\n",
              METHOD_NAMES[method], static_cast<unsigned long long>(piece), quoted(missing).c_str(),
              static_cast<unsigned long long>(stats.transfers[LOOP]),
              static_cast<unsigned long long>(stats.transfers[BATCH]),
              static_cast<unsigned long long>(stats.transfers[KERNEL]), isFine ? "true" : "false");
  return isFine;
}

/** GB/s by wall clock: one way, the other, both at once. */
bool measureWays(Gpu& gpu, Fences& fences, std::uint64_t bytes, std::uint64_t piece) {
  constexpr int ROUNDS = 8;
  std::vector<std::uint64_t> order(bytes / piece);
  std::iota(order.rbegin(), order.rend(), 0);
  const int lanes[] = {gpu.createStream(), gpu.createStream()};
  double rates[3] = {0, 0, 0};
  bool isFine = true;
  for (int ways = 0; ways < 3; ways += 1) {
    const auto start = Clock::now();
    std::size_t submitted = 0;
    for (int round = 0; round < ROUNDS; round += 1) {
      for (int way = 0; way < 2; way += 1) {
        if (ways != 2 && ways != way) continue;
        submit(gpu, lanes[way], way == 1, piece, way == 1 ? bytes : 0, order);
        submitted += 1;
      }
    }
    isFine = fences.waitFor(submitted) && isFine;
    rates[ways] = static_cast<double>(bytes) * static_cast<double>(submitted) / secondsSince(start) / 1e9;
  }
  std::printf("{\"check\":\"ways\",\"pieceBytes\":%llu,\"loadGBs\":%.2f,\"storeGBs\":%.2f,\"bothGBs\":%.2f,\"fine\":%s}\n",
              static_cast<unsigned long long>(piece), rates[0], rates[1], rates[2], isFine ? "true" : "false");
  return isFine;
}

bool measureDevice(const GpuOptions& options) {
  Fences fences;
  OpenFailure failure;
  const auto start = Clock::now();
  auto gpu = Gpu::open(options, fences.outbox, failure);
  if (gpu == nullptr) return false;
  std::printf("{\"check\":\"open\",\"hostBytes\":%llu,\"seconds\":%.3f}\n",
              static_cast<unsigned long long>(options.hostBytes), secondsSince(start));
  gpu->measure(5);
  for (const auto& row : gpu->table()) {
    std::printf("{\"check\":\"table\",\"way\":\"%s\",\"pieceBytes\":%llu,\"count\":%u", row.isStore ? "store" : "load",
                static_cast<unsigned long long>(row.pieceBytes), row.count);
    for (std::size_t i = 0; i < METHODS; i += 1) {
      const double bytes = static_cast<double>(row.pieceBytes) * row.count;
      std::printf(",\"%sGBs\":%.2f", METHOD_NAMES[i], row.seconds[i] > 0 ? bytes / row.seconds[i] / 1e9 : 0.0);
    }
    std::printf("}\n");
  }
  bool isFine = true;
  for (const std::uint64_t piece : {std::uint64_t{8} << 10, std::uint64_t{32} << 10, std::uint64_t{1} << 20}) {
    isFine = measureWays(*gpu, fences, options.poolBytes, piece) && isFine;
  }
  IpcHandle handle{};
  std::string reason;
  const bool isShared = gpu->exportPool(handle, reason);
  std::printf("{\"check\":\"export\",\"fine\":%s,\"reason\":%s}\n", isShared ? "true" : "false", quoted(reason).c_str());
  return gpu->close(std::chrono::seconds(30)) && isFine && isShared;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--peer" && argc > 2) return kvtier::check::runPeer(argv[2]);
  if (first == "--loss" && argc > 2) return kvtier::check::runLoss(argv[2]);
  GpuOptions options;
  options.library = first;
  options.poolBytes = static_cast<std::uint64_t>(argc > 2 ? std::atoi(argv[2]) : 256) << 20;
  options.hostBytes = options.poolBytes * 2;
  std::printf("%s\n", probe(options.library).c_str());
  options.host = kvtier::check::mapHost(options.hostBytes);
  if (options.host == nullptr) return 2;
  bool isFine = true;
  for (const Method method : {LOOP, BATCH, KERNEL}) {
    for (const std::uint64_t piece : {std::uint64_t{4} << 10, std::uint64_t{48} << 10, std::uint64_t{1} << 20}) {
      isFine = checkMethod(options, method, piece) && isFine;
    }
  }
  isFine = measureDevice(options) && isFine;
  isFine = kvtier::check::checkRegistration(options.library, options.hostBytes) && isFine;
  isFine = kvtier::check::checkPeers(options.library) && isFine;
  // Last: on a GPU the error is real, and what other processes then see of the device is unknown.
  std::fflush(stdout);
  isFine = kvtier::check::checkLoss(options.library) && isFine;
  std::printf("{\"fine\":%s}\n", isFine ? "true" : "false");
  return isFine ? 0 : 1;
}
