// Preloaded into a process (LD_PRELOAD), it ends that before one call on a file: whichever library makes the call, libuv
// or the addon. KVTIER_CRASH is COUNT:CALL:FOLDER, the COUNTth CALL on a path below FOLDER. A write is torn: its
// first piece and half of its last one are written before.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <csignal>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

struct Order {
  int count = 0;
  char call[16] = "";
  char folder[4096] = "";

  Order() {
    const char* text = std::getenv("KVTIER_CRASH");
    if (text == nullptr || std::sscanf(text, "%d:%15[a-z]:%4095s", &count, call, folder) != 3) count = 0;
  }
};

const Order& order() {
  static const Order made;
  return made;
}

template <typename Call>
Call next(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

/// @returns whether the process ends before this call.
bool is_last(const char* call, const char* path) {
  static std::atomic<int> calls{0};
  if (order().count == 0 || std::strcmp(call, order().call) != 0) return false;
  if (std::strncmp(path, order().folder, std::strlen(order().folder)) != 0) return false;
  return calls.fetch_add(1) + 1 == order().count;
}

bool is_last(const char* call, int file) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = '\0';
  return is_last(call, path);
}

[[noreturn]] void end() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

using Write = ssize_t (*)(int, const iovec*, int, off_t);

ssize_t write_or_end(const char* name, int file, const iovec* pieces, int count, off_t at) {
  const Write write = next<Write>(name);
  if (!is_last("pwritev", file)) return write(file, pieces, count, at);
  iovec torn[2] = {pieces[0], pieces[count - 1]};
  torn[count > 1 ? 1 : 0].iov_len /= 2;
  write(file, torn, count > 1 ? 2 : 1, at);
  end();
}

int open_or_end(const char* name, const char* path, int flags, mode_t mode) {
  if (is_last("open", path)) end();
  return next<int (*)(const char*, int, mode_t)>(name)(path, flags, mode);
}

mode_t mode_of(int flags, va_list rest) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_or_end("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_or_end("open64", path, flags, mode);
}

ssize_t pwritev(int file, const iovec* pieces, int count, off_t at) {
  return write_or_end("pwritev", file, pieces, count, at);
}

ssize_t pwritev64(int file, const iovec* pieces, int count, off_t at) {
  return write_or_end("pwritev64", file, pieces, count, at);
}

int fdatasync(int file) {
  if (is_last("fdatasync", file)) end();
  return next<int (*)(int)>("fdatasync")(file);
}

int fsync(int file) {
  if (is_last("fsync", file)) end();
  return next<int (*)(int)>("fsync")(file);
}

int close(int file) {
  if (is_last("close", file)) end();
  return next<int (*)(int)>("close")(file);
}

int rename(const char* from, const char* to) {
  if (is_last("rename", from)) end();
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

}  // extern "C"
