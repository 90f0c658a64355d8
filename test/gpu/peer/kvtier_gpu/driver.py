"""The CUDA driver API by ctypes: what a process needs to share memory and to order its work with the engine's."""

import ctypes
import mmap
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p

IPC_HANDLE_BYTES = 64
_IPC_LAZY_PEER_ACCESS = 1
_RANGE_START = 11
_IS_LEGACY_IPC_CAPABLE = 10
_STREAM_NON_BLOCKING = 1
_EVENT_BLOCKING_SYNC = 1
_WAIT_AT_LEAST = 0
# Device pointers of the tests' driver are moved by this, so that whoever follows one on the host faults.
_STAND_IN_BIAS = 1 << 52


class DriverError(Exception):
    """A call of the driver failed."""


class _IpcHandle(ctypes.Structure):
    _fields_ = [('reserved', c_char * IPC_HANDLE_BYTES)]


class Driver:
    """One device and its primary context, which torch uses too. Every call makes the context current first."""

    def __init__(self, library: str = 'libcuda.so.1', ordinal: int = 0):
        self._cuda = ctypes.CDLL(library or 'libcuda.so.1')
        self.is_stand_in = hasattr(self._cuda, 'kvtierStandInControl')
        self._call('cuInit', c_uint(0))
        self._device = c_int()
        self._call('cuDeviceGet', byref(self._device), c_int(ordinal))
        self._context = c_void_p()
        self._call('cuDevicePrimaryCtxRetain', byref(self._context), self._device)
        self._pinned = []

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(128)
        self._call('cuDeviceGetName', text, c_int(len(text)), self._device)
        return text.value.decode()

    @property
    def version(self) -> int:
        """1000 * major + 10 * minor of the newest CUDA that the driver serves."""
        value = c_int()
        self._call('cuDriverGetVersion', byref(value))
        return value.value

    def allocate(self, count: int) -> int:
        pointer = c_uint64()
        self._in_context('cuMemAlloc_v2', byref(pointer), c_size_t(count))
        return pointer.value

    def free(self, pointer: int) -> None:
        self._in_context('cuMemFree_v2', c_uint64(pointer))

    def share(self, pointer: int) -> tuple[str, int]:
        """IPC handle, in hexadecimal, of the allocation that the pointer lies in, and its offset there."""
        if not self.is_shareable(pointer):
            raise DriverError(
                'this memory has no IPC handle: it is of expandable segments (PYTORCH_CUDA_ALLOC_CONF) or of a virtual '
                'memory allocator (sleep mode of vLLM, --enable-cumem-allocator). Allocate it without them.'
            )
        base = c_uint64()
        self._in_context('cuPointerGetAttribute', byref(base), c_int(_RANGE_START), c_uint64(pointer))
        handle = _IpcHandle()
        self._in_context('cuIpcGetMemHandle', byref(handle), base)
        return bytes(ctypes.string_at(byref(handle), IPC_HANDLE_BYTES)).hex(), pointer - base.value

    def is_shareable(self, pointer: int) -> bool:
        """Whether the allocation that the pointer lies in has an IPC handle."""
        value = c_uint()
        self._in_context('cuPointerGetAttribute', byref(value), c_int(_IS_LEGACY_IPC_CAPABLE), c_uint64(pointer))
        return value.value != 0

    def open_shared(self, handle: str) -> int:
        given = _IpcHandle()
        ctypes.memmove(byref(given), bytes.fromhex(handle), IPC_HANDLE_BYTES)
        pointer = c_uint64()
        self._in_context('cuIpcOpenMemHandle_v2', byref(pointer), given, c_uint(_IPC_LAZY_PEER_ACCESS))
        return pointer.value

    def close_shared(self, pointer: int) -> None:
        self._in_context('cuIpcCloseMemHandle', c_uint64(pointer))

    def stream(self) -> int:
        made = c_void_p()
        self._in_context('cuStreamCreate', byref(made), c_uint(_STREAM_NON_BLOCKING))
        return made.value

    def write_word(self, stream: int, pointer: int, value: int) -> None:
        """The word gets the value once everything before on the stream is done."""
        self._in_context('cuStreamWriteValue64_v2', c_void_p(stream), c_uint64(pointer), c_uint64(value), c_uint(0))

    def wait_word(self, stream: int, pointer: int, value: int) -> None:
        """What follows on the stream waits until the word is at least that."""
        flags = c_uint(_WAIT_AT_LEAST)
        self._in_context('cuStreamWaitValue64_v2', c_void_p(stream), c_uint64(pointer), c_uint64(value), flags)

    def synchronize(self, stream: int) -> None:
        event = c_void_p()
        self._in_context('cuEventCreate', byref(event), c_uint(_EVENT_BLOCKING_SYNC))
        self._in_context('cuEventRecord', event, c_void_p(stream))
        self._in_context('cuEventSynchronize', event)
        self._in_context('cuEventDestroy_v2', event)

    def pinned(self, count: int):
        """Host memory that copies may go to and come from; kept until the process ends. Whole pages, shared with nothing."""
        pages = mmap.mmap(-1, -(-count // mmap.PAGESIZE) * mmap.PAGESIZE)
        memory = (ctypes.c_uint8 * count).from_buffer(pages)
        self._in_context('cuMemHostRegister_v2', c_void_p(ctypes.addressof(memory)), c_size_t(len(pages)), c_uint(0))
        self._pinned.append(memory)
        return memory

    def copy_in(self, stream: int, pointer: int, host, offset: int, count: int) -> None:
        source = c_void_p(ctypes.addressof(host) + offset)
        self._in_context('cuMemcpyHtoDAsync_v2', c_uint64(pointer), source, c_size_t(count), c_void_p(stream))

    def copy_out(self, stream: int, host, offset: int, pointer: int, count: int) -> None:
        target = c_void_p(ctypes.addressof(host) + offset)
        self._in_context('cuMemcpyDtoHAsync_v2', target, c_uint64(pointer), c_size_t(count), c_void_p(stream))

    def host_address(self, pointer: int) -> int:
        """Where memory of the tests' driver really lies. On a GPU there is no such place."""
        if not self.is_stand_in:
            raise DriverError('GPU memory has no address on the host')
        return pointer - _STAND_IN_BIAS

    def _in_context(self, name: str, *arguments) -> None:
        self._call('cuCtxSetCurrent', self._context)
        self._call(name, *arguments)

    def _call(self, name: str, *arguments) -> None:
        result = getattr(self._cuda, name)(*arguments)
        if result != 0:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(c_int(result), byref(text))
            raise DriverError(f'{name}: {(text.value or b"unknown").decode()} ({result})')
