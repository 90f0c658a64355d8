#include <sys/mman.h>

#include "gpu.h"

namespace kvtier::cuda {

namespace {

constexpr std::size_t SLABS = 16;
constexpr std::size_t STAGING_BYTES = SLABS * SLAB_COPIES * sizeof(KernelCopy);

}  // namespace

std::shared_ptr<Gpu> Gpu::open(const GpuOptions& options, std::shared_ptr<Outbox> outbox, OpenFailure& failure) {
  std::shared_ptr<Gpu> gpu(new Gpu(options, std::move(outbox)));
  // Not on this stack: the thread lets go of it after this call has returned.
  struct Opening {
    std::mutex lock;
    std::condition_variable opened;
    bool isOpened = false;
    OpenFailure failure;
  };
  auto opening = std::make_shared<Opening>();
  gpu->thread_ = std::thread([gpu, opening] {
    gpu->run(opening->failure, opening->opened, opening->lock, opening->isOpened);
  });
  {
    std::unique_lock<std::mutex> lock(opening->lock);
    opening->opened.wait(lock, [&] { return opening->isOpened; });
    failure = opening->failure;
  }
  if (failure.step == OpenStep::NONE) return gpu;
  gpu->thread_.join();
  return nullptr;
}

void Gpu::run(OpenFailure& failure, std::condition_variable& opened, std::mutex& openLock, bool& isOpened) {
  const bool isOpen = openResources(failure);
  if (!isOpen) {
    closeResources();
    const std::lock_guard<std::mutex> lock(queueLock_);
    isClosing_ = true;
    isEnded_ = true;
  }
  {
    const std::lock_guard<std::mutex> lock(openLock);
    isOpened = true;
    opened.notify_all();
  }
  if (!isOpen) return;
  loop();
  const bool isAtRest = stopLanes();
  if (isAtRest) closeResources();
  const std::lock_guard<std::mutex> lock(queueLock_);
  isAtRest_ = isAtRest;
  isEnded_ = true;
  ended_.notify_all();
}

bool Gpu::openResources(OpenFailure& failure) {
  const auto fails = [&](OpenStep step, Result result, const char* what) {
    failure = {step, result, std::string(what) + ": " + driver_->nameOf(result)};
    return false;
  };
  driver_ = loadDriver(options_.library, failure.reason);
  if (driver_ == nullptr) {
    failure.step = OpenStep::DRIVER;
    return false;
  }
  Result result = driver_->deviceGet(&device_, options_.ordinal);
  if (result != SUCCESS) return fails(OpenStep::DEVICE, result, "there is no such device");
  result = driver_->primaryContextRetain(&context_, device_);
  if (result != SUCCESS) return fails(OpenStep::DEVICE, result, "no context on the device");
  hasContext_ = true;
  result = driver_->contextSetCurrent(context_);
  if (result != SUCCESS) return fails(OpenStep::DEVICE, result, "the context cannot be used");
  Pool pool;
  if (options_.poolBytes > 0 && options_.host != nullptr) {
    result = driver_->memoryAllocate(&pool.base, options_.poolBytes);
    if (result != SUCCESS) return fails(OpenStep::POOL, result, "the pool was not allocated");
    pool.mapping = pool.base;
    pool.bytes = options_.poolBytes;
    pool.isOpen = true;
    stats_.poolBytes = pool.bytes;
  }
  pools_.push_back(pool);
  if (options_.host != nullptr) {
    const unsigned flags = HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP;
    result = driver_->hostRegister(options_.host, options_.hostBytes, flags);
    if (result != SUCCESS) return fails(OpenStep::HOST, result, "the host memory was not registered");
    isHostRegistered_ = true;
    isHostFree_ = false;
    stats_.pinnedBytes += options_.hostBytes;
  }
  methods_.open(*driver_, options_.methods);
  std::string reason;
  if (methods_.has(KERNEL) && !openStaging(reason)) methods_.drop(KERNEL, reason);
  return true;
}

/** Pinned memory for what the kernel reads, and how the device sees the host's memory. */
bool Gpu::openStaging(std::string& reason) {
  if (options_.host == nullptr) {
    reason = "no host memory";
    return false;
  }
  DevicePointer seen = 0;
  Result result = driver_->hostGetDevicePointer(&seen, options_.host, 0);
  if (result != SUCCESS) {
    reason = "the device does not see the host memory: " + driver_->nameOf(result);
    return false;
  }
  hostToDevice_ = seen - reinterpret_cast<DevicePointer>(options_.host);
  // Shared: of private pages that the device has locked, an older kernel leaves the copy to the child of a fork.
  void* memory = mmap(nullptr, STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    reason = "no memory for descriptions of copies";
    return false;
  }
  staging_ = static_cast<unsigned char*>(memory);
  result = driver_->hostRegister(staging_, STAGING_BYTES, HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP);
  isStagingRegistered_ = result == SUCCESS;
  if (result == SUCCESS) result = driver_->hostGetDevicePointer(&stagingOnDevice_, staging_, 0);
  if (result != SUCCESS) {
    reason = "no pinned memory for descriptions of copies: " + driver_->nameOf(result);
    return false;
  }
  stats_.pinnedBytes += STAGING_BYTES;
  for (std::size_t slab = 0; slab < SLABS; slab += 1) freeSlabs_.push_back(static_cast<std::int32_t>(slab));
  return true;
}

/**
 * Gives back whatever was opened, in reverse. On a lost device the driver refuses most of it: the context takes it. Host
 * memory that neither of them has let go of keeps its pages for good.
 */
void Gpu::closeResources() {
  if (driver_ == nullptr) return;
  for (auto& lane : lanes_) lane->last.reset();
  for (auto& lane : lanes_) {
    if (lane->stream != nullptr) driver_->streamDestroy(lane->stream);
    lane->stream = nullptr;
  }
  for (auto& events : allEvents_) {
    if (events->start != nullptr) driver_->eventDestroy(events->start);
    if (events->end != nullptr) driver_->eventDestroy(events->end);
  }
  allEvents_.clear();
  methods_.close();
  const bool isStagingFree = !isStagingRegistered_ || driver_->hostUnregister(staging_) == SUCCESS;
  if (isHostRegistered_) isHostFree_ = driver_->hostUnregister(options_.host) == SUCCESS;
  isHostRegistered_ = false;
  isStagingRegistered_ = false;
  for (std::size_t i = pools_.size(); i > 0; i -= 1) {
    Pool& pool = pools_[i - 1];
    if (pool.mapping == 0) continue;
    if (i == 1) driver_->memoryFree(pool.base);
    else driver_->ipcCloseHandle(pool.mapping);
    pool.isOpen = false;
    pool.mapping = 0;
  }
  bool isReleased = false;
  if (hasContext_) {
    driver_->contextSetCurrent(nullptr);
    isReleased = driver_->primaryContextRelease(device_) == SUCCESS && !isContextAlive();
  }
  hasContext_ = false;
  isHostFree_ = isHostFree_ || isReleased;
  if (staging_ != nullptr && (isStagingFree || isReleased)) munmap(staging_, STAGING_BYTES);
  staging_ = nullptr;
}

/** Whether somebody else of this process keeps the primary context, and with it what is registered there. */
bool Gpu::isContextAlive() const {
  unsigned flags = 0;
  int isActive = 0;
  if (driver_->primaryContextGetState == nullptr) return false;
  return driver_->primaryContextGetState(device_, &flags, &isActive) == SUCCESS && isActive != 0;
}

/** Lets the transfers under way end, and the waiters with them. False when they do not within the limit. */
bool Gpu::stopLanes() {
  std::unique_lock<std::mutex> lock(lanesLock_);
  const auto isAtRest = [&] {
    for (auto& lane : lanes_) if (lane->isWaiting || !lane->inFlight.empty()) return false;
    return true;
  };
  const bool rested = lanesRest_.wait_for(lock, closeLimit_, isAtRest);
  areWaitersEnding_ = true;
  for (auto& lane : lanes_) lane->wake.notify_all();
  lock.unlock();
  for (auto& lane : lanes_) {
    if (rested) lane->waiter.join();
    else lane->waiter.detach();
  }
  return rested;
}

bool Gpu::close(std::chrono::milliseconds limit) {
  {
    std::unique_lock<std::mutex> lock(queueLock_);
    if (!thread_.joinable()) return isAtRest_;
    closeLimit_ = limit;
    isClosing_ = true;
    queueWake_.notify_all();
    // A call of the driver that does not return must not hold up whoever closes.
    if (!ended_.wait_for(lock, limit + std::chrono::seconds(2), [&] { return isEnded_; })) {
      isAtRest_ = false;
      thread_.detach();
      return false;
    }
  }
  thread_.join();
  return isAtRest_;
}

}  // namespace kvtier::cuda
