// One CUDA device as the engine uses it: a pool, pinned host memory, streams of transfers. Free of Node.
//
//   caller            device thread                        one waiter a stream           caller
//   submit --queue--> expands, checks, merges, chooses --> waits for the end event -->  fence in the outbox
//                     a method, puts start event, copies,   in order; after the fences    (one wake for many)
//                     end event on the stream               that its stream waited for
//
// Every call of the driver is made on the device thread, but for the waiters' waits. A failure that ends the context
// makes the device lost: everything pending and to come fails with it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "driver.h"
#include "methods.h"
#include "outbox.h"

namespace kvtier::cuda {

struct GpuOptions {
  /** Empty = the usual places. */
  std::string library;
  int ordinal = 0;
  /** 0 = no pool of our own. */
  std::uint64_t poolBytes = 0;
  /** The memory that copies go to and come from; null = transfers move nothing. It outlives the Gpu. */
  unsigned char* host = nullptr;
  std::uint64_t hostBytes = 0;
  unsigned methods = ALL_METHODS;
};

/** Which step of an opening failed. */
enum class OpenStep { NONE, DRIVER, DEVICE, POOL, HOST, STREAMS };

struct OpenFailure {
  OpenStep step = OpenStep::NONE;
  Result result = SUCCESS;
  std::string reason;
};

/** Where block 0 of a plane lies: K or V of a layer, or a whole tensor of all layers. */
struct Plane {
  std::uint32_t pool = 0;
  std::uint64_t offset = 0;
};

/** Where blocks lie: the same blocks in each plane. Planes may be of several pools. */
struct PagedLayout {
  std::vector<Plane> planes;
  std::uint64_t blockStride = 0;
  std::uint64_t blockBytes = 0;
};

/** Lists of blocks of the device's own pool, of equal length from its start on. `next` outlives the transfers. */
struct BlockLists {
  /** The block after each one in its list; negative = none. */
  const std::int32_t* next = nullptr;
  std::size_t blocks = 0;
  std::uint64_t blockBytes = 0;
};

struct EventPair {
  Event start = nullptr;
  Event end = nullptr;
};

/** A wait for the fences of another stream up to one of them. */
struct AfterFence {
  std::size_t lane;
  std::uint64_t number;
};

/** How the pieces of a transfer are described. */
enum class Pieces { LISTED, PAGED, RUNS };

/** One transfer, from its submit to its fence. Objects are used again: their arrays keep their room. */
struct Transfer {
  Pieces pieces = Pieces::LISTED;
  double id = 0;
  std::size_t lane = 0;
  bool isStore = false;
  std::uint32_t pool = 0;
  /** Listed: offsets and lengths, three of `count` each. Runs: bytes skipped and host offsets, two of `count` each. */
  std::vector<double> offsets;
  std::size_t count = 0;
  /** Paged: number of the layout, block ids, and one host offset for each `blocksPerShard` of them. Runs: first blocks. */
  std::int32_t layout = -1;
  std::vector<std::int32_t> blocks;
  std::vector<double> hostOffsets;
  std::size_t blocksPerShard = 1;
  std::uint64_t rowBytes = 0;

  std::vector<Copy> copies;
  /** Copies before this one are of another allocation: no later one may go on from them. */
  std::size_t mergeFrom = 0;
  std::vector<AfterFence> after;
  std::shared_ptr<EventPair> events;
  bool hasEnd = false;
  std::int32_t slab = -1;
  std::uint32_t method = LOOP;
  std::uint64_t number = 0;
  Result result = SUCCESS;
  std::uint32_t badPiece = NO_PIECE;
};

struct GpuStats {
  std::uint64_t poolBytes = 0;
  std::uint64_t pinnedBytes = 0;
  std::uint64_t importedPools = 0;
  std::uint64_t transfers[METHODS] = {0, 0, 0};
  std::uint64_t failures = 0;
};

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  /** Opens the device on a thread of its own and waits for it. Null = `failure` says why; nothing is left behind. */
  static std::shared_ptr<Gpu> open(const GpuOptions& options, std::shared_ptr<Outbox> outbox, OpenFailure& failure);

  /** A stream, or -1. */
  int createStream();
  std::size_t streams() const { return laneCount_.load(); }
  /** What comes to `lane` from now on starts, and has its fence, after all that was submitted to `earlier`. */
  void wait(std::size_t lane, std::size_t earlier);
  /** An empty transfer, to be filled and submitted. */
  std::unique_ptr<Transfer> blank();
  void submit(std::unique_ptr<Transfer> transfer);

  /** Number of a layout for paged transfers, or -1 with a reason when it does not lie within its pool. */
  int addLayout(PagedLayout layout, std::string& reason);

  /** The lists that transfers of runs follow from now on. */
  void useBlocks(const BlockLists& lists);

  /** Handle and offset by which another process opens our pool. */
  bool exportPool(IpcHandle& handle, std::string& reason);
  /** Opens the pool of another process: number of the pool, or -1 with a reason. */
  int importPool(const IpcHandle& handle, std::uint64_t offset, std::uint64_t bytes, std::string& reason);
  /** Closes it once the transfers under way have ended; those that come later fail. Does not wait. */
  void closePool(std::uint32_t pool, double id);

  /** Puts `value` into a 64-bit word of a pool once everything before it on the stream has ended. */
  bool signal(std::size_t lane, std::uint32_t pool, std::uint64_t offset, std::uint64_t value);
  /** Lets the stream go on once the word is at least `value`. */
  bool waitForValue(std::size_t lane, std::uint32_t pool, std::uint64_t offset, std::uint64_t value);

