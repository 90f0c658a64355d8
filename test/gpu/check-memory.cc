#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "check.h"

namespace kvtier::check {

namespace {

using namespace kvtier::cuda;

constexpr std::uint64_t PAGE_BYTES = 4096;

void touch(unsigned char* memory, std::uint64_t bytes, std::uint64_t threads) {
  std::vector<std::thread> workers;
  const std::uint64_t share = bytes / threads / PAGE_BYTES * PAGE_BYTES;
  for (std::uint64_t i = 0; i < threads; i += 1) {
    workers.emplace_back([=] {
      const std::uint64_t end = i + 1 == threads ? bytes : (i + 1) * share;
      for (std::uint64_t at = i * share; at < end; at += PAGE_BYTES) memory[at] = 1;
    });
  }
  for (auto& worker : workers) worker.join();
}

bool measure(const Driver& driver, std::uint64_t bytes, std::uint64_t threads) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  const auto start = std::chrono::steady_clock::now();
  touch(static_cast<unsigned char*>(memory), bytes, threads);
  const double touched = secondsSince(start);
  const auto middle = std::chrono::steady_clock::now();
  const Result result = driver.hostRegister(memory, bytes, HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP);
  const double registered = secondsSince(middle);
  DevicePointer seen = 0;
  bool isFine = result == SUCCESS && driver.hostGetDevicePointer(&seen, memory, 0) == SUCCESS;
  const bool isSame = seen == reinterpret_cast<DevicePointer>(memory);
  if (result == SUCCESS) isFine = driver.hostUnregister(memory) == SUCCESS && isFine;
  std::printf("{\"check\":\"register\",\"bytes\":%llu,\"threads\":%llu,\"touchSeconds\":%.4f,\"registerSeconds\":%.4f,"
              "\"result\":%d,\"deviceSeesSameAddress\":%s,\"fine\":%s}\n",
              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(threads), touched, registered,
              result, wordOf(isSame), wordOf(isFine));
  munmap(memory, bytes);
  return isFine;
}

}  // namespace

unsigned char* mapHost(std::uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
}

bool checkRegistration(const std::string& library, std::uint64_t bytes) {
  std::string reason;
  const Driver* driver = loadDriver(library, reason);
  Context context = nullptr;
  if (driver == nullptr || driver->primaryContextRetain(&context, 0) != SUCCESS) return false;
  bool isFine = driver->contextSetCurrent(context) == SUCCESS;
  for (const std::uint64_t threads : {1, 2, 4, 8}) isFine = measure(*driver, bytes, threads) && isFine;
  driver->contextSetCurrent(nullptr);
  driver->primaryContextRelease(0);
  return isFine;
}

}  // namespace kvtier::check
