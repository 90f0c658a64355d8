#include "whole-file.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#if !defined(O_DIRECT)
#define O_DIRECT 0
#endif

namespace kvtier {
namespace {

/// Calls again what a signal interrupted.
template <typename Call>
auto again(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// The pieces that are left to move.
class Rest {
 public:
  explicit Rest(const FileMove& move) : count_(move.count) {
    for (int at = 0; at < count_; at += 1) {
      pieces_[at] = move.pieces[at];
      total_ += pieces_[at].iov_len;
    }
    skip(0);
  }

  const iovec* pieces() const { return pieces_ + first_; }
  int count() const { return count_ - first_; }
  /// Of all pieces as they were in the beginning.
  size_t total() const { return total_; }

  /// Takes away what was moved, and pieces without a byte.
  void skip(size_t moved) {
    for (; first_ < count_ && moved >= pieces_[first_].iov_len; first_ += 1) moved -= pieces_[first_].iov_len;
    if (first_ == count_) return;
    pieces_[first_].iov_base = static_cast<uint8_t*>(pieces_[first_].iov_base) + moved;
    pieces_[first_].iov_len -= moved;
  }

 private:
  iovec pieces_[kPiecesMost];
  int count_;
  int first_ = 0;
  size_t total_ = 0;
};

/// One file on its way: open from the first call to the last.
class Journey {
 public:
  Journey(const FileMove& move, const FileSystem& system) : move_(move), system_(system), rest_(move) {}

  FileMoved run() {
    const int file = again([&] { return system_.open(move_.path, flags(), 0600); });
    if (file < 0) return failed(FileCall::open);
    moved_.is_done = true;
    const bool is_written = move_.task != FileTask::read;
    if (is_written) write(file);
    else read(file);
    // A file is closed even when a signal comes; an error that is told only now is one of writing.
    if (system_.close(file) < 0 && errno != EINTR && errno != EINPROGRESS) failed(FileCall::close);
    if (moved_.error != 0 || !moved_.is_done) return moved_;
    if (is_written && move_.name != nullptr && system_.rename(move_.path, move_.name) < 0) failed(FileCall::rename);
    return moved_;
  }

 private:
  int flags() const {
    const int direct = move_.is_direct ? O_DIRECT : 0;
    if (move_.task == FileTask::read) return O_CLOEXEC | direct | O_RDONLY;
    return O_CLOEXEC | direct | O_WRONLY | (move_.task == FileTask::create ? O_CREAT | O_EXCL : 0);
  }

  void write(int file) {
    if (move_.task == FileTask::overwrite && !is_same(file)) return;
    while (rest_.count() > 0) {
      const auto call = [&] { return system_.write(file, rest_.pieces(), rest_.count(), offset()); };
      const ssize_t bytes = again(call);
      if (bytes == 0) errno = EIO;  // no progress and no reason: it would go on for ever
      if (bytes <= 0) return void(failed(FileCall::write));
      take(bytes);
    }
    if (move_.is_synced && again([&] { return system_.sync(file); }) < 0) failed(FileCall::sync);
  }

  /// Whether the file is one to write over.
  bool is_same(int file) {
    struct stat found;
    if (again([&] { return system_.stat(file, &found); }) < 0) {
      failed(FileCall::stat);
      return false;
    }
    moved_.is_done = found.st_nlink == 1 && static_cast<size_t>(found.st_size) == rest_.total();
    return moved_.is_done;
  }

  void read(int file) {
    while (rest_.count() > 0) {
      const auto call = [&] { return system_.read(file, rest_.pieces(), rest_.count(), offset()); };
      const ssize_t bytes = again(call);
      if (bytes < 0) return void(failed(FileCall::read));
      take(bytes);
      // Past the cache only the end of the file, or 2 GiB, cut a read short; behind the end it would not be aligned.
      if (bytes == 0 || (move_.is_direct && static_cast<size_t>(bytes) < kOneReadMost)) return;
    }
  }

  off_t offset() const { return static_cast<off_t>(moved_.bytes); }

  void take(ssize_t bytes) {
    moved_.bytes += static_cast<size_t>(bytes);
    rest_.skip(static_cast<size_t>(bytes));
  }

  FileMoved failed(FileCall call) {
    if (moved_.error == 0) {
      moved_.error = errno;
      moved_.failed = call;
    }
    return moved_;
  }

  /// What Linux moves at once, at most.
  static constexpr size_t kOneReadMost = 0x7ffff000;

  const FileMove& move_;
  const FileSystem& system_;
  Rest rest_;
  FileMoved moved_ = {};
};

}  // namespace

const FileSystem kFileSystem = {
    [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); },
    [](int file, struct stat* out) { return ::fstat(file, out); },
    [](int file, const iovec* pieces, int count, off_t at) { return ::pwritev(file, pieces, count, at); },
    [](int file, const iovec* pieces, int count, off_t at) { return ::preadv(file, pieces, count, at); },
#if defined(__linux__)
    [](int file) { return ::fdatasync(file); },
#else
    [](int file) { return ::fsync(file); },
#endif
    [](int file) { return ::close(file); },
    [](const char* from, const char* to) { return ::rename(from, to); },
};

FileMoved move_file(const FileMove& move, const FileSystem& system) { return Journey(move, system).run(); }

}  // namespace kvtier
