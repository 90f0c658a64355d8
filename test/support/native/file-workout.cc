// Moves files over stand-ins for the system's calls that fail, stop short and are interrupted, and compares what came of
// it with a model; then on many threads over the machine's own calls. Built with sanitizers by the tests, without Node.
// With a second argument two threads read into the same memory, which is not allowed: ThreadSanitizer has to say so.
//
//     file-workout FOLDER [wrong]
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "../../../src/native/addon/whole-file.h"

namespace {

using kvtier::FileCall;
using kvtier::FileMove;
using kvtier::FileMoved;
using kvtier::FileTask;

uint64_t state = 1;

size_t below(size_t limit) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<size_t>((state >> 33) % limit);
}

void check(bool holds, const char* text, const std::string& calls) {
  if (holds) return;
  std::printf("%s, after %s\n", text, calls.c_str());
  std::exit(1);
}

/// One file and the calls on it, each a letter: Open, Stat, Write, Read, sYnc, Close, reName.
struct Stage {
  std::vector<uint8_t> file;
  std::string calls;
  int open = 0;
  /// The call before which it fails, from 0; -1 = none. `error` is then what it fails with.
  int fails_at = -1;
  int error = 0;
  /// Interrupts every other call.
  bool is_interrupted = false;
  /// Moves a few bytes at a time.
  bool is_short = false;
  size_t links = 1;
  int flags = 0;
  bool just_interrupted = false;
};

Stage stage;

/// Notes a call. @returns false when it fails.
bool comes(char call) {
  if (stage.is_interrupted && !stage.just_interrupted) {
    stage.just_interrupted = true;
    errno = EINTR;
    if (call == 'C') stage.open -= 1, stage.calls += call;  // Linux closes it all the same
    return false;
  }
  stage.just_interrupted = false;
  stage.calls += call;
  if (call == 'C') stage.open -= 1;
  if (static_cast<int>(stage.calls.size()) - 1 != stage.fails_at) return true;
  errno = stage.error;
  return false;
}

ssize_t move_pieces(bool is_write, const iovec* pieces, int count, off_t at) {
  if (!comes(is_write ? 'W' : 'R')) return -1;
  const size_t start = static_cast<size_t>(at);
  size_t moved = 0, most = stage.is_short ? 1 + below(40) : ~size_t{0};
  for (int piece = 0; piece < count; piece += 1) {
    uint8_t* memory = static_cast<uint8_t*>(pieces[piece].iov_base);
    for (size_t byte = 0; byte < pieces[piece].iov_len && moved < most; byte += 1, moved += 1) {
      const size_t place = start + moved;
      if (is_write && place >= stage.file.size()) stage.file.resize(place + 1);
      if (!is_write && place >= stage.file.size()) return static_cast<ssize_t>(moved);
      if (is_write) stage.file[place] = memory[byte];
      else memory[byte] = stage.file[place];
    }
  }
  return static_cast<ssize_t>(moved);
}

const kvtier::FileSystem kStage = {
    [](const char*, int flags, mode_t) {
      if (!comes('O')) return -1;
      stage.flags = flags;
      stage.open += 1;
      return 7;
    },
    [](int, struct stat* out) {
      if (!comes('S')) return -1;
      out->st_size = static_cast<off_t>(stage.file.size());
      out->st_nlink = static_cast<decltype(out->st_nlink)>(stage.links);
      return 0;
    },
    [](int, const iovec* pieces, int count, off_t at) { return move_pieces(true, pieces, count, at); },
    [](int, const iovec* pieces, int count, off_t at) { return move_pieces(false, pieces, count, at); },
    [](int) { return comes('Y') ? 0 : -1; },
    [](int) { return comes('C') ? 0 : -1; },
    [](const char*, const char*) {
      // Nothing interrupts it.
      stage.just_interrupted = true;
      return comes('N') ? 0 : -1;
    },
};

/// Pieces in memory of exactly their size, so that a byte beside them is found out.
struct Memory {
  std::vector<std::unique_ptr<uint8_t[]>> owned;
  FileMove move = {};

