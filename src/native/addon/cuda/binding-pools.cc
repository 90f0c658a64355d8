#include <cmath>
#include <cstring>

#include "binding-handle.h"

namespace kvtier {

// addLayout(pools, planes, blockStride, blockBytes)
napi_value addLayout(Handle& handle, Arguments& arguments) {
  cuda::PagedLayout layout;
  const Bytes pools = arguments.words(0, sizeof(std::int32_t));
  const Bytes planes = arguments.words(1, sizeof(double));
  layout.blockStride = arguments.index(2, static_cast<std::size_t>(kMostBytes));
  layout.blockBytes = arguments.index(3, static_cast<std::size_t>(kMostBytes));
  if (arguments.ok() && pools.length != planes.length) arguments.range("each plane has a pool");
  if (!arguments.ok()) return nullptr;
  for (std::size_t i = 0; i < planes.length; i += 1) {
    double plane = 0;
    std::int32_t pool = 0;
    std::memcpy(&pool, pools.data + i * sizeof pool, sizeof pool);
    std::memcpy(&plane, planes.data + i * sizeof plane, sizeof plane);
    if (!(plane >= 0) || plane > kMostBytes || std::floor(plane) != plane) {
      arguments.range("a plane is a whole number of bytes");
      return nullptr;
    }
    // A negative number is that of no pool either.
    layout.planes.push_back({static_cast<std::uint32_t>(pool), static_cast<std::uint64_t>(plane)});
  }
  std::string reason;
  const int made = handle.gpu->addLayout(std::move(layout), reason);
  return numberOr(arguments.env(), made, reason);
}

napi_value exportPool(Handle& handle, Arguments& arguments) {
  cuda::IpcHandle shared{};
  std::string reason;
  if (!handle.gpu->exportPool(shared, reason)) return string(arguments.env(), reason);
  napi_value buffer = nullptr;
  napi_create_buffer_copy(arguments.env(), sizeof shared.reserved, shared.reserved, nullptr, &buffer);
  return buffer;
}

// importPool(handle, offset, bytes)
napi_value importPool(Handle& handle, Arguments& arguments) {
  const Bytes bytes = arguments.bytes(0);
  const std::size_t offset = arguments.index(1, static_cast<std::size_t>(kMostBytes));
  const std::size_t length = arguments.index(2, static_cast<std::size_t>(kMostBytes));
  if (arguments.ok() && bytes.length != cuda::IPC_HANDLE_BYTES) arguments.range("an IPC handle has 64 bytes");
  if (!arguments.ok()) return nullptr;
  cuda::IpcHandle shared{};
  std::memcpy(shared.reserved, bytes.data, sizeof shared.reserved);
  std::string reason;
  const int pool = handle.gpu->importPool(shared, offset, length, reason);
  return numberOr(arguments.env(), pool, reason);
}

// closePool(id, pool)
napi_value closePool(Handle& handle, Arguments& arguments) {
  const auto id = static_cast<double>(arguments.index(0, 0xffffffffu));
  const std::size_t pool = arguments.index(1, kMostNumbers);
  if (!arguments.ok()) return nullptr;
  countPending(handle, handle.pending + 1);
  handle.gpu->closePool(static_cast<std::uint32_t>(pool), id);
  return undefined(arguments.env());
}

}  // namespace kvtier
