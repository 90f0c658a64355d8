#include "methods.h"

#include <algorithm>
#include <cmath>

namespace kvtier::cuda {

namespace {

/** Copies of one call of the batch entry point. */
constexpr std::size_t BATCH_COPIES_MAX = 8192;

DevicePointer addressOf(const unsigned char* host) { return reinterpret_cast<DevicePointer>(host); }

double distance(double a, double b) { return std::abs(std::log2(a) - std::log2(b)); }

}  // namespace

void CopyMethods::open(const Driver& driver, unsigned wanted) {
  driver_ = &driver;
  reasons_[LOOP].clear();
  reasons_[BATCH] = driver.copyBatch == nullptr ? "the driver has no cuMemcpyBatchAsync (CUDA 12.8)" : "";
  if ((wanted & (1u << BATCH)) == 0) reasons_[BATCH] = "switched off";
  if ((wanted & (1u << KERNEL)) == 0) {
    reasons_[KERNEL] = "switched off";
    return;
  }
  const bool canLoad = driver.moduleLoadData != nullptr && driver.moduleGetFunction != nullptr &&
                       driver.moduleUnload != nullptr && driver.launchKernel != nullptr;
  if (!canLoad) {
    reasons_[KERNEL] = "the driver cannot load kernels";
    return;
  }
  Result result = driver.moduleLoadData(&module_, COPY_KERNEL_PTX);
  if (result == SUCCESS) result = driver.moduleGetFunction(&kernel_, module_, COPY_KERNEL_NAME);
  reasons_[KERNEL] = result == SUCCESS ? "" : "the kernel was not loaded: " + driver.nameOf(result);
}

void CopyMethods::close() {
  if (module_ != nullptr) driver_->moduleUnload(module_);
  module_ = nullptr;
  kernel_ = nullptr;
}

Method CopyMethods::choose(bool isStore, std::size_t count, std::uint64_t bytes) const {
  const MeasuredRow* nearest = nullptr;
  double least = 0;
  const double pieceBytes = static_cast<double>(bytes) / static_cast<double>(count);
  for (const auto& row : table) {
    if (row.isStore != isStore) continue;
    const double away = distance(static_cast<double>(row.pieceBytes), pieceBytes) +
                        distance(static_cast<double>(row.count), static_cast<double>(count)) / 2;
    if (nearest != nullptr && away >= least) continue;
    nearest = &row;
    least = away;
  }
  Method best = has(BATCH) && count > 1 ? BATCH : LOOP;
  if (nearest == nullptr) return best;
  double bestSeconds = 0;
  for (std::uint32_t method = LOOP; method < METHODS; method += 1) {
    const double seconds = nearest->seconds[method];
    if (seconds == 0 || !has(static_cast<Method>(method)) || (bestSeconds > 0 && seconds >= bestSeconds)) continue;
    best = static_cast<Method>(method);
    bestSeconds = seconds;
  }
  return best;
}

bool CopyMethods::isAligned(const std::vector<Copy>& copies) {
  return std::all_of(copies.begin(), copies.end(), [](const Copy& copy) {
    return (copy.device | addressOf(copy.host) | copy.bytes) % KERNEL_ALIGNMENT_BYTES == 0;
  });
}

std::size_t CopyMethods::piecesOf(const std::vector<Copy>& copies) {
  std::size_t pieces = 0;
  for (const auto& copy : copies) pieces += (copy.bytes + KERNEL_PIECE_BYTES - 1) / KERNEL_PIECE_BYTES;
  return pieces;
}

Result CopyMethods::runLoop(const std::vector<Copy>& copies, bool isStore, Stream stream) const {
  for (const auto& copy : copies) {
    const Result result = isStore ? driver_->copyToHost(copy.host, copy.device, copy.bytes, stream)
                                  : driver_->copyToDevice(copy.device, copy.host, copy.bytes, stream);
    if (result != SUCCESS) return result;
  }
  return SUCCESS;
}

Result CopyMethods::runBatch(const std::vector<Copy>& copies, bool isStore, Stream stream) {
  for (std::size_t first = 0; first < copies.size(); first += BATCH_COPIES_MAX) {
    const std::size_t count = std::min(BATCH_COPIES_MAX, copies.size() - first);
    to_.resize(count);
    from_.resize(count);
    bytes_.resize(count);
    for (std::size_t i = 0; i < count; i += 1) {
      const Copy& copy = copies[first + i];
      to_[i] = isStore ? addressOf(copy.host) : copy.device;
      from_[i] = isStore ? copy.device : addressOf(copy.host);
      bytes_[i] = copy.bytes;
    }
    BatchAttributes attributes{SOURCE_ORDER_STREAM, {0, 0}, {0, 0}, 0};
    std::size_t attributeIndex = 0;
    std::size_t failed = 0;
    const Result result = driver_->copyBatch(to_.data(), from_.data(), bytes_.data(), count, &attributes,
                                             &attributeIndex, 1, &failed, stream);
    if (result != SUCCESS) return result;
  }
  return SUCCESS;
}

Result CopyMethods::runKernel(const std::vector<Copy>& copies, bool isStore, Stream stream, KernelCopy* slab,
                              DevicePointer slabOnDevice, std::uint64_t hostToDevice) const {
  unsigned pieces = 0;
  for (const auto& copy : copies) {
    for (std::uint64_t done = 0; done < copy.bytes; done += KERNEL_PIECE_BYTES) {
      const std::uint64_t host = addressOf(copy.host) + hostToDevice + done;
      const std::uint64_t device = copy.device + done;
      const std::uint64_t bytes = std::min(KERNEL_PIECE_BYTES, copy.bytes - done);
      slab[pieces] = isStore ? KernelCopy{device, host, bytes} : KernelCopy{host, device, bytes};
      pieces += 1;
    }
  }
  void* parameters[] = {&slabOnDevice, &pieces};
  const unsigned grid = std::min(pieces, KERNEL_GRID_MAX);
  return driver_->launchKernel(kernel_, grid, 1, 1, KERNEL_THREADS, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace kvtier::cuda
