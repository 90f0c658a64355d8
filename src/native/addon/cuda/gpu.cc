#include "gpu.h"

#include <algorithm>

namespace kvtier::cuda {

namespace {

/** Free objects kept for the next transfers. */
constexpr std::size_t FREE_TRANSFERS_MAX = 256;

}  // namespace

bool Gpu::push(Command command) {
  {
    const std::lock_guard<std::mutex> lock(queueLock_);
    if (isClosing_) return false;
    queue_.push_back(std::move(command));
    if (queue_.size() > 1) return true;
  }
  // Not under the lock, which the thread that is woken takes first of all.
  queueWake_.notify_one();
  return true;
}

bool Gpu::onDevice(std::function<void()> call) {
  struct Answer {
    std::mutex lock;
    std::condition_variable given;
    bool isGiven = false;
    bool isDone = false;

    void give(bool done) {
      const std::lock_guard<std::mutex> hold(lock);
      isDone = isDone || done;
      isGiven = true;
      given.notify_all();
    }
  };
  // Tells the caller also when the queue is dropped and the call with it.
  struct Dropped {
    std::shared_ptr<Answer> answer;
    explicit Dropped(std::shared_ptr<Answer> to) : answer(std::move(to)) {}
    ~Dropped() { answer->give(false); }
  };
  auto answer = std::make_shared<Answer>();
  auto dropped = std::make_shared<Dropped>(answer);
  const bool isPushed = push({nullptr, [call = std::move(call), dropped] {
                                call();
                                dropped->answer->give(true);
                              }});
  if (!isPushed) return false;
  dropped.reset();
  std::unique_lock<std::mutex> hold(answer->lock);
  answer->given.wait(hold, [&] { return answer->isGiven; });
  return answer->isDone;
}

void Gpu::loop() {
  std::deque<Command> batch;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(queueLock_);
      queueWake_.wait(lock, [&] { return isClosing_ || !queue_.empty(); });
      batch.swap(queue_);
      if (isClosing_) break;
    }
    for (auto& command : batch) {
      if (isClosing_) break;
      if (command.transfer != nullptr) start(std::move(command.transfer));
      else command.call();
    }
    batch.clear();
  }
  batch.clear();
}

int Gpu::createStream() {
  int number = -1;
  onDevice([&] {
    Stream stream = nullptr;
    if (lost_.load() != SUCCESS) return;
    const Result result = driver_->streamCreate(&stream, STREAM_NON_BLOCKING);
    if (result != SUCCESS) {
      if (isFatal(result)) lose(result);
      return;
    }
    auto lane = std::make_unique<Lane>();
    lane->stream = stream;
    const std::lock_guard<std::mutex> lock(lanesLock_);
    lanes_.push_back(std::move(lane));
    const std::size_t at = lanes_.size() - 1;
    lanes_[at]->waiter = std::thread([self = shared_from_this(), at] { self->runWaiter(at); });
    laneCount_.store(lanes_.size());
    number = static_cast<int>(at);
  });
  return number;
}

void Gpu::wait(std::size_t laneNumber, std::size_t earlier) {
  push({nullptr, [this, laneNumber, earlier] {
          if (laneNumber >= lanes_.size() || earlier >= lanes_.size()) return;
          Lane& lane = *lanes_[laneNumber];
          Lane& before = *lanes_[earlier];
          if (before.submitted == 0) return;
          lane.after.push_back({earlier, before.submitted});
          if (before.last == nullptr || lost_.load() != SUCCESS) return;
          // All that comes to this lane would run without its order, not the next transfer alone.
          const Result result = driver_->streamWaitEvent(lane.stream, before.last->end, 0);
          if (result != SUCCESS) lose(result);
        }});
}

std::unique_ptr<Transfer> Gpu::blank() {
  std::unique_ptr<Transfer> transfer;
  {
    const std::lock_guard<std::mutex> lock(freeLock_);
    if (freeTransfers_.empty()) return std::make_unique<Transfer>();
    transfer = std::move(freeTransfers_.back());
    freeTransfers_.pop_back();
  }
  transfer->pieces = Pieces::LISTED;
  transfer->count = 0;
  transfer->pool = 0;
  transfer->layout = -1;
  transfer->hasEnd = false;
  transfer->slab = -1;
  transfer->method = LOOP;
  transfer->result = SUCCESS;
  transfer->badPiece = NO_PIECE;
  return transfer;
}

