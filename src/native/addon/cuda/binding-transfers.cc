#include <cstring>

#include "binding-handle.h"

namespace kvtier {

namespace {

using cuda::Pieces;
using cuda::Transfer;

bool flagOf(Arguments& arguments, std::size_t at) { return arguments.index(at, 1) == 1; }

/** Takes `count` words out of a view that must have as many, to `out` from `first` on; makes room for them. */
template <typename Word>
void copyWords(Arguments& arguments, std::size_t at, std::size_t count, std::vector<Word>& out, std::size_t first) {
  const Bytes from = arguments.words(at, sizeof(Word));
  if (arguments.ok() && from.length < count) arguments.range("an array is shorter than its count");
  if (!arguments.ok() || count == 0) return;
  if (out.size() < first + count) out.resize(first + count);
  std::memcpy(out.data() + first, from.data, count * sizeof(Word));
}

/** A transfer whose first arguments are its number, its stream and its direction. */
std::unique_ptr<Transfer> begin(Handle& handle, Arguments& arguments, Pieces pieces) {
  auto transfer = handle.gpu->blank();
  transfer->pieces = pieces;
  transfer->id = static_cast<double>(arguments.index(0, 0xffffffffu));
  transfer->lane = arguments.index(1, kMostNumbers);
  transfer->isStore = flagOf(arguments, 2);
  if (arguments.ok() && transfer->lane >= handle.gpu->streams()) arguments.range("no such stream");
  return transfer;
}

/** Hands a transfer over, unless an argument was wrong. */
napi_value end(Handle& handle, Arguments& arguments, std::unique_ptr<Transfer> transfer) {
  if (!arguments.ok()) return nullptr;
  countPending(handle, handle.pending + 1);
  handle.gpu->submit(std::move(transfer));
  return undefined(arguments.env());
}

}  // namespace

napi_value createStream(Handle& handle, Arguments& arguments) {
  return number(arguments.env(), handle.gpu->createStream());
}

// wait(stream, earlier)
napi_value waitFor(Handle& handle, Arguments& arguments) {
  const std::size_t lane = arguments.index(0, kMostNumbers);
  const std::size_t earlier = arguments.index(1, kMostNumbers);
  if (arguments.ok()) handle.gpu->wait(lane, earlier);
  return undefined(arguments.env());
}

// submit(id, stream, isStore, pool, count, deviceOffsets, hostOffsets, lengths)
napi_value submit(Handle& handle, Arguments& arguments) {
  auto transfer = begin(handle, arguments, Pieces::LISTED);
  transfer->pool = static_cast<std::uint32_t>(arguments.index(3, kMostNumbers));
  transfer->count = arguments.index(4, kMostCopies);
  for (std::size_t i = 0; i < 3; i += 1) {
    copyWords(arguments, 5 + i, transfer->count, transfer->offsets, i * transfer->count);
  }
  return end(handle, arguments, std::move(transfer));
}

// submitPaged(id, stream, isStore, layout, blocks, blockCount, hostOffsets, shards)
napi_value submitPaged(Handle& handle, Arguments& arguments) {
  auto transfer = begin(handle, arguments, Pieces::PAGED);
  transfer->layout = static_cast<std::int32_t>(arguments.index(3, kMostNumbers));
  const std::size_t blocks = arguments.index(5, kMostCopies);
  const std::size_t shards = arguments.index(7, kMostCopies);
  if (arguments.ok() && (shards == 0 || blocks == 0 || blocks % shards != 0)) {
    arguments.range("each shard has the same number of blocks");
  }
  if (!arguments.ok()) return nullptr;
  transfer->blocks.resize(blocks);
  transfer->hostOffsets.resize(shards);
  transfer->blocksPerShard = blocks / shards;
  copyWords(arguments, 4, blocks, transfer->blocks, 0);
  copyWords(arguments, 6, shards, transfer->hostOffsets, 0);
  return end(handle, arguments, std::move(transfer));
}

// submitRuns(id, stream, isStore, count, firstBlocks, skipBytes, hostOffsets, rowBytes)
napi_value submitRuns(Handle& handle, Arguments& arguments) {
  auto transfer = begin(handle, arguments, Pieces::RUNS);
  transfer->count = arguments.index(3, kMostCopies);
  transfer->rowBytes = arguments.index(7, static_cast<std::size_t>(kMostBytes));
  copyWords(arguments, 4, transfer->count, transfer->blocks, 0);
  copyWords(arguments, 5, transfer->count, transfer->offsets, 0);
  copyWords(arguments, 6, transfer->count, transfer->offsets, transfer->count);
  return end(handle, arguments, std::move(transfer));
}

// useBlocks(next, blockBytes)
napi_value useBlocks(Handle& handle, Arguments& arguments) {
  const Bytes next = arguments.words(0, sizeof(std::int32_t));
  const std::size_t blockBytes = arguments.index(1, static_cast<std::size_t>(kMostBytes));
  if (!arguments.ok()) return nullptr;
  hold(handle, arguments.value(0));
  handle.gpu->useBlocks({reinterpret_cast<const std::int32_t*>(next.data), next.length, blockBytes});
  return undefined(arguments.env());
}

// semaphore(isSignal, stream, pool, offset, value)
napi_value semaphore(Handle& handle, Arguments& arguments) {
  const bool isSignal = flagOf(arguments, 0);
  const std::size_t lane = arguments.index(1, kMostNumbers);
  const auto pool = static_cast<std::uint32_t>(arguments.index(2, kMostNumbers));
  const std::size_t offset = arguments.index(3, static_cast<std::size_t>(kMostBytes));
  const std::size_t value = arguments.index(4, static_cast<std::size_t>(kMostBytes));
  if (!arguments.ok()) return nullptr;
  if (isSignal) handle.gpu->signal(lane, pool, offset, value);
  else handle.gpu->waitForValue(lane, pool, offset, value);
  return undefined(arguments.env());
}

}  // namespace kvtier
