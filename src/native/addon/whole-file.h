// Moves a whole file in or out of memory in one call. Knows nothing of Node.
//
//   create     open a new file  -> write -> sync -> close -> its name
//   overwrite  open an old file -> is it as long, with one name only? -> write -> sync -> close -> its name
//   read       open -> read -> close
//
// The first call that fails ends it; the file is closed in any case. What was half written stays where it is.
#pragma once

#include <cstddef>

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace kvtier {

enum class FileTask { create = 0, overwrite = 1, read = 2 };

/// The call of the system that failed. The numbers are known to `native/whole-files.ts`.
enum class FileCall { none = 0, open = 1, stat = 2, write = 3, sync = 4, close = 5, rename = 6, read = 7 };

constexpr int kPiecesMost = 4;

struct FileMove {
  FileTask task;
  const char* path;
  /// What it is called once it is whole; null = as before. Not for reading.
  const char* name;
  /// O_DIRECT: addresses, lengths and with them all offsets are whole pages, then.
  bool is_direct;
  /// Whether bytes are forced to the device before the file gets its name.
  bool is_synced;
  int count;
  iovec pieces[kPiecesMost];
};

struct FileMoved {
  /// Of the system, 0 when all went well.
  int error;
  FileCall failed;
  /// False when `overwrite` met a file of another length, or with several names, and left it alone.
  bool is_done;
  /// Read or written: less than asked when a file that is read is shorter.
  size_t bytes;
};

/// The calls of the system, or stand-ins that fail on purpose. They return what libc's do, and set errno.
struct FileSystem {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*stat)(int file, struct stat* out);
  ssize_t (*write)(int file, const iovec* pieces, int count, off_t at);
  ssize_t (*read)(int file, const iovec* pieces, int count, off_t at);
  int (*sync)(int file);
  int (*close)(int file);
  int (*rename)(const char* from, const char* to);
};

/// The machine's own.
extern const FileSystem kFileSystem;

/// May be called by any number of threads at once.
FileMoved move_file(const FileMove& move, const FileSystem& system = kFileSystem);

}  // namespace kvtier
