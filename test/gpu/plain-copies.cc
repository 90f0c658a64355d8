#include "plain-copies.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace kvtier::check {

using namespace kvtier::cuda;

bool PlainCopies::open(const std::string& library, std::uint64_t bytes) {
  std::string reason;
  driver_ = loadDriver(library, reason);
  if (driver_ == nullptr) return false;
  bytes_ = bytes;
  void* loaded = dlopen(driver_->library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return false;
  hostAlloc_ = reinterpret_cast<decltype(hostAlloc_)>(dlsym(loaded, "cuMemHostAlloc"));
  freeHost_ = reinterpret_cast<decltype(freeHost_)>(dlsym(loaded, "cuMemFreeHost"));
  synchronize_ = reinterpret_cast<decltype(synchronize_)>(dlsym(loaded, "cuStreamSynchronize"));
  if (hostAlloc_ == nullptr || freeHost_ == nullptr || synchronize_ == nullptr) return false;
  if (driver_->primaryContextRetain(&context_, 0) != SUCCESS) return false;
  if (driver_->contextSetCurrent(context_) != SUCCESS) return false;
  for (int way = 0; way < 2; way += 1) {
    void* memory = nullptr;
    if (hostAlloc_(&memory, bytes, HOST_REGISTER_PORTABLE) != SUCCESS) return false;
    host_[way] = static_cast<unsigned char*>(memory);
    std::memset(memory, way + 1, bytes);
    if (driver_->memoryAllocate(&device_[way], bytes) != SUCCESS) return false;
    if (driver_->streamCreate(&streams_[way], STREAM_NON_BLOCKING) != SUCCESS) return false;
  }
  return true;
}

void PlainCopies::close() {
  for (int way = 0; way < 2; way += 1) {
    if (streams_[way] != nullptr) driver_->streamDestroy(streams_[way]);
    if (device_[way] != 0) driver_->memoryFree(device_[way]);
    if (host_[way] != nullptr) freeHost_(host_[way]);
  }
  if (context_ == nullptr) return;
  driver_->contextSetCurrent(nullptr);
  driver_->primaryContextRelease(0);
}

Result PlainCopies::copy(bool isStore, std::uint64_t at, std::uint64_t piece) const {
  const std::uint64_t bytes = std::min(piece, bytes_ - at);
  return isStore ? driver_->copyToHost(host_[1] + at, device_[1] + at, bytes, streams_[1])
                 : driver_->copyToDevice(device_[0] + at, host_[0] + at, bytes, streams_[0]);
}

double PlainCopies::oneWay(bool isStore, std::uint64_t piece, int repeats) const {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; i += 1) {
    for (std::uint64_t at = 0; at < bytes_; at += piece) {
      if (copy(isStore, at, piece) != SUCCESS) return 0;
    }
  }
  if (synchronize_(streams_[isStore ? 1 : 0]) != SUCCESS) return 0;
  return static_cast<double>(bytes_) * repeats / secondsSince(start) / 1e9;
}

double PlainCopies::bothWays(std::uint64_t piece, int repeats) const {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; i += 1) {
    for (std::uint64_t at = 0; at < bytes_; at += piece) {
      for (const bool isStore : {false, true}) {
        if (copy(isStore, at, piece) != SUCCESS) return 0;
      }
    }
  }
  for (const Stream stream : streams_) {
    if (synchronize_(stream) != SUCCESS) return 0;
  }
  return 2 * static_cast<double>(bytes_) * repeats / secondsSince(start) / 1e9;
}

}  // namespace kvtier::check
