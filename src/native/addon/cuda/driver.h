// The entry points of the CUDA driver that the engine uses, declared here: no toolkit is needed to build, and nothing
// links to libcuda. `test/unit/native/cuda-abi.test.ts` holds every type and number against the vendor's cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace kvtier::cuda {

using Result = int;
using DevicePointer = unsigned long long;
using DeviceOrdinal = int;
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;

constexpr Result SUCCESS = 0;
constexpr Result INVALID_VALUE = 1;
constexpr Result OUT_OF_MEMORY = 2;
constexpr Result DEINITIALIZED = 4;
constexpr Result STUB_LIBRARY = 34;
constexpr Result DEVICE_UNAVAILABLE = 46;
constexpr Result NO_DEVICE = 100;
constexpr Result INVALID_CONTEXT = 201;
constexpr Result ECC_UNCORRECTABLE = 214;
constexpr Result NVLINK_UNCORRECTABLE = 220;
constexpr Result CONTAINED = 226;
constexpr Result MAP_FAILURE = 205;
constexpr Result INVALID_HANDLE = 400;
constexpr Result NOT_FOUND = 500;
constexpr Result NOT_READY = 600;
constexpr Result ILLEGAL_ADDRESS = 700;
constexpr Result LAUNCH_TIMEOUT = 702;
constexpr Result CONTEXT_IS_DESTROYED = 709;
constexpr Result ASSERT = 710;
constexpr Result HARDWARE_STACK_ERROR = 714;
constexpr Result LAUNCH_FAILED = 719;
constexpr Result TENSOR_MEMORY_LEAK = 721;
constexpr Result NOT_SUPPORTED = 801;
constexpr Result MPS_RPC_FAILURE = 806;
constexpr Result MPS_CLIENT_TERMINATED = 810;
constexpr Result EXTERNAL_DEVICE = 911;
constexpr Result UNKNOWN = 999;

constexpr int ATTRIBUTE_MULTIPROCESSORS = 16;
constexpr int ATTRIBUTE_COPY_ENGINES = 40;
constexpr int ATTRIBUTE_UNIFIED_ADDRESSING = 41;
constexpr int ATTRIBUTE_CAPABILITY_MAJOR = 75;
constexpr int ATTRIBUTE_CAPABILITY_MINOR = 76;
constexpr int ATTRIBUTE_STREAM_MEMORY_OPS_64 = 122;
constexpr int POINTER_RANGE_START = 11;
constexpr int POINTER_RANGE_BYTES = 12;
constexpr unsigned EVENT_BLOCKING_SYNC = 1;
constexpr unsigned STREAM_NON_BLOCKING = 1;
constexpr unsigned HOST_REGISTER_PORTABLE = 1;
constexpr unsigned HOST_REGISTER_DEVICEMAP = 2;
constexpr unsigned IPC_LAZY_PEER_ACCESS = 1;
constexpr unsigned WAIT_VALUE_AT_LEAST = 0;
constexpr int SOURCE_ORDER_STREAM = 1;
constexpr std::size_t IPC_HANDLE_BYTES = 64;

struct Uuid {
  char bytes[16];
};

struct IpcHandle {
  char reserved[IPC_HANDLE_BYTES];
};

struct MemoryLocation {
  int type;
  int id;
};

/** How the copies of one batch read their sources. Order 0 is invalid. */
struct BatchAttributes {
  int sourceOrder;
  MemoryLocation sourceHint;
  MemoryLocation targetHint;
  unsigned flags;
};

