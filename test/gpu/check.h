// What the parts of the check on a GPU share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu.h"
#include "json.h"

namespace kvtier::check {

/** Where fences come to. */
struct Fences {
  std::mutex lock;
  std::condition_variable come;
  bool isWoken = false;
  cuda::Result firstFailure = cuda::SUCCESS;
  std::shared_ptr<cuda::Outbox> outbox = std::make_shared<cuda::Outbox>([this] {
    const std::lock_guard<std::mutex> hold(lock);
    isWoken = true;
    come.notify_all();
  });

  /** Waits for so many. False when one of them failed, or they did not come in time. */
  bool waitFor(std::size_t wanted, std::chrono::seconds limit = std::chrono::seconds(60)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    firstFailure = cuda::SUCCESS;
    for (std::size_t seen = 0; seen < wanted;) {
      {
        std::unique_lock<std::mutex> hold(lock);
        if (!come.wait_until(hold, end, [&] { return isWoken; })) return false;
        isWoken = false;
      }
      std::vector<cuda::Fence> taken;
      outbox->take(taken);
      for (const auto& fence : taken) {
        if (firstFailure == cuda::SUCCESS) firstFailure = fence.result;
      }
      seen += taken.size();
    }
    return firstFailure == cuda::SUCCESS;
  }
};

/** Pieces of the pool in an order of their own; on the host one after the other from `host` on. */
void submit(cuda::Gpu& gpu, int lane, bool isStore, std::uint64_t piece, std::uint64_t host,
            const std::vector<std::uint64_t>& order);

double secondsSince(std::chrono::steady_clock::time_point start);

inline const char* wordOf(bool value) { return value ? "true" : "false"; }

/** Shared memory whose pages are there, or null. Never freed: the process ends soon. */
unsigned char* mapHost(std::uint64_t bytes);

/** Touching and registering host memory, by threads, and how the device sees it. */
bool checkRegistration(const std::string& library, std::uint64_t bytes);

/** What the driver says of itself and the device, how long it takes the kernel to load, and the table of methods. */
bool checkDriver(const std::string& library);

/** Every method at several sizes, by content. */
bool checkBytes(const std::string& library, std::uint64_t bytes);

/** What must hold: large pieces beside plain copies, both ways at once beside a bare loop, small pieces by method. */
bool checkRates(const std::string& library, std::uint64_t bytes);

/** Streams that wait for words which nobody writes hold up no copy, and go on when the words are written. */
bool checkQueues(const std::string& library);

/** A pool of another process: opened by its handle, read, told by words of memory when to go on, read after its death. */
bool checkPeers(const std::string& library);
/** The other process of `checkPeers`, on the pipe of its standard input and output. Returns an exit code. */
int runPeer(const std::string& library);

/** A context that ends with an illegal address, in a process of its own. */
bool checkLoss(const std::string& library);
int runLoss(const std::string& library);

}  // namespace kvtier::check