  Memory(FileTask task, bool is_synced, bool is_named) {
    move.task = task;
    move.path = "there";
    move.name = is_named ? "named" : nullptr;
    move.is_synced = is_synced;
    move.count = 1 + static_cast<int>(below(kvtier::kPiecesMost));
    for (int at = 0; at < move.count; at += 1) {
      const size_t length = below(3) == 0 ? 0 : 1 + below(100);
      owned.emplace_back(new uint8_t[length]);
      for (size_t byte = 0; byte < length; byte += 1) owned.back()[byte] = static_cast<uint8_t>(below(256));
      move.pieces[at] = {owned.back().get(), length};
    }
  }

  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> all;
    for (int at = 0; at < move.count; at += 1) {
      const uint8_t* from = static_cast<const uint8_t*>(move.pieces[at].iov_base);
      all.insert(all.end(), from, from + move.pieces[at].iov_len);
    }
    return all;
  }
};

constexpr FileTask kTasks[] = {FileTask::create, FileTask::overwrite, FileTask::read};

/// A scene in which all goes well, however short and interrupted the calls are.
void goes_well(FileTask task) {
  stage = Stage();
  stage.is_short = below(2) == 0;
  stage.is_interrupted = below(2) == 0;
  Memory memory(task, below(2) == 0, below(2) == 0);
  const std::vector<uint8_t> before = memory.bytes();
  if (task == FileTask::overwrite) stage.file.assign(before.size(), 0);
  if (task == FileTask::read) {
    stage.file.resize(below(400));
    for (uint8_t& byte : stage.file) byte = static_cast<uint8_t>(below(256));
  }
  const FileMoved moved = move_file(memory.move, kStage);
  check(moved.error == 0 && moved.failed == FileCall::none && moved.is_done, "it failed", stage.calls);
  check(stage.open == 0, "the file is still open", stage.calls);
  const std::vector<uint8_t> after = memory.bytes();
  const size_t expected = task == FileTask::read ? std::min(stage.file.size(), before.size()) : before.size();
  check(moved.bytes == expected, "the count is wrong", stage.calls);
  if (task == FileTask::read) {
    check(std::equal(after.begin(), after.begin() + static_cast<long>(expected), stage.file.begin()), "read", stage.calls);
    check(std::equal(after.begin() + static_cast<long>(expected), after.end(), before.begin() + static_cast<long>(expected)),
          "it wrote behind the end", stage.calls);
    return;
  }
  check(stage.file == before && after == before, "the file is not the memory", stage.calls);
  std::string order = task == FileTask::create ? "O" : "OS";
  order.append(static_cast<size_t>(std::count(stage.calls.begin(), stage.calls.end(), 'W')), 'W');
  order += std::string(memory.move.is_synced ? "Y" : "") + "C" + (memory.move.name != nullptr ? "N" : "");
  check(stage.calls == order, "the order is wrong", stage.calls);
}

/// Whatever call fails, and with whatever: nothing comes after it but the close, and the answer names it.
void fails(FileTask task, int at, int error) {
  stage = Stage();
  stage.fails_at = at;
  stage.error = error;
  stage.is_short = below(2) == 0;
  Memory memory(task, true, task != FileTask::read);
  const size_t bytes = memory.bytes().size();
  stage.file.assign(task == FileTask::read ? bytes + below(50) : task == FileTask::overwrite ? bytes : 0, 1);
  const FileMoved moved = move_file(memory.move, kStage);
  check(stage.open == 0, "the file is still open", stage.calls);
  if (at >= static_cast<int>(stage.calls.size())) return check(moved.error == 0, "it failed", stage.calls);
  const char call = stage.calls[static_cast<size_t>(at)];
  const std::string rest = stage.calls.substr(static_cast<size_t>(at) + 1);
  check(rest == (call == 'O' || call == 'C' || call == 'N' ? "" : "C"), "something came after the failure", stage.calls);
  const std::string letters = "?OSWYCNR";
  check(moved.error == error && letters[static_cast<size_t>(moved.failed)] == call, "another failure", stage.calls);
}