void Gpu::submit(std::unique_ptr<Transfer> transfer) { push({std::move(transfer), nullptr}); }

void Gpu::lose(Result result) {
  Result none = SUCCESS;
  lost_.compare_exchange_strong(none, result);
}

void Gpu::fail(Transfer& transfer, Result result) {
  if (transfer.result == SUCCESS) transfer.result = result;
  if (isFatal(result)) lose(result);
}

/** Puts one transfer on its stream. Whatever fails, it goes through the waiter, so that fences stay in order. */
void Gpu::start(std::unique_ptr<Transfer> owned) {
  Transfer& transfer = *owned;
  Lane& lane = *lanes_[transfer.lane];
  lane.submitted += 1;
  transfer.number = lane.submitted;
  transfer.after.swap(lane.after);
  lane.after.clear();
  transfer.copies.clear();
  transfer.mergeFrom = 0;
  fail(transfer, lane.broken);
  lane.broken = SUCCESS;
  fail(transfer, lost_.load());
  if (transfer.result == SUCCESS) fail(transfer, prepare(transfer));
  if (transfer.result == SUCCESS) {
    transfer.events = takeEvents();
    if (transfer.events == nullptr) fail(transfer, OUT_OF_MEMORY);
  }
  if (transfer.result == SUCCESS) fail(transfer, enqueue(transfer, lane.stream));
  if (transfer.hasEnd) lane.last = transfer.events;
  const std::lock_guard<std::mutex> lock(lanesLock_);
  lane.inFlight.push_back(std::move(owned));
  lane.wake.notify_one();
}

Result Gpu::enqueue(Transfer& transfer, Stream stream) {
  Result result = driver_->eventRecord(transfer.events->start, stream);
  if (result != SUCCESS) return result;
  const auto& copies = transfer.copies;
  if (!copies.empty()) {
    std::uint64_t bytes = 0;
    for (const auto& copy : copies) bytes += copy.bytes;
    result = runMethod(transfer, methods_.choose(transfer.isStore, copies.size(), bytes), stream);
  }
  const Result ended = driver_->eventRecord(transfer.events->end, stream);
  transfer.hasEnd = ended == SUCCESS;
  // Copies that may be under way and of which nobody hears the end: no memory they touch is safe.
  if (ended != SUCCESS) lose(ended);
  return result != SUCCESS ? result : ended;
}

Result Gpu::runMethod(Transfer& transfer, Method wanted, Stream stream) {
  const auto& copies = transfer.copies;
  Method method = wanted;
  if (method == KERNEL) {
    const std::size_t pieces = CopyMethods::piecesOf(copies);
    const bool fits = pieces <= SLAB_COPIES && CopyMethods::isAligned(copies);
    transfer.slab = fits ? takeSlab() : -1;
    if (transfer.slab < 0) method = methods_.has(BATCH) ? BATCH : LOOP;
  }
  transfer.method = method;
  Result result = SUCCESS;
  if (method == BATCH) {
    result = methods_.runBatch(copies, transfer.isStore, stream);
  } else if (method == KERNEL) {
    const std::size_t at = static_cast<std::size_t>(transfer.slab) * SLAB_COPIES * sizeof(KernelCopy);
    result = methods_.runKernel(copies, transfer.isStore, stream, reinterpret_cast<KernelCopy*>(staging_ + at),
                                stagingOnDevice_ + at, hostToDevice_);
  }
  if (method != LOOP && (result == SUCCESS || isFatal(result))) return result;
  // What of it was queued moves the same bytes, before these.
  transfer.method = LOOP;
  const Result looped = methods_.runLoop(copies, transfer.isStore, stream);
  if (method == LOOP || looped != SUCCESS) return looped;
  const std::lock_guard<std::mutex> lock(lanesLock_);
  methods_.drop(method, "it failed: " + driver_->nameOf(result));
  return SUCCESS;
}

