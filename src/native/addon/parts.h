// The parts of the addon. Each puts its functions into the exports; none keeps state that belongs to one thread of
// JavaScript in a static: worker threads load the addon beside the main thread, each as often as it likes.
#pragma once

#include "arguments.h"

namespace kvtier {

void register_checksum(napi_env env, napi_value exports);
void register_cuda(napi_env env, napi_value exports);
void register_chunk_hashes(napi_env env, napi_value exports);
void register_token_list(napi_env env, napi_value exports);
void register_bulk_copy(napi_env env, napi_value exports);
void register_file_moves(napi_env env, napi_value exports);

using Register = void (*)(napi_env env, napi_value exports);

/// One row a part.
inline constexpr Register kParts[] = {
    register_checksum,
    register_cuda,
    register_chunk_hashes,
    register_token_list,
    register_bulk_copy,
    register_file_moves,
};

}  // namespace kvtier
