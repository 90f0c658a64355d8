#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "check.h"

namespace kvtier::check {

namespace {

using namespace kvtier::cuda;

constexpr std::uint64_t POOL_BYTES = 8u << 20;
constexpr std::uint64_t BLOCK_BYTES = 64u << 10;
/** Where the words of the two processes lie: behind the blocks. */
constexpr std::uint64_t WORD_AT = POOL_BYTES;
constexpr std::uint64_t ALL_BYTES = POOL_BYTES + BLOCK_BYTES;

struct Device {
  Fences fences;
  unsigned char* host = nullptr;
  std::shared_ptr<Gpu> gpu;
  std::string reason;
};

bool open(Device& device, const std::string& library) {
  GpuOptions options;
  OpenFailure failure;
  device.host = mapHost(ALL_BYTES);
  options.library = library;
  options.poolBytes = ALL_BYTES;
  options.host = device.host;
  options.hostBytes = ALL_BYTES;
  if (device.host != nullptr) device.gpu = Gpu::open(options, device.fences.outbox, failure);
  device.reason = failure.reason;
  return device.gpu != nullptr;
}

void fill(unsigned char* host, std::uint64_t seed) {
  for (std::uint64_t at = 0; at < POOL_BYTES; at += 8) {
    const std::uint64_t word = (at + seed) * 0x9e3779b97f4a7c15ull;
    std::memcpy(host + at, &word, 8);
  }
}

/** All blocks of a layout, one after the other on the host. */
void submitAll(Gpu& gpu, int lane, int layout, bool isStore) {
  auto transfer = gpu.blank();
  transfer->pieces = Pieces::PAGED;
  transfer->lane = static_cast<std::size_t>(lane);
  transfer->isStore = isStore;
  transfer->layout = layout;
  transfer->blocksPerShard = POOL_BYTES / BLOCK_BYTES;
  transfer->hostOffsets.assign(1, 0);
  transfer->blocks.resize(transfer->blocksPerShard);
  for (std::size_t i = 0; i < transfer->blocks.size(); i += 1) transfer->blocks[i] = static_cast<std::int32_t>(i);
  gpu.submit(std::move(transfer));
}

bool tell(int to, const void* data, std::size_t bytes) { return write(to, data, bytes) == static_cast<ssize_t>(bytes); }

bool hear(int from, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(from, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

struct Child {
  pid_t process = -1;
  int in = -1;
  int out = -1;
};

/** This program again, in another part: a fork alone could not use CUDA. */
Child start(const char* part, const std::string& library) {
  int down[2];
  int up[2];
  Child child;
  if (pipe(down) != 0 || pipe(up) != 0) return child;
  child.process = fork();
  if (child.process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(down[0], 0);
    dup2(up[1], 1);
    for (const int descriptor : {down[0], down[1], up[0], up[1]}) close(descriptor);
    execl("/proc/self/exe", "check", part, library.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  child.in = up[0];
  child.out = down[1];
  return child;
}

int endOf(const Child& child) {
  close(child.in);
  close(child.out);
  int status = -1;
  waitpid(child.process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/** What lies in the peer's pool, against what it said it put there. */
bool readPeer(Device& device, int lane, int layout, std::uint64_t seed) {
  std::vector<unsigned char> wanted(POOL_BYTES);
  fill(wanted.data(), seed);
  std::memset(device.host, 0, POOL_BYTES);
  submitAll(*device.gpu, lane, layout, true);
  return device.fences.waitFor(1) && std::memcmp(device.host, wanted.data(), POOL_BYTES) == 0;
}

}  // namespace

int runPeer(const std::string& library) {
  Device device;
  std::string reason;
  IpcHandle handle{};
  if (!open(device, library) || !device.gpu->exportPool(handle, reason)) return 1;
  const int lane = device.gpu->createStream();
  const int layout = device.gpu->addLayout({{{0, 0}}, BLOCK_BYTES, BLOCK_BYTES}, reason);
  fill(device.host, 1);
  device.gpu->signal(static_cast<std::size_t>(lane), 0, WORD_AT, 0);
  submitAll(*device.gpu, lane, layout, false);
  if (!device.fences.waitFor(1) || !tell(1, handle.reserved, sizeof handle.reserved)) return 1;
  // The second pattern goes up only once the other process has put 5 into the word.
  char byte = 0;
  if (!hear(0, &byte, 1)) return 1;
  fill(device.host, 2);
  device.gpu->waitForValue(static_cast<std::size_t>(lane), 0, WORD_AT, 5);
  submitAll(*device.gpu, lane, layout, false);
  if (!tell(1, "w", 1) || !device.fences.waitFor(1) || !tell(1, "d", 1)) return 1;
  pause();  // until it is killed
  return 0;
}

bool checkPeers(const std::string& library) {
  const Child child = start("--peer", library);
  Device device;
  IpcHandle handle{};
  bool isFine = open(device, library) && hear(child.in, handle.reserved, sizeof handle.reserved);
  std::string reason = isFine ? "" : "no pool to share: " + device.reason;
  const int pool = isFine ? device.gpu->importPool(handle, 0, ALL_BYTES, reason) : -1;
  const PagedLayout whole{{{static_cast<std::uint32_t>(pool), 0}}, BLOCK_BYTES, BLOCK_BYTES};
  const int layout = pool < 0 ? -1 : device.gpu->addLayout(whole, reason);
  const int lane = layout < 0 ? -1 : device.gpu->createStream();
  isFine = lane >= 0 && readPeer(device, lane, layout, 1);
  std::printf("{\"check\":\"ipc\",\"reason\":%s,\"fine\":%s}\n", quoted(reason).c_str(), wordOf(isFine));
  if (isFine) {
    const Driver& driver = device.gpu->driver();
    const bool hasWords = driver.streamWaitValue64 != nullptr && driver.streamWriteValue64 != nullptr;
    char byte = 0;
    bool isTold = false;
    if (hasWords && tell(child.out, "g", 1) && hear(child.in, &byte, 1)) {
      const bool isOld = readPeer(device, lane, layout, 1);
      device.gpu->signal(static_cast<std::size_t>(lane), static_cast<std::uint32_t>(pool), WORD_AT, 5);
      isTold = isOld && hear(child.in, &byte, 1) && byte == 'd' && readPeer(device, lane, layout, 2);
    }
    std::printf("{\"check\":\"semaphores\",\"missing\":%s,\"fine\":%s}\n", wordOf(!hasWords), wordOf(isTold));
    isFine = isTold || !hasWords;
  }
  kill(child.process, SIGKILL);
  endOf(child);
  if (lane >= 0) {
    const bool isReadable = readPeer(device, lane, layout, 2) || readPeer(device, lane, layout, 1);
    std::printf("{\"check\":\"deadPeer\",\"isReadable\":%s,\"result\":%d,\"lostWith\":%d}\n", wordOf(isReadable),
                device.fences.firstFailure, device.gpu->lostWith());
    device.gpu->closePool(static_cast<std::uint32_t>(pool), 0);
  }
  return device.gpu != nullptr && device.gpu->close(std::chrono::seconds(30)) && isFine;
}

int runLoss(const std::string& library) {
  Device device;
  std::string reason;
  if (!open(device, library)) return 1;
  const int lane = device.gpu->createStream();
  const int layout = device.gpu->addLayout({{{0, 0}}, BLOCK_BYTES, BLOCK_BYTES}, reason);
  submitAll(*device.gpu, lane, layout, false);
  const bool wasFine = device.fences.waitFor(1);
  // The kernel, on descriptions that lie nowhere.
  const Driver& driver = device.gpu->driver();
  Context context = nullptr;
  Stream stream = nullptr;
  Event event = nullptr;
  Module module = nullptr;
  Function kernel = nullptr;
  DevicePointer nowhere = 1u << 12;
  unsigned count = 1;
  void* parameters[] = {&nowhere, &count};
  const bool isReady = driver.primaryContextRetain(&context, 0) == SUCCESS &&
                       driver.contextSetCurrent(context) == SUCCESS &&
                       driver.streamCreate(&stream, STREAM_NON_BLOCKING) == SUCCESS &&
                       driver.eventCreate(&event, EVENT_BLOCKING_SYNC) == SUCCESS &&
                       driver.moduleLoadData(&module, COPY_KERNEL_PTX) == SUCCESS &&
                       driver.moduleGetFunction(&kernel, module, COPY_KERNEL_NAME) == SUCCESS;
  if (!isReady) return 1;
  driver.launchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  driver.eventRecord(event, stream);
  const Result result = driver.eventSynchronize(event);
  submitAll(*device.gpu, lane, layout, true);
  const bool isServed = device.fences.waitFor(1);
  const Result lostWith = device.gpu->lostWith();
  const bool isClosed = device.gpu->close(std::chrono::seconds(30));
  const bool isFine = wasFine && result != SUCCESS && !isServed && lostWith == result && isClosed;
  std::printf("{\"check\":\"lost\",\"result\":%d,\"lostWith\":%d,\"fine\":%s}\n", result, lostWith, wordOf(isFine));
  return isFine ? 0 : 1;
}

bool checkLoss(const std::string& library) {
  const Child child = start("--loss", library);
  char byte = 0;
  while (hear(child.in, &byte, 1)) std::putchar(byte);
  return endOf(child) == 0;
}

}  // namespace kvtier::check