// X(member, symbol, version of the ABI asked for, parameters). Versions are those in which the ABI first appeared.
#define KVTIER_CUDA_REQUIRED(X)                                                                                      \
  X(init, cuInit, 2000, (unsigned flags))                                                                            \
  X(driverGetVersion, cuDriverGetVersion, 2020, (int* version))                                                      \
  X(deviceGetCount, cuDeviceGetCount, 2000, (int* count))                                                            \
  X(deviceGet, cuDeviceGet, 2000, (DeviceOrdinal* device, int ordinal))                                              \
  X(deviceGetName, cuDeviceGetName, 2000, (char* name, int length, DeviceOrdinal device))                            \
  X(deviceGetUuid, cuDeviceGetUuid, 11040, (Uuid* uuid, DeviceOrdinal device))                                        \
  X(deviceTotalMemory, cuDeviceTotalMem, 3020, (std::size_t* bytes, DeviceOrdinal device))                           \
  X(deviceGetAttribute, cuDeviceGetAttribute, 2000, (int* value, int attribute, DeviceOrdinal device))               \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain, 7000, (Context* context, DeviceOrdinal device))                  \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease, 11000, (DeviceOrdinal device))                                 \
  X(contextSetCurrent, cuCtxSetCurrent, 4000, (Context context))                                                     \
  X(memoryAllocate, cuMemAlloc, 3020, (DevicePointer* pointer, std::size_t bytes))                                   \
  X(memoryFree, cuMemFree, 3020, (DevicePointer pointer))                                                            \
  X(hostRegister, cuMemHostRegister, 6050, (void* pointer, std::size_t bytes, unsigned flags))                       \
  X(hostUnregister, cuMemHostUnregister, 4000, (void* pointer))                                                      \
  X(hostGetDevicePointer, cuMemHostGetDevicePointer, 3020, (DevicePointer* device, void* host, unsigned flags))      \
  X(streamCreate, cuStreamCreate, 2000, (Stream* stream, unsigned flags))                                            \
  X(streamDestroy, cuStreamDestroy, 4000, (Stream stream))                                                           \
  X(streamWaitEvent, cuStreamWaitEvent, 3020, (Stream stream, Event event, unsigned flags))                          \
  X(eventCreate, cuEventCreate, 2000, (Event* event, unsigned flags))                                                \
  X(eventDestroy, cuEventDestroy, 4000, (Event event))                                                               \
  X(eventRecord, cuEventRecord, 2000, (Event event, Stream stream))                                                  \
  X(eventSynchronize, cuEventSynchronize, 2000, (Event event))                                                       \
  X(eventElapsedTime, cuEventElapsedTime, 2000, (float* milliseconds, Event start, Event end))                       \
  X(copyToDevice, cuMemcpyHtoDAsync, 3020, (DevicePointer to, const void* from, std::size_t bytes, Stream stream))   \
  X(copyToHost, cuMemcpyDtoHAsync, 3020, (void* to, DevicePointer from, std::size_t bytes, Stream stream))           \
  X(getErrorName, cuGetErrorName, 6000, (Result error, const char** name))

// Null where the driver lacks them: the engine then does without.
#define KVTIER_CUDA_OPTIONAL(X)                                                                                      \
  X(copyBatch, cuMemcpyBatchAsync, 12080,                                                                            \
    (DevicePointer* to, DevicePointer* from, std::size_t* bytes, std::size_t count, BatchAttributes* attributes,     \
     std::size_t* attributeIndices, std::size_t attributeCount, std::size_t* failedIndex, Stream stream))            \
  X(moduleLoadData, cuModuleLoadData, 2000, (Module* module, const void* image))                                     \
  X(moduleGetFunction, cuModuleGetFunction, 2000, (Function* function, Module module, const char* name))             \
  X(moduleUnload, cuModuleUnload, 2000, (Module module))                                                             \
  X(launchKernel, cuLaunchKernel, 4000,                                                                              \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,            \
     unsigned blockZ, unsigned sharedBytes, Stream stream, void** parameters, void** extra))                         \
  X(ipcGetHandle, cuIpcGetMemHandle, 4010, (IpcHandle * handle, DevicePointer pointer))                              \
  X(ipcOpenHandle, cuIpcOpenMemHandle, 11000, (DevicePointer * pointer, IpcHandle handle, unsigned flags))           \
  X(ipcCloseHandle, cuIpcCloseMemHandle, 4010, (DevicePointer pointer))                                              \
  X(pointerGetAttribute, cuPointerGetAttribute, 4000, (void* value, int attribute, DevicePointer pointer))           \
  X(memoryGetAddressRange, cuMemGetAddressRange, 3020,                                                              \
    (DevicePointer * base, std::size_t* bytes, DevicePointer pointer))                                               \
  X(primaryContextGetState, cuDevicePrimaryCtxGetState, 7000, (DeviceOrdinal device, unsigned* flags, int* isActive)) \
  X(streamWriteValue64, cuStreamWriteValue64, 11070,                                                                 \
    (Stream stream, DevicePointer address, std::uint64_t value, unsigned flags))                                     \
  X(streamWaitValue64, cuStreamWaitValue64, 11070,                                                                   \
    (Stream stream, DevicePointer address, std::uint64_t value, unsigned flags))

/** A driver that is loaded. One for each library of the process; it is never unloaded, as CUDA asks. */
struct Driver {
#define KVTIER_CUDA_MEMBER(member, symbol, version, parameters) Result(*member) parameters = nullptr;
  KVTIER_CUDA_REQUIRED(KVTIER_CUDA_MEMBER)
  KVTIER_CUDA_OPTIONAL(KVTIER_CUDA_MEMBER)
#undef KVTIER_CUDA_MEMBER
  std::string library;
  /** 1000 * major + 10 * minor of the newest CUDA that it serves. */
  int version = 0;
  /** The library is the tests' stand-in: it moves bytes in host memory. */
  bool isStandIn = false;

  /** `name (number)`, for people. */
  std::string nameOf(Result result) const;
};

/**
 * Loads the driver and initialises it, on the calling thread.
 *
 * @param library path of the library; empty = the usual places. A stand-in is taken only by its path.
 * @param reason why there is none, when the result is null.
 */
const Driver* loadDriver(const std::string& library, std::string& reason);

/** Whether a failure is the end of the context, and so of the device for this process. */
bool isFatal(Result result);

}  // namespace kvtier::cuda
