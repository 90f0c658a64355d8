#include <algorithm>
#include <cmath>

#include "gpu.h"

namespace kvtier::cuda {

namespace {

bool isWhole(double value) { return value >= 0 && value <= 9007199254740992.0 && std::floor(value) == value; }

Result refused(Transfer& transfer, std::size_t piece) {
  transfer.badPiece = static_cast<std::uint32_t>(piece);
  return INVALID_VALUE;
}

}  // namespace

/**
 * Adds one copy, or lengthens the last one where both sides go on from it.
 *
 * @return INVALID_VALUE when it does not lie within the pool and the host memory.
 */
Result Gpu::addCopy(Transfer& transfer, const Pool& pool, double deviceOffset, double hostOffset, double length) {
  if (!isWhole(deviceOffset) || !isWhole(hostOffset) || !isWhole(length) || length == 0) return INVALID_VALUE;
  const auto device = static_cast<std::uint64_t>(deviceOffset);
  const auto host = static_cast<std::uint64_t>(hostOffset);
  const auto bytes = static_cast<std::uint64_t>(length);
  if (device + bytes > pool.bytes || host + bytes > options_.hostBytes) return INVALID_VALUE;
  const Copy copy{pool.base + device, options_.host + host, bytes};
  if (transfer.copies.size() > transfer.mergeFrom) {
    Copy& last = transfer.copies.back();
    if (last.device + last.bytes == copy.device && last.host + last.bytes == copy.host) {
      last.bytes += bytes;
      return SUCCESS;
    }
  }
  transfer.copies.push_back(copy);
  return SUCCESS;
}

Result Gpu::prepare(Transfer& transfer) {
  if (transfer.pieces == Pieces::PAGED) return preparePaged(transfer);
  return transfer.pieces == Pieces::RUNS ? prepareRuns(transfer) : prepareListed(transfer);
}

Result Gpu::prepareListed(Transfer& transfer) {
  if (options_.host == nullptr) return SUCCESS;
  if (transfer.pool >= pools_.size() || !pools_[transfer.pool].isOpen) return INVALID_VALUE;
  const Pool& pool = pools_[transfer.pool];
  const double* device = transfer.offsets.data();
  const double* host = device + transfer.count;
  const double* lengths = host + transfer.count;
  for (std::size_t i = 0; i < transfer.count; i += 1) {
    const Result result = addCopy(transfer, pool, device[i], host[i], lengths[i]);
    if (result != SUCCESS) return refused(transfer, i);
  }
  return SUCCESS;
}

/** In the host's memory a shard is plane after plane, each with the bytes of the shard's blocks in their order. */
Result Gpu::preparePaged(Transfer& transfer) {
  if (static_cast<std::size_t>(transfer.layout) >= layouts_.size()) return INVALID_VALUE;
  const PagedLayout& layout = layouts_[static_cast<std::size_t>(transfer.layout)];
  const std::size_t perShard = transfer.blocksPerShard;
  if (perShard == 0 || transfer.hostOffsets.size() * perShard != transfer.blocks.size()) return INVALID_VALUE;
  const auto blockBytes = static_cast<double>(layout.blockBytes);
  std::uint32_t lastPool = layout.planes[0].pool;
  for (std::size_t shard = 0; shard < transfer.hostOffsets.size(); shard += 1) {
    double host = transfer.hostOffsets[shard];
    const std::int32_t* blocks = transfer.blocks.data() + shard * perShard;
    for (const Plane& plane : layout.planes) {
      const Pool& pool = pools_[plane.pool];
      if (!pool.isOpen) return INVALID_VALUE;
      // Two allocations may lie side by side: one copy over both is refused by the driver.
      if (plane.pool != lastPool) transfer.mergeFrom = transfer.copies.size();
      lastPool = plane.pool;
      for (std::size_t i = 0; i < perShard; i += 1, host += blockBytes) {
        if (blocks[i] < 0) return refused(transfer, shard * perShard + i);
        const auto at = static_cast<double>(plane.offset + static_cast<std::uint64_t>(blocks[i]) * layout.blockStride);
        const Result result = addCopy(transfer, pool, at, host, blockBytes);
        if (result != SUCCESS) return refused(transfer, shard * perShard + i);
      }
    }
  }
  return SUCCESS;
}

/** Each row is a piece of the host memory; its bytes fill the blocks of a list one after another. */
Result Gpu::prepareRuns(Transfer& transfer) {
  if (options_.host == nullptr) return SUCCESS;
  const BlockLists& lists = blockLists_;
  if (lists.next == nullptr || lists.blockBytes == 0 || !pools_[0].isOpen) return INVALID_VALUE;
  const double* skips = transfer.offsets.data();
  const double* hosts = skips + transfer.count;
  for (std::size_t row = 0; row < transfer.count; row += 1) {
    if (!isWhole(skips[row])) return refused(transfer, row);
    std::int64_t block = transfer.blocks[row];
    auto skip = static_cast<std::uint64_t>(skips[row]);
    for (std::uint64_t done = 0; done < transfer.rowBytes;) {
      if (block < 0 || static_cast<std::uint64_t>(block) >= lists.blocks) return refused(transfer, row);
      if (skip >= lists.blockBytes) {
        skip -= lists.blockBytes;
      } else {
        const std::uint64_t bytes = std::min(lists.blockBytes - skip, transfer.rowBytes - done);
        const auto at = static_cast<double>(static_cast<std::uint64_t>(block) * lists.blockBytes + skip);
        const Result result =
            addCopy(transfer, pools_[0], at, hosts[row] + static_cast<double>(done), static_cast<double>(bytes));
        if (result != SUCCESS) return refused(transfer, row);
        done += bytes;
        skip = 0;
      }
      block = lists.next[block];
    }
  }
  return SUCCESS;
}

void Gpu::useBlocks(const BlockLists& lists) {
  push({nullptr, [this, lists] { blockLists_ = lists; }});
}

int Gpu::addLayout(PagedLayout layout, std::string& reason) {
  int number = -1;
  const bool isDone = onDevice([&] {
    if (layout.planes.empty() || layout.blockBytes == 0) reason = "a layout has planes and blocks";
    else if (layout.blockStride < layout.blockBytes) reason = "blocks overlap";
    for (const Plane& plane : layout.planes) {
      const bool isKnown = plane.pool < pools_.size() && pools_[plane.pool].isOpen;
      if (!isKnown) reason = "the pool is not open";
      else if (plane.offset + layout.blockBytes > pools_[plane.pool].bytes) reason = "a plane begins beyond the pool";
    }
    if (!reason.empty()) return;
    layouts_.push_back(layout);
    number = static_cast<int>(layouts_.size() - 1);
  });
  if (!isDone) reason = "the device is closed";
  return number;
}

}  // namespace kvtier::cuda