  /** Fills the table on a pool that holds nothing yet, within about `budgetSeconds`. */
  void measure(double budgetSeconds);

  /** Takes one method for every transfer that it can do, instead of the table's choice. For checks. */
  void prefer(Method method);

  /**
   * Drops what has not started, waits for what has, and gives everything back. Idempotent.
   *
   * @return false when the device did not come to rest within the limit: then its memory is left as it is.
   */
  bool close(std::chrono::milliseconds limit);

  /** Whether the device has let go of the host memory. Asked after `close`. */
  bool isHostFree() const { return isHostFree_; }

  Result lostWith() const { return lost_.load(); }
  GpuStats stats();
  const Driver& driver() const { return *driver_; }
  std::vector<MeasuredRow> table();
  std::string methodReason(Method method);

 private:
  struct Pool {
    DevicePointer base = 0;
    /** What the mapping begins with; IPC maps whole allocations. */
    DevicePointer mapping = 0;
    std::uint64_t bytes = 0;
    bool isOpen = false;
  };
  /** A pool that was given up, and the transfers that may still touch it: up to a number of each lane. */
  struct ClosingPool {
    std::uint32_t pool;
    std::vector<std::uint64_t> until;
    double id;
  };
  struct Lane {
    Stream stream = nullptr;
    std::thread waiter;
    std::condition_variable wake;
    std::deque<std::unique_ptr<Transfer>> inFlight;
    bool isWaiting = false;
    // Of the device thread:
    std::uint64_t submitted = 0;
    std::shared_ptr<EventPair> last;
    std::vector<AfterFence> after;
    Result broken = SUCCESS;
    // Under `lanesLock_`:
    std::uint64_t posted = 0;
  };
  struct Command {
    std::unique_ptr<Transfer> transfer;
    std::function<void()> call;
  };

  Gpu(const GpuOptions& options, std::shared_ptr<Outbox> outbox) : options_(options), outbox_(std::move(outbox)) {}

  void run(OpenFailure& failure, std::condition_variable& opened, std::mutex& openLock, bool& isOpened);
  bool openResources(OpenFailure& failure);
  bool openStaging(std::string& reason);
  void closeResources();
  bool isContextAlive() const;
  void closeRestedPools();
  std::uint64_t bytesFrom(DevicePointer pointer) const;
  void loop();
  bool stopLanes();
  /** Runs `call` on the device thread and waits. False when the device is closing. */
  bool onDevice(std::function<void()> call);
  bool push(Command command);

  void start(std::unique_ptr<Transfer> transfer);
  Result prepare(Transfer& transfer);
  Result prepareListed(Transfer& transfer);
  Result preparePaged(Transfer& transfer);
  Result prepareRuns(Transfer& transfer);
  Result addCopy(Transfer& transfer, const Pool& pool, double deviceOffset, double hostOffset, double bytes);
  Result enqueue(Transfer& transfer, Stream stream);
  Result runMethod(Transfer& transfer, Method method, Stream stream);
  void runWaiter(std::size_t lane);
  void keep(std::unique_ptr<Transfer> transfer);
  std::shared_ptr<EventPair> takeEvents();
  void giveEvents(EventPair* events);
  std::int32_t takeSlab();
  void fail(Transfer& transfer, Result result);
  void lose(Result result);
  double secondsOf(const std::vector<Copy>& copies, bool isStore, Method method, Stream stream, EventPair& events);
  void measureAll(double budgetSeconds);

  const GpuOptions options_;
  const std::shared_ptr<Outbox> outbox_;
  const Driver* driver_ = nullptr;
  std::atomic<Result> lost_{SUCCESS};
  std::thread thread_;

  std::mutex queueLock_;
  std::condition_variable queueWake_;
  std::deque<Command> queue_;
  std::atomic<bool> isClosing_{false};
  bool isEnded_ = false;
  bool isAtRest_ = true;
  std::condition_variable ended_;
  std::chrono::milliseconds closeLimit_{0};

  // Of the device thread:
  DeviceOrdinal device_ = 0;
  Context context_ = nullptr;
  bool hasContext_ = false;
  bool isHostRegistered_ = false;
  bool isHostFree_ = true;
  std::uint64_t hostToDevice_ = 0;
  std::uint64_t measuredHostToDevice_ = 0;
  CopyMethods methods_;
  std::vector<Pool> pools_;
  std::vector<PagedLayout> layouts_;
  BlockLists blockLists_;
  std::vector<ClosingPool> closing_;
  std::atomic<std::size_t> closingPools_{0};
  std::vector<std::unique_ptr<EventPair>> allEvents_;

  // Events whose transfers have ended and that nobody waits for. Taken after `lanesLock_` where both are held.
  std::mutex eventsLock_;
  std::vector<EventPair*> freeEvents_;

  // Transfers that have ended, for the submitter to fill again. Taken after `lanesLock_` where both are held.
  std::mutex freeLock_;
  std::vector<std::unique_ptr<Transfer>> freeTransfers_;

  // Shared with the waiters:
  std::mutex lanesLock_;
  std::condition_variable lanesRest_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<std::size_t> laneCount_{0};
  bool areWaitersEnding_ = false;
  std::vector<std::int32_t> freeSlabs_;
  GpuStats stats_;
  std::vector<MeasuredRow> shownTable_;

  unsigned char* staging_ = nullptr;
  DevicePointer stagingOnDevice_ = 0;
  bool isStagingRegistered_ = false;
};

}  // namespace kvtier::cuda
