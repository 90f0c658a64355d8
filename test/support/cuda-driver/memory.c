#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stand-in.h"

struct Range* ranges;
static uint64_t totalBytes = 1ull << 30;
static uint64_t usedBytes;
int isVirtual;
int opensOwn;

struct IpcHandle {
  char reserved[64];
};

void setTotalBytes(uint64_t bytes) { totalBytes = bytes; }

struct Range* rangeOf(uint64_t start, uint64_t bytes) {
  for (struct Range* one = ranges; one != NULL; one = one->next) {
    if (start >= one->start && bytes <= one->bytes && start - one->start <= one->bytes - bytes) return one;
  }
  return NULL;
}

void* realOf(uint64_t address) { return (void*)(uintptr_t)(address >= BIAS ? address - BIAS : address); }

static struct Range* addRange(int kind, uint64_t start, uint64_t bytes, int fd) {
  struct Range* range = calloc(1, sizeof *range);
  range->kind = kind;
  range->start = start;
  range->bytes = bytes;
  range->fd = fd;
  range->next = ranges;
  ranges = range;
  return range;
}

/** The range that starts there, taken out of the list. */
static struct Range* takeRange(int kind, uint64_t start) {
  for (struct Range** at = &ranges; *at != NULL; at = &(*at)->next) {
    struct Range* one = *at;
    if ((int)one->kind != kind || one->start != start) continue;
    *at = one->next;
    return one;
  }
  return NULL;
}

static void unmap(struct Range* range) {
  if (range->kind == HOST) {
    addCount(COUNT_REGISTERED, -(int64_t)range->bytes);
  } else {
    munmap(realOf(range->start), range->bytes);
    if (range->fd >= 0) close(range->fd);
    addCount(range->kind == DEVICE ? COUNT_ALLOCATED : COUNT_IMPORTED, -(int64_t)range->bytes);
    if (range->kind == DEVICE) usedBytes -= range->bytes;
  }
  free(range);
}

/** What the end of a context takes with it. */
void endMemory(void) {
  while (ranges != NULL) {
    struct Range* first = ranges;
    ranges = first->next;
    unmap(first);
  }
}

API CUresult cuDeviceTotalMem_v2(size_t* bytes, int device) {
  CUresult result = enter("cuDeviceTotalMem", 0);
  if (result != OK) return result;
  *bytes = totalBytes;
  return leave(device == 0 ? OK : 101);
}

API CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  CUresult result = enter("cuMemAlloc", 1);
  if (result != OK) return result;
  if (bytes == 0) return leave(INVALID);
  if (bytes > totalBytes - usedBytes) return leave(NO_MEMORY);
  const int fd = memfd_create("kvtier-stand-in", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return leave(NO_MEMORY);
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return leave(NO_MEMORY);
  memset(memory, 0x4d, bytes < (1u << 20) ? bytes : (1u << 20)); // poison, the start of large ones: no word is negative
  usedBytes += bytes;
  *pointer = (uint64_t)(uintptr_t)memory + BIAS;
  addRange(DEVICE, *pointer, bytes, fd)->isVirtual = isVirtual;
  addCount(COUNT_ALLOCATED, (int64_t)bytes);
  return leave(OK);
}

API CUresult cuMemFree_v2(CUdeviceptr pointer) {
  CUresult result = enter("cuMemFree", 1);
  if (result != OK) return result;
  struct Range* range = takeRange(DEVICE, pointer);
  if (range == NULL) return leave(INVALID);
  unmap(range);
  return leave(OK);
}

API CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  CUresult result = enter("cuMemHostRegister", 1);
  if (result != OK) return result;
  if (pointer == NULL || bytes == 0 || flags > 15) return leave(INVALID);
  const uint64_t start = (uint64_t)(uintptr_t)pointer;
  for (struct Range* one = ranges; one != NULL; one = one->next) {
    if (one->kind == HOST && start < one->start + one->bytes && one->start < start + bytes) {
      return leave(ALREADY_REGISTERED);
    }
  }
  addRange(HOST, (uint64_t)(uintptr_t)pointer, bytes, -1);
  addCount(COUNT_REGISTERED, (int64_t)bytes);
  return leave(OK);
}