/// A file that is none to write over is opened, looked at and closed.
void leaves_alone() {
  for (const int other : {-1, 1, 0}) {
    stage = Stage();
    Memory memory(FileTask::overwrite, true, true);
    const size_t bytes = memory.bytes().size();
    if (bytes == 0) continue;
    stage.file.assign(bytes + static_cast<size_t>(other), 1);
    stage.links = other == 0 ? 2 : 1;
    const FileMoved moved = move_file(memory.move, kStage);
    check(stage.calls == "OSC" && !moved.is_done && moved.error == 0, "it was not left alone", stage.calls);
  }
}

/// Past the cache a short read is the last one: behind it nothing would be aligned. Through it the end has to be met.
void ends_early() {
  for (const bool is_direct : {true, false}) {
    stage = Stage();
    Memory memory(FileTask::read, false, false);
    const size_t bytes = memory.bytes().size();
    if (bytes < 2) continue;
    stage.file.assign(bytes - 1, 1);
    memory.move.is_direct = is_direct;
    const FileMoved moved = move_file(memory.move, kStage);
    check(moved.error == 0 && moved.bytes == bytes - 1, "the count is wrong", stage.calls);
    check(stage.calls == (is_direct ? "ORC" : "ORRC"), "it read too often, or not often enough", stage.calls);
    check(((stage.flags & O_DIRECT) != 0) == is_direct, "it was opened another way", stage.calls);
  }
}

/// What fails while it is closed after a failure does not hide that.
void first_failure_counts() {
  stage = Stage();
  Memory memory(FileTask::create, true, true);
  memory.move.pieces[0] = {memory.owned[0].get(), 0};
  kvtier::FileSystem system = kStage;
  system.sync = [](int) { return errno = EIO, -1; };
  system.close = [](int) { return errno = EDQUOT, -1; };
  const FileMoved moved = move_file(memory.move, system);
  check(moved.error == EIO && moved.failed == FileCall::sync, "the second failure was told", stage.calls);
  system = kStage;
  system.write = [](int, const iovec*, int, off_t) { return ssize_t{0}; };
  uint8_t byte = 1;
  memory.move.count = 1;
  memory.move.pieces[0] = {&byte, 1};
  check(move_file(memory.move, system).error == EIO, "a write without progress went on", stage.calls);
}

/// A file a thread, over the machine's own calls; all write from one memory.
void on_threads(const std::string& folder, bool is_wrong) {
  constexpr size_t kBytes = 300000;
  const std::vector<uint8_t> source(kBytes, 5);
  std::vector<uint8_t> shared(kBytes);
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; number += 1) {
    threads.emplace_back([&, number] {
      const std::string path = folder + "/" + std::to_string(number), made = path + "-new";
      std::vector<uint8_t> own(kBytes);
      for (int round = 0; round < 10; round += 1) {
        for (const FileTask task : kTasks) {
          FileMove move = {};
          move.task = task;
          move.path = task == FileTask::create ? made.c_str() : path.c_str();
          move.name = task == FileTask::create ? path.c_str() : nullptr;
          move.count = 2;
          uint8_t* memory = task != FileTask::read ? const_cast<uint8_t*>(source.data()) : is_wrong ? shared.data() : own.data();
          move.pieces[0] = {memory, 1000};
          move.pieces[1] = {memory + 1000, kBytes - 1000};
          const FileMoved moved = move_file(move);
          check(moved.error == 0 && moved.is_done && moved.bytes == kBytes, "a file was not moved", path);
        }
        if (!is_wrong) check(own == source, "what was read is not what was written", path);
      }
      unlink(path.c_str());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  for (int round = 0; round < 2000; round += 1) {
    for (const FileTask task : kTasks) goes_well(task);
    leaves_alone();
    ends_early();
  }
  for (const FileTask task : kTasks) {
    for (int at = 0; at < 12; at += 1) {
      for (const int error : {EIO, ENOSPC, EINVAL, EDQUOT, EACCES, EFBIG}) {
        for (int round = 0; round < 20; round += 1) fails(task, at, error);
      }
    }
  }
  first_failure_counts();
  on_threads(words[1], count > 2);
  std::puts("done");
  return 0;
}
