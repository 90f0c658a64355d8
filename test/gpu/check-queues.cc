#include <cstring>

#include "check.h"

namespace kvtier::check {

using namespace kvtier::cuda;

namespace {

/** As many as `engine/device-timelines` opens. */
constexpr std::size_t WAITING = 16;
constexpr std::uint64_t BYTES = 4u << 20;
constexpr std::uint64_t PIECE = 64u << 10;

}  // namespace

bool checkQueues(const std::string& library) {
  Fences fences;
  OpenFailure failure;
  GpuOptions options;
  options.library = library;
  options.poolBytes = BYTES;
  options.hostBytes = BYTES;
  options.host = mapHost(BYTES);
  auto gpu = options.host == nullptr ? nullptr : Gpu::open(options, fences.outbox, failure);
  if (gpu == nullptr) return false;
  std::memset(options.host, 0, BYTES);
  std::vector<std::uint64_t> order(BYTES / PIECE);
  for (std::size_t i = 0; i < order.size(); i += 1) order[i] = order.size() - 1 - i;
  const int copies = gpu->createStream();
  const auto signals = static_cast<std::size_t>(gpu->createStream());
  submit(*gpu, copies, false, PIECE, 0, order);
  const bool isZeroed = fences.waitFor(1);
  for (std::size_t i = 0; i < WAITING; i += 1) {
    const int lane = gpu->createStream();
    gpu->waitForValue(static_cast<std::size_t>(lane), 0, i * 8, 1);
    submit(*gpu, lane, true, PIECE, 0, {1});
  }
  const auto start = std::chrono::steady_clock::now();
  submit(*gpu, copies, false, PIECE, 0, order);
  const bool isCopied = fences.waitFor(1, std::chrono::seconds(10));
  const double copied = secondsSince(start);
  const auto written = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < WAITING; i += 1) gpu->signal(signals, 0, i * 8, 1);
  const bool isEnded = fences.waitFor(isCopied ? WAITING : WAITING + 1, std::chrono::seconds(10));
  const bool isFine = isZeroed && isCopied && isEnded && gpu->lostWith() == SUCCESS;
  std::printf("{\"check\":\"queues\",\"waitingStreams\":%zu,\"copySeconds\":%.6f,\"goOnSeconds\":%.6f,"
              "\"copied\":%s,\"wentOn\":%s,\"fine\":%s}\n",
              WAITING, copied, secondsSince(written), wordOf(isCopied), wordOf(isEnded), wordOf(isFine));
  return gpu->close(std::chrono::seconds(10)) && isFine;
}

}  // namespace kvtier::check
