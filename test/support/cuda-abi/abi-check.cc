// Holds our declarations of the CUDA driver against the vendor's. Compiling is the test.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <type_traits>

#include "driver.h"

namespace {

namespace own = kvtier::cuda;

/** What decides how a value is passed. */
template <typename T>
constexpr int kindOf() {
  if (std::is_pointer<T>::value) return 1;
  if (std::is_class<T>::value) return 2;
  if (std::is_floating_point<T>::value) return 3;
  return 4;
}

template <typename A, typename B>
constexpr bool passAlike() {
  return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && kindOf<A>() == kindOf<B>();
}

template <typename A, typename B>
struct SameAbi : std::false_type {};

template <typename R, typename... A, typename S, typename... B>
struct SameAbi<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B)) return false;
    else return passAlike<R, S>() && (passAlike<A, B>() && ...);
  }();
};

// The version is that of an ABI which the vendor names, and its parameters are ours. (The plain name has the newest one.)
#define CHECK(member, symbol, version, parameters) \
  static_assert(SameAbi<decltype(own::Driver::member), PFN_##symbol##_v##version>::value, #member);
KVTIER_CUDA_REQUIRED(CHECK)
KVTIER_CUDA_OPTIONAL(CHECK)

#ifdef KVTIER_PLANTED_FAULT
static_assert(SameAbi<decltype(own::Driver::memoryFree), PFN_cuMemAlloc_v3020>::value, "planted");
#endif

static_assert(sizeof(own::IpcHandle) == sizeof(CUipcMemHandle), "IpcHandle");
static_assert(own::IPC_HANDLE_BYTES == CU_IPC_HANDLE_SIZE, "IPC_HANDLE_BYTES");
static_assert(sizeof(own::Uuid) == sizeof(CUuuid), "Uuid");
static_assert(sizeof(own::MemoryLocation) == sizeof(CUmemLocation), "MemoryLocation");
static_assert(sizeof(own::BatchAttributes) == sizeof(CUmemcpyAttributes), "BatchAttributes");
static_assert(offsetof(own::BatchAttributes, sourceHint) == offsetof(CUmemcpyAttributes, srcLocHint), "sourceHint");
static_assert(offsetof(own::BatchAttributes, targetHint) == offsetof(CUmemcpyAttributes, dstLocHint), "targetHint");
static_assert(offsetof(own::BatchAttributes, flags) == offsetof(CUmemcpyAttributes, flags), "flags");

static_assert(own::SUCCESS == CUDA_SUCCESS, "SUCCESS");
static_assert(own::INVALID_VALUE == CUDA_ERROR_INVALID_VALUE, "INVALID_VALUE");
static_assert(own::OUT_OF_MEMORY == CUDA_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY");
static_assert(own::DEINITIALIZED == CUDA_ERROR_DEINITIALIZED, "DEINITIALIZED");
static_assert(own::STUB_LIBRARY == CUDA_ERROR_STUB_LIBRARY, "STUB_LIBRARY");
static_assert(own::DEVICE_UNAVAILABLE == CUDA_ERROR_DEVICE_UNAVAILABLE, "DEVICE_UNAVAILABLE");
static_assert(own::NO_DEVICE == CUDA_ERROR_NO_DEVICE, "NO_DEVICE");
static_assert(own::INVALID_CONTEXT == CUDA_ERROR_INVALID_CONTEXT, "INVALID_CONTEXT");
static_assert(own::ECC_UNCORRECTABLE == CUDA_ERROR_ECC_UNCORRECTABLE, "ECC_UNCORRECTABLE");
static_assert(own::NVLINK_UNCORRECTABLE == CUDA_ERROR_NVLINK_UNCORRECTABLE, "NVLINK_UNCORRECTABLE");
static_assert(own::CONTAINED == CUDA_ERROR_CONTAINED, "CONTAINED");
static_assert(own::MAP_FAILURE == CUDA_ERROR_MAP_FAILED, "MAP_FAILURE");
static_assert(own::INVALID_HANDLE == CUDA_ERROR_INVALID_HANDLE, "INVALID_HANDLE");
static_assert(own::NOT_FOUND == CUDA_ERROR_NOT_FOUND, "NOT_FOUND");
static_assert(own::NOT_READY == CUDA_ERROR_NOT_READY, "NOT_READY");
static_assert(own::ILLEGAL_ADDRESS == CUDA_ERROR_ILLEGAL_ADDRESS, "ILLEGAL_ADDRESS");
static_assert(own::LAUNCH_TIMEOUT == CUDA_ERROR_LAUNCH_TIMEOUT, "LAUNCH_TIMEOUT");
static_assert(own::CONTEXT_IS_DESTROYED == CUDA_ERROR_CONTEXT_IS_DESTROYED, "CONTEXT_IS_DESTROYED");
static_assert(own::ASSERT == CUDA_ERROR_ASSERT, "ASSERT");
static_assert(own::HARDWARE_STACK_ERROR == CUDA_ERROR_HARDWARE_STACK_ERROR, "HARDWARE_STACK_ERROR");
static_assert(own::LAUNCH_FAILED == CUDA_ERROR_LAUNCH_FAILED, "LAUNCH_FAILED");
static_assert(own::TENSOR_MEMORY_LEAK == CUDA_ERROR_TENSOR_MEMORY_LEAK, "TENSOR_MEMORY_LEAK");
static_assert(own::NOT_SUPPORTED == CUDA_ERROR_NOT_SUPPORTED, "NOT_SUPPORTED");
static_assert(own::MPS_RPC_FAILURE == CUDA_ERROR_MPS_RPC_FAILURE, "MPS_RPC_FAILURE");
static_assert(own::MPS_CLIENT_TERMINATED == CUDA_ERROR_MPS_CLIENT_TERMINATED, "MPS_CLIENT_TERMINATED");
static_assert(own::EXTERNAL_DEVICE == CUDA_ERROR_EXTERNAL_DEVICE, "EXTERNAL_DEVICE");
static_assert(own::UNKNOWN == CUDA_ERROR_UNKNOWN, "UNKNOWN");

static_assert(own::ATTRIBUTE_MULTIPROCESSORS == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "multiprocessors");
static_assert(own::ATTRIBUTE_COPY_ENGINES == CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, "copy engines");
static_assert(own::ATTRIBUTE_UNIFIED_ADDRESSING == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "unified addressing");
static_assert(own::ATTRIBUTE_CAPABILITY_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "major");
static_assert(own::ATTRIBUTE_CAPABILITY_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "minor");
static_assert(own::ATTRIBUTE_STREAM_MEMORY_OPS_64 == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, "memory ops");
static_assert(own::POINTER_RANGE_START == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "range start");
static_assert(own::POINTER_RANGE_BYTES == CU_POINTER_ATTRIBUTE_RANGE_SIZE, "range size");
static_assert(own::EVENT_BLOCKING_SYNC == CU_EVENT_BLOCKING_SYNC, "blocking sync");
static_assert(own::STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING, "non-blocking");
static_assert(own::HOST_REGISTER_PORTABLE == CU_MEMHOSTREGISTER_PORTABLE, "portable");
static_assert(own::HOST_REGISTER_DEVICEMAP == CU_MEMHOSTREGISTER_DEVICEMAP, "device map");
static_assert(own::IPC_LAZY_PEER_ACCESS == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, "lazy peer access");
static_assert(own::WAIT_VALUE_AT_LEAST == CU_STREAM_WAIT_VALUE_GEQ, "at least");
static_assert(own::SOURCE_ORDER_STREAM == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, "source order");

}  // namespace
