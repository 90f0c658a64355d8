// Whole files in and out of memory, for JavaScript: one call and one promise a file.
//
// A move runs on a thread of libuv's pool, as Node's own file calls do, and for their reasons: the engine gives that
// pool a thread for each file that may be under way, and Node waits for its work before a thread of JavaScript ends. So
// no move outlives the environment whose memory it reads or fills, and the mapping stays until its threads have ended.
#include <string>

#include "parts.h"
#include "whole-file.h"

namespace kvtier {
namespace {

/// Where the pieces begin among the arguments.
constexpr size_t kPiecesAt = 4;

/// A move under way. It holds on to the views whose memory it uses.
struct Moving {
  FileMove move = {};
  FileMoved moved = {};
  std::string path;
  std::string name;
  napi_ref views[kPiecesMost] = {};
  napi_deferred promise = nullptr;
  napi_async_work work = nullptr;
};

void release(napi_env env, Moving* moving) {
  for (napi_ref view : moving->views) {
    if (view != nullptr) napi_delete_reference(env, view);
  }
  if (moving->work != nullptr) napi_delete_async_work(env, moving->work);
  delete moving;
}

void execute(napi_env, void* data) {
  Moving* moving = static_cast<Moving*>(data);
  moving->moved = move_file(moving->move);
}

/// On the thread of JavaScript; also when that is about to end, and then nobody hears the answer.
void complete(napi_env env, napi_status, void* data) {
  Moving* moving = static_cast<Moving*>(data);
  const FileMoved& moved = moving->moved;
  const double failed = static_cast<double>(moved.failed) * 4096 + moved.error;
  const double done = static_cast<double>(moved.is_done ? moved.bytes : 0);
  napi_value answer = nullptr;
  const double value = moved.error != 0 ? -failed : done;
  if (napi_create_double(env, value, &answer) == napi_ok) napi_resolve_deferred(env, moving->promise, answer);
  release(env, moving);
}

/// A path of the system: bytes without a zero.
bool path_of(Arguments& call, size_t at, std::string* out) {
  napi_value from = call.value(at);
  size_t length = 0;
  if (!call.ok()) return false;
  if (napi_get_value_string_utf8(call.env(), from, nullptr, 0, &length) != napi_ok) {
    call.fail("not a path");
    return false;
  }
  out->resize(length + 1);
  napi_get_value_string_utf8(call.env(), from, &(*out)[0], length + 1, &length);
  out->resize(length);
  if (out->find('\0') != std::string::npos) call.range("a path with a zero in it");
  return call.ok();
}

/// Reads the arguments. @returns false when one is wrong.
bool read_arguments(Arguments& call, Moving* moving) {
  FileMove& move = moving->move;
  const size_t task = call.index(0, 2);
  const size_t flags = call.index(1, 3);
  if (!path_of(call, 2, &moving->path) || !path_of(call, 3, &moving->name)) return false;
  if (moving->path.empty()) call.range("a path without a name");
  call.value(kPiecesAt);
  const size_t count = call.count() - (call.ok() ? kPiecesAt : call.count());
  if (call.ok() && count > kPiecesMost) call.range("too many pieces");
  for (size_t at = 0; call.ok() && at < count; at += 1) {
    const Bytes piece = call.bytes(kPiecesAt + at);
    if (!call.ok()) return false;
    move.pieces[at] = {piece.data, piece.length};
    if (napi_create_reference(call.env(), call.value(kPiecesAt + at), 1, &moving->views[at]) != napi_ok) {
      call.fail("a piece that cannot be held");
    }
  }
  move.task = static_cast<FileTask>(task);
  move.path = moving->path.c_str();
  move.name = moving->name.empty() ? nullptr : moving->name.c_str();
  move.is_direct = (flags & 1) != 0;
  move.is_synced = (flags & 2) != 0;
  move.count = static_cast<int>(count);
  return call.ok();
}

/// moveFile(task, flags, path, name, ...pieces) -> a promise. flags: 1 = O_DIRECT, 2 = synced. name: '' = as before.
/// Answers bytes moved, 0 for a file that was left alone, or -(4096 x the call that failed + its error number).
napi_value move_file_call(napi_env env, napi_callback_info info) {
  Arguments call(env, info);
  Moving* moving = new Moving;
  napi_value promise = nullptr, resource = nullptr;
  bool is_made = read_arguments(call, moving);
  if (is_made) {
    is_made = napi_create_string_latin1(env, "kvtier:file", NAPI_AUTO_LENGTH, &resource) == napi_ok &&
              napi_create_async_work(env, nullptr, resource, execute, complete, moving, &moving->work) == napi_ok &&
              napi_create_promise(env, &moving->promise, &promise) == napi_ok &&
              napi_queue_async_work(env, moving->work) == napi_ok;
    if (!is_made) call.fail("no work can be begun");
  }
  if (is_made) return promise;
  release(env, moving);
  return nullptr;
}

}  // namespace

void register_file_moves(napi_env env, napi_value exports) { define(env, exports, "moveFile", move_file_call); }

}  // namespace kvtier