/** Waits for the end of each transfer of a stream, in order, and posts its fence. */
void Gpu::runWaiter(std::size_t number) {
  driver_->contextSetCurrent(context_);
  std::unique_lock<std::mutex> lock(lanesLock_);
  Lane& lane = *lanes_[number];
  for (;;) {
    lane.isWaiting = false;
    if (lane.inFlight.empty()) lanesRest_.notify_all();
    lane.wake.wait(lock, [&] { return areWaitersEnding_ || !lane.inFlight.empty(); });
    if (lane.inFlight.empty()) return;
    auto transfer = std::move(lane.inFlight.front());
    lane.inFlight.pop_front();
    lane.isWaiting = true;
    lock.unlock();
    float milliseconds = 0;
    if (transfer->hasEnd) {
      const Result result = driver_->eventSynchronize(transfer->events->end);
      fail(*transfer, result);
      if (transfer->result == SUCCESS) {
        fail(*transfer, driver_->eventElapsedTime(&milliseconds, transfer->events->start, transfer->events->end));
      }
    }
    lock.lock();
    lanesRest_.wait(lock, [&] {
      return std::all_of(transfer->after.begin(), transfer->after.end(),
                         [&](const AfterFence& fence) { return lanes_[fence.lane]->posted >= fence.number; });
    });
    if (transfer->result == SUCCESS) stats_.transfers[transfer->method] += 1;
    else stats_.failures += 1;
    // Not under the lock: whoever is woken may come at once with the next transfer.
    lock.unlock();
    outbox_->post({transfer->id, milliseconds / 1e3, transfer->result,
                   static_cast<std::uint32_t>(transfer->copies.size()), transfer->method, transfer->badPiece});
    lock.lock();
    lane.posted = transfer->number;
    lanesRest_.notify_all();
    keep(std::move(transfer));
    if (closingPools_.load() > 0) push({nullptr, [this] { closeRestedPools(); }});
  }
}

/** Keeps what a transfer used for the next one. Under `lanesLock_`. */
void Gpu::keep(std::unique_ptr<Transfer> transfer) {
  if (transfer->slab >= 0) freeSlabs_.push_back(transfer->slab);
  transfer->slab = -1;
  transfer->events.reset();
  const std::lock_guard<std::mutex> lock(freeLock_);
  if (freeTransfers_.size() < FREE_TRANSFERS_MAX) freeTransfers_.push_back(std::move(transfer));
}

std::shared_ptr<EventPair> Gpu::takeEvents() {
  const auto give = [this](EventPair* events) { giveEvents(events); };
  {
    const std::lock_guard<std::mutex> lock(eventsLock_);
    if (!freeEvents_.empty()) {
      EventPair* events = freeEvents_.back();
      freeEvents_.pop_back();
      return {events, give};
    }
  }
  auto made = std::make_unique<EventPair>();
  Result result = driver_->eventCreate(&made->start, EVENT_BLOCKING_SYNC);
  if (result == SUCCESS) result = driver_->eventCreate(&made->end, EVENT_BLOCKING_SYNC);
  EventPair* events = made.get();
  allEvents_.push_back(std::move(made)); // a half-made pair is destroyed with the others
  if (result == SUCCESS) return {events, give};
  if (isFatal(result)) lose(result);
  return nullptr;
}

void Gpu::giveEvents(EventPair* events) {
  const std::lock_guard<std::mutex> lock(eventsLock_);
  freeEvents_.push_back(events);
}

std::int32_t Gpu::takeSlab() {
  const std::lock_guard<std::mutex> lock(lanesLock_);
  if (freeSlabs_.empty()) return -1;
  const std::int32_t slab = freeSlabs_.back();
  freeSlabs_.pop_back();
  return slab;
}

GpuStats Gpu::stats() {
  const std::lock_guard<std::mutex> lock(lanesLock_);
  return stats_;
}

std::string Gpu::methodReason(Method method) {
  const std::lock_guard<std::mutex> lock(lanesLock_);
  return methods_.reason(method);
}

std::vector<MeasuredRow> Gpu::table() {
  const std::lock_guard<std::mutex> lock(lanesLock_);
  return shownTable_;
}

}  // namespace kvtier::cuda
