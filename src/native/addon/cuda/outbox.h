#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "driver.h"

namespace kvtier::cuda {

/** The end of one transfer. */
struct Fence {
  /** As the submitter numbered it. */
  double id;
  /** Time between the start and the end event. */
  double seconds;
  /** SUCCESS, or what failed. */
  Result result;
  /** Copies after merging, and the method that did them. */
  std::uint32_t copies;
  std::uint32_t method;
  /** The piece, block or row, as submitted, that lies outside of its memory; NO_PIECE when none does. */
  std::uint32_t badPiece;
};

constexpr std::uint32_t NO_PIECE = 0xffffffff;

/**
 * Fences on their way to the thread that submitted. Any thread posts; one wake is under way at most, however many
 * fences come meanwhile. After `close` nobody is woken any more: the receiver may be gone.
 */
class Outbox {
 public:
  explicit Outbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void post(const Fence& fence) {
    {
      const std::lock_guard<std::mutex> lock(lock_);
      fences_.push_back(fence);
      if (isWaking_) return;
      isWaking_ = true;
      wakes_ += 1;
    }
    // Not under `lock_`, which the thread that is woken takes first of all.
    const std::lock_guard<std::mutex> lock(wakeLock_);
    if (!isClosed_) wake_();
  }

  /** Moves all fences to `out`, which is empty, and allows the next wake. */
  void take(std::vector<Fence>& out) {
    const std::lock_guard<std::mutex> lock(lock_);
    isWaking_ = false;
    fences_.swap(out);
  }

  void close() {
    {
      const std::lock_guard<std::mutex> lock(wakeLock_);
      isClosed_ = true;
    }
    const std::lock_guard<std::mutex> lock(lock_);
    fences_.clear();
  }

  std::uint64_t wakes() {
    const std::lock_guard<std::mutex> lock(lock_);
    return wakes_;
  }

 private:
  std::mutex lock_;
  std::vector<Fence> fences_;
  std::function<void()> wake_;
  std::uint64_t wakes_ = 0;
  bool isWaking_ = false;
  std::mutex wakeLock_;
  bool isClosed_ = false;
};

}  // namespace kvtier::cuda