API CUresult cuMemHostUnregister(void* pointer) {
  CUresult result = enter("cuMemHostUnregister", 1);
  if (result != OK) return result;
  struct Range* range = takeRange(HOST, (uint64_t)(uintptr_t)pointer);
  if (range == NULL) return leave(NOT_REGISTERED);
  unmap(range);
  return leave(OK);
}

API CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NO_MEMORY;
  CUresult result = cuMemHostRegister_v2(memory, bytes, flags);
  if (result != OK) munmap(memory, bytes);
  *pointer = memory;
  return result;
}

API CUresult cuMemFreeHost(void* pointer) {
  pthread_mutex_lock(&lock);
  struct Range* range = rangeOf((uint64_t)(uintptr_t)pointer, 1);
  const size_t bytes = range == NULL ? 0 : range->bytes;
  pthread_mutex_unlock(&lock);
  CUresult result = cuMemHostUnregister(pointer);
  if (result == OK) munmap(pointer, bytes);
  return result;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned flags) {
  CUresult result = enter("cuMemHostGetDevicePointer", 1);
  if (result != OK) return result;
  if (flags != 0 || rangeOf((uint64_t)(uintptr_t)host, 1) == NULL) return leave(INVALID);
  *device = (uint64_t)(uintptr_t)host;
  return leave(OK);
}

API CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr pointer) {
  CUresult result = enter("cuPointerGetAttribute", 1);
  if (result != OK) return result;
  struct Range* range = rangeOf(pointer, 1);
  if (range == NULL) return leave(INVALID);
  if (attribute == 11) *(CUdeviceptr*)value = range->start;
  else if (attribute == 12) *(size_t*)value = range->bytes;
  else if (attribute == 10) *(unsigned*)value = range->kind == DEVICE && !range->isVirtual;
  else return leave(INVALID);
  return leave(OK);
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  CUresult result = enter("cuMemGetAddressRange", 1);
  if (result != OK) return result;
  struct Range* range = rangeOf(pointer, 1);
  if (range == NULL || range->kind == HOST) return leave(NOT_FOUND);
  *base = range->start;
  *bytes = range->bytes;
  return leave(OK);
}

// A handle names a file of the exporting process: it opens only while that lives, and a mapping outlives it. All handles
// of an allocation are the same. Virtual memory (expandable segments) has none.
API CUresult cuIpcGetMemHandle(struct IpcHandle* handle, CUdeviceptr pointer) {
  CUresult result = enter("cuIpcGetMemHandle", 1);
  if (result != OK) return result;
  struct Range* range = rangeOf(pointer, 1);
  if (range == NULL || range->kind != DEVICE || range->isVirtual) return leave(INVALID);
  memset(handle, 0, sizeof *handle);
  snprintf(handle->reserved, sizeof handle->reserved, "%d %d", getpid(), range->fd);
  return leave(OK);
}

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, struct IpcHandle handle, unsigned flags) {
  CUresult result = enter("cuIpcOpenMemHandle", 1);
  if (result != OK) return result;
  int process = 0, descriptor = -1;
  char path[64];
  struct stat about;
  if (flags != 1 || sscanf(handle.reserved, "%d %d", &process, &descriptor) != 2) return leave(INVALID);
  if (process == getpid() && !opensOwn) return leave(BAD_CONTEXT);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return leave(205);
  if (fstat(fd, &about) != 0 || about.st_size <= 0) return leave(205);
  for (struct Range* one = ranges; one != NULL; one = one->next) {
    if (one->kind != IMPORTED || strcmp(one->handle, handle.reserved) != 0) continue;
    close(fd);
    one->opened += 1;
    *pointer = one->start;
    return leave(OK);
  }
  void* memory = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return leave(NO_MEMORY);
  *pointer = (uint64_t)(uintptr_t)memory + BIAS;
  struct Range* range = addRange(IMPORTED, *pointer, (uint64_t)about.st_size, fd);
  range->opened = 1;
  memcpy(range->handle, handle.reserved, sizeof range->handle);
  addCount(COUNT_IMPORTED, about.st_size);
  return leave(OK);
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  CUresult result = enter("cuIpcCloseMemHandle", 1);
  if (result != OK) return result;
  struct Range* range = takeRange(IMPORTED, pointer);
  if (range == NULL) return leave(INVALID);
  range->opened -= 1;
  if (range->opened > 0) {
    range->next = ranges;
    ranges = range;
    return leave(OK);
  }
  unmap(range);
  return leave(OK);
}
