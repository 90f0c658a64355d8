// Memory that processes share: our pool for them, theirs for us, and the words by which streams wait for each other.
#include "gpu.h"

namespace kvtier::cuda {

namespace {

/** Why the driver refuses a handle, in words of whoever has to put it right. */
std::string refusalOf(const Driver& driver, Result result) {
  const std::string name = driver.nameOf(result);
  switch (result) {
    case INVALID_CONTEXT:
      return name + ": the handle is of this very process, or of one that looks the same from here (both PID 1 of their "
                    "containers: share the PID namespace)";
    case INVALID_VALUE:
    case INVALID_HANDLE:
    case MAP_FAILURE:
      return name + ": no live process that is reached from here has such memory (it has ended, runs on another GPU or "
                    "in a container of its own: --ipc=host)";
    default:
      return name;
  }
}

}  // namespace

bool Gpu::exportPool(IpcHandle& handle, std::string& reason) {
  bool isDone = false;
  const bool isOpen = onDevice([&] {
    if (driver_->ipcGetHandle == nullptr || !pools_[0].isOpen) {
      reason = "there is no pool to share";
      return;
    }
    const Result result = driver_->ipcGetHandle(&handle, pools_[0].base);
    isDone = result == SUCCESS;
    if (!isDone) reason = driver_->nameOf(result);
  });
  if (!isOpen) reason = "the device is closed";
  return isDone;
}

int Gpu::importPool(const IpcHandle& handle, std::uint64_t offset, std::uint64_t bytes, std::string& reason) {
  int number = -1;
  const bool isOpen = onDevice([&] {
    if (driver_->ipcOpenHandle == nullptr || driver_->ipcCloseHandle == nullptr) {
      reason = "the driver cannot share memory";
      return;
    }
    Pool pool;
    Result result = driver_->ipcOpenHandle(&pool.mapping, handle, IPC_LAZY_PEER_ACCESS);
    if (result != SUCCESS) {
      reason = refusalOf(*driver_, result);
      // A handle of this process, or of a device that cannot be reached, is answered as a context without use would be.
      if (isFatal(result) && result != INVALID_CONTEXT && result != DEVICE_UNAVAILABLE) lose(result);
      return;
    }
    const std::uint64_t mapped = bytesFrom(pool.mapping);
    if (bytes == 0 || offset > mapped || bytes > mapped - offset) {
      reason = "the pool lies beyond the allocation of the handle, which has " + std::to_string(mapped) + " bytes";
      driver_->ipcCloseHandle(pool.mapping);
      return;
    }
    pool.base = pool.mapping + offset;
    pool.bytes = bytes;
    pool.isOpen = true;
    pools_.push_back(pool);
    number = static_cast<int>(pools_.size() - 1);
    const std::lock_guard<std::mutex> lock(lanesLock_);
    stats_.importedPools += 1;
  });
  if (!isOpen) reason = "the device is closed";
  return number;
}

/** Bytes of an allocation from a pointer into it on; 0 when the driver does not say. */
std::uint64_t Gpu::bytesFrom(DevicePointer pointer) const {
  DevicePointer base = 0;
  std::size_t bytes = 0;
  bool isKnown = driver_->memoryGetAddressRange != nullptr &&
                 driver_->memoryGetAddressRange(&base, &bytes, pointer) == SUCCESS;
  if (!isKnown && driver_->pointerGetAttribute != nullptr) {
    isKnown = driver_->pointerGetAttribute(&base, POINTER_RANGE_START, pointer) == SUCCESS &&
              driver_->pointerGetAttribute(&bytes, POINTER_RANGE_BYTES, pointer) == SUCCESS;
  }
  return isKnown && pointer >= base && pointer - base < bytes ? bytes - (pointer - base) : 0;
}

void Gpu::closePool(std::uint32_t number, double id) {
  push({nullptr, [this, number, id] {
          if (number == 0 || number >= pools_.size() || !pools_[number].isOpen) {
            outbox_->post({id, 0, INVALID_VALUE, 0, LOOP, NO_PIECE});
            return;
          }
          pools_[number].isOpen = false;
          ClosingPool closing{number, {}, id};
          for (const auto& lane : lanes_) closing.until.push_back(lane->submitted);
          closing_.push_back(std::move(closing));
          closingPools_.store(closing_.size());
          closeRestedPools();
        }});
}

/** Unmaps the pools that nothing under way can touch any more. */
void Gpu::closeRestedPools() {
  for (std::size_t i = closing_.size(); i > 0; i -= 1) {
    const ClosingPool& closing = closing_[i - 1];
    {
      const std::lock_guard<std::mutex> lock(lanesLock_);
      bool isAtRest = true;
      for (std::size_t lane = 0; lane < closing.until.size(); lane += 1) {
        isAtRest = isAtRest && lanes_[lane]->posted >= closing.until[lane];
      }
      if (!isAtRest) continue;
      stats_.importedPools -= 1;
    }
    const Result result = driver_->ipcCloseHandle(pools_[closing.pool].mapping);
    outbox_->post({closing.id, 0, result, 0, LOOP, NO_PIECE});
    pools_[closing.pool].mapping = 0;
    closing_.erase(closing_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  closingPools_.store(closing_.size());
}

bool Gpu::signal(std::size_t lane, std::uint32_t pool, std::uint64_t offset, std::uint64_t value) {
  return push({nullptr, [=] {
                 if (lost_.load() != SUCCESS || driver_->streamWriteValue64 == nullptr) return;
                 if (lane >= lanes_.size() || pool >= pools_.size() || !pools_[pool].isOpen) return;
                 if (offset % 8 != 0 || offset + 8 > pools_[pool].bytes) return;
                 const DevicePointer address = pools_[pool].base + offset;
                 const Result result = driver_->streamWriteValue64(lanes_[lane]->stream, address, value, 0);
                 if (isFatal(result)) lose(result);
                 else if (result != SUCCESS) lanes_[lane]->broken = result;
               }});
}

bool Gpu::waitForValue(std::size_t lane, std::uint32_t pool, std::uint64_t offset, std::uint64_t value) {
  return push({nullptr, [=] {
                 if (lost_.load() != SUCCESS || lane >= lanes_.size()) return;
                 Lane& stream = *lanes_[lane];
                 const bool isKnown = driver_->streamWaitValue64 != nullptr && pool < pools_.size() &&
                                      pools_[pool].isOpen && offset % 8 == 0 && offset + 8 <= pools_[pool].bytes;
                 const Result result = isKnown ? driver_->streamWaitValue64(stream.stream, pools_[pool].base + offset,
                                                                            value, WAIT_VALUE_AT_LEAST)
                                               : INVALID_VALUE;
                 if (isFatal(result)) lose(result);
                 else if (result != SUCCESS) stream.broken = result;
               }});
}

}  // namespace kvtier::cuda
