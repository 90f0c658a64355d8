#include <sys/mman.h>

#include <algorithm>

#include "gpu.h"

namespace kvtier::cuda {

namespace {

constexpr std::uint64_t SCRATCH_BYTES = 32u << 20;
constexpr std::uint64_t PIECES[] = {4u << 10, 8u << 10, 16u << 10, 32u << 10, 64u << 10, 256u << 10, 1u << 20};
constexpr std::uint32_t COUNTS[] = {8, 64, 512};
constexpr int REPEATS = 3;

/** Pinned memory of the arena's kind that holds nothing: a measured store must not write into the arena. */
class Scratch {
 public:
  Scratch(const Driver& driver, std::uint64_t bytes) : driver_(driver), bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return;
    host_ = static_cast<unsigned char*>(memory);
    const unsigned flags = HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP;
    if (driver.hostRegister(host_, bytes, flags) == SUCCESS) {
      isRegistered_ = true;
      DevicePointer seen = 0;
      if (driver.hostGetDevicePointer(&seen, host_, 0) == SUCCESS) {
        hostToDevice = seen - reinterpret_cast<DevicePointer>(host_);
        isSeen = true;
      }
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    // What the driver does not let go of keeps its pages.
    const bool isFree = !isRegistered_ || driver_.hostUnregister(host_) == SUCCESS;
    if (host_ != nullptr && isFree) munmap(host_, bytes_);
  }

  unsigned char* host() const { return isRegistered_ ? host_ : nullptr; }
  std::uint64_t hostToDevice = 0;
  bool isSeen = false;

 private:
  const Driver& driver_;
  std::uint64_t bytes_;
  unsigned char* host_ = nullptr;
  bool isRegistered_ = false;
};

/** Pieces one after the other on the host, and in the opposite order on the device: none can be merged. */
void spread(std::vector<Copy>& copies, DevicePointer device, unsigned char* host, std::uint64_t bytes,
            std::uint32_t count) {
  copies.clear();
  for (std::uint32_t i = 0; i < count; i += 1) {
    copies.push_back({device + (count - 1 - i) * bytes, host + i * bytes, bytes});
  }
}

}  // namespace

void Gpu::prefer(Method method) {
  onDevice([&] {
    methods_.table.clear();
    for (const bool isStore : {false, true}) {
      MeasuredRow row{isStore, 1, 1, {0, 0, 0}};
      row.seconds[method] = 1;
      methods_.table.push_back(row);
    }
  });
}

void Gpu::measure(double budgetSeconds) {
  onDevice([&] { measureAll(budgetSeconds); });
}

/** Seconds by the device's own clock, the least of a few runs; 0 = the method failed or does not fit. */
double Gpu::secondsOf(const std::vector<Copy>& copies, bool isStore, Method method, Stream stream, EventPair& events) {
  double least = 0;
  const bool isKernel = method == KERNEL;
  if (isKernel && (freeSlabs_.empty() || CopyMethods::piecesOf(copies) > SLAB_COPIES)) return 0;
  const std::size_t at = isKernel ? static_cast<std::size_t>(freeSlabs_.back()) * SLAB_COPIES * sizeof(KernelCopy) : 0;
  for (int run = 0; run <= REPEATS; run += 1) {
    if (driver_->eventRecord(events.start, stream) != SUCCESS) return 0;
    Result result = SUCCESS;
    if (method == LOOP) result = methods_.runLoop(copies, isStore, stream);
    else if (method == BATCH) result = methods_.runBatch(copies, isStore, stream);
    else {
      result = methods_.runKernel(copies, isStore, stream, reinterpret_cast<KernelCopy*>(staging_ + at),
                                  stagingOnDevice_ + at, measuredHostToDevice_);
    }
    if (driver_->eventRecord(events.end, stream) != SUCCESS) return 0;
    const Result ended = driver_->eventSynchronize(events.end);
    if (isFatal(result) || isFatal(ended)) lose(isFatal(result) ? result : ended);
    if (result != SUCCESS || ended != SUCCESS) return 0;
    float milliseconds = 0;
    if (driver_->eventElapsedTime(&milliseconds, events.start, events.end) != SUCCESS) return 0;
    const double seconds = std::max(milliseconds / 1e3, 0.5e-6);
    if (run > 0 && (least == 0 || seconds < least)) least = seconds;
  }
  return least;
}

void Gpu::measureAll(double budgetSeconds) {
  if (pools_.empty() || !pools_[0].isOpen || lost_.load() != SUCCESS) return;
  const std::uint64_t bytes = std::min(SCRATCH_BYTES, pools_[0].bytes);
  const Scratch scratch(*driver_, bytes);
  Stream stream = nullptr;
  if (scratch.host() == nullptr || driver_->streamCreate(&stream, STREAM_NON_BLOCKING) != SUCCESS) return;
  measuredHostToDevice_ = scratch.hostToDevice;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(budgetSeconds);
  {
    const auto events = takeEvents();
    std::vector<Copy> copies;
    for (const std::uint64_t piece : PIECES) {
      for (const std::uint32_t count : COUNTS) {
        for (const bool isStore : {false, true}) {
          if (events == nullptr || piece * count > bytes) continue;
          if (lost_.load() != SUCCESS || std::chrono::steady_clock::now() > end) break;
          spread(copies, pools_[0].base, scratch.host(), piece, count);
          MeasuredRow row{isStore, count, piece, {0, 0, 0}};
          for (std::uint32_t method = LOOP; method < METHODS; method += 1) {
            const auto one = static_cast<Method>(method);
            if (!methods_.has(one) || (one == KERNEL && !scratch.isSeen)) continue;
            row.seconds[method] = secondsOf(copies, isStore, one, stream, *events);
          }
          methods_.table.push_back(row);
        }
      }
    }
  }
  driver_->streamDestroy(stream);
  const std::lock_guard<std::mutex> lock(lanesLock_);
  shownTable_ = methods_.table;
}

}  // namespace kvtier::cuda
