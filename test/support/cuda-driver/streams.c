#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stand-in.h"

static struct Stream* streams;
static struct Event* destroyed;
int isHeld;
int isStill;
unsigned slowMicroseconds;

struct BatchAttributes {
  int sourceOrder;
  int hints[4];
  unsigned flags;
};

static double nowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/** Moves the bytes of one copy, without the lock. Both ends were live when it began. */
static void copyNow(const struct Work* work) {
  pthread_mutex_lock(&lock);
  const int isFine = lostWith == OK && rangeOf(work->to, work->bytes) != NULL && rangeOf(work->from, work->bytes) != NULL;
  if (!isFine && lostWith == OK) {
    fprintf(stderr, "stand-in: copy of %llu bytes outside of live memory\n", (unsigned long long)work->bytes);
    addCount(COUNT_VIOLATIONS, 1);
    lose(ILLEGAL_ADDRESS);
  }
  const unsigned pause = slowMicroseconds;
  const int isMoving = isFine && !isStill;
  pthread_mutex_unlock(&lock);
  if (pause > 0) usleep(pause);
  if (isMoving) memcpy(realOf(work->to), realOf(work->from), work->bytes);
}

/** Waits until a value is there, or the device is lost. With the lock. */
static void waitFor(const struct Work* work) {
  if (work->kind == WAIT) {
    while (lostWith == OK && work->event->completed < work->generation) pthread_cond_wait(&changed, &lock);
    return;
  }
  // The memory may be given back meanwhile, by whoever forgot this wait.
  while (lostWith == OK && rangeOf(work->to, 8) != NULL &&
         (int64_t)(__atomic_load_n((uint64_t*)realOf(work->to), __ATOMIC_ACQUIRE) - work->value) < 0) {
    // Another process may write it.
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 1000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec += 1, soon.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&changed, &lock, &soon);
  }
}

static void doWork(struct Work* work) {
  if (work->kind == COPY) {
    copyNow(work);
    return;
  }
  if (work->kind == LAUNCH) {
    if (runKernel(work->from, work->count, work->grid, work->threads) == 0) return;
    pthread_mutex_lock(&lock);
    addCount(COUNT_VIOLATIONS, 1);
    lose(ILLEGAL_ADDRESS);
    pthread_mutex_unlock(&lock);
    return;
  }
  pthread_mutex_lock(&lock);
  if (work->kind == WAIT || work->kind == WAIT_VALUE) waitFor(work);
  const int isWord = work->kind == WAIT_VALUE || work->kind == WRITE_VALUE;
  if (isWord && lostWith == OK && rangeOf(work->to, 8) == NULL) {
    fprintf(stderr, "stand-in: a word that is not there any more\n");
    addCount(COUNT_VIOLATIONS, 1);
    lose(ILLEGAL_ADDRESS);
  }
  if (work->kind == WRITE_VALUE && lostWith == OK) {
    __atomic_store_n((uint64_t*)realOf(work->to), work->value, __ATOMIC_RELEASE);
  }
  if (work->kind == RECORD) {
    if (work->event->completed < work->generation) work->event->completed = work->generation;
    work->event->atMs = nowMs();
  }
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static void* runStream(void* data) {
  struct Stream* stream = data;
  for (;;) {
    pthread_mutex_lock(&lock);
    stream->busy = 0;
    pthread_cond_broadcast(&changed);
    while (stream->head == NULL || (isHeld && stream->head->kind != STOP && lostWith == OK)) {
      pthread_cond_wait(&changed, &lock);
    }
    struct Work* work = stream->head;
    stream->head = work->next;
    if (stream->head == NULL) stream->tail = NULL;
    stream->busy = 1;
    pthread_mutex_unlock(&lock);
    const int isEnd = work->kind == STOP;
    if (!isEnd) doWork(work);
    free(work);
    if (isEnd) return NULL;
  }
}

static struct Work* append(struct Stream* stream, enum Kind kind) {
  struct Work* work = calloc(1, sizeof *work);
  work->kind = kind;
  if (stream->tail == NULL) stream->head = work;
  else stream->tail->next = work;
  stream->tail = work;
  pthread_cond_broadcast(&changed);
  return work;
}

API CUresult cuStreamCreate(struct Stream** made, unsigned flags) {
  CUresult result = enter("cuStreamCreate", 1);
  if (result != OK) return result;
  if (flags != 1) return leave(INVALID);
  struct Stream* stream = calloc(1, sizeof *stream);
  if (pthread_create(&stream->thread, NULL, runStream, stream) != 0) return leave(UNKNOWN);
  stream->next = streams;
  streams = stream;
  *made = stream;
  addCount(COUNT_STREAMS, 1);
  return leave(OK);
}

/** Ends a stream after its work. With the lock, which it lets go of meanwhile. */
static void endStream(struct Stream* stream) {
  for (struct Stream** at = &streams; *at != NULL; at = &(*at)->next) {
    if (*at == stream) {
      *at = stream->next;
      break;
    }
  }
  append(stream, STOP);
  pthread_mutex_unlock(&lock);
  pthread_join(stream->thread, NULL);
  pthread_mutex_lock(&lock);
  free(stream);
  addCount(COUNT_STREAMS, -1);
}

void endStreams(void) {
  while (streams != NULL) endStream(streams);
}

API CUresult cuStreamDestroy_v2(struct Stream* stream) {
  CUresult result = enter("cuStreamDestroy", 1);
  if (result != OK) return result;
  endStream(stream);
  return leave(OK);
}

API CUresult cuStreamSynchronize(struct Stream* stream) {
  CUresult result = enter("cuStreamSynchronize", 1);
  if (result != OK) return result;
  while (lostWith == OK && (stream->head != NULL || stream->busy)) pthread_cond_wait(&changed, &lock);
  return leave(lostWith);
}

API CUresult cuEventCreate(struct Event** made, unsigned flags) {
  CUresult result = enter("cuEventCreate", 1);
  if (result != OK) return result;
  if (flags != 1) return leave(INVALID);
  *made = calloc(1, sizeof **made);
  addCount(COUNT_EVENTS, 1);
  return leave(OK);
}

// Work of a stream may still name it: the memory goes with the context. Counted on a lost device too.
API CUresult cuEventDestroy_v2(struct Event* event) {
  pthread_mutex_lock(&lock);
  addCount(COUNT_EVENTS, -1);
  event->next = destroyed;
  destroyed = event;
  pthread_mutex_unlock(&lock);
  return OK;
}

void freeEvents(void) {
  while (destroyed != NULL) {
    struct Event* first = destroyed;
    destroyed = first->next;
    free(first);
  }
}

API CUresult cuEventRecord(struct Event* event, struct Stream* stream) {
  CUresult result = enter("cuEventRecord", 1);
  if (result != OK) return result;
  if (stream == NULL) return leave(BAD_HANDLE);
  struct Work* work = append(stream, RECORD);
  event->recorded += 1;
  work->event = event;
  work->generation = event->recorded;
  return leave(OK);
}

API CUresult cuStreamWaitEvent(struct Stream* stream, struct Event* event, unsigned flags) {
  CUresult result = enter("cuStreamWaitEvent", 1);
  if (result != OK) return result;
  if (flags != 0) return leave(INVALID);
  struct Work* work = append(stream, WAIT);
  work->event = event;
  work->generation = event->recorded;
  return leave(OK);
}

API CUresult cuEventSynchronize(struct Event* event) {
  CUresult result = enter("cuEventSynchronize", 1);
  if (result != OK) return result;
  const uint64_t generation = event->recorded;
  while (event->completed < generation && lostWith == OK) pthread_cond_wait(&changed, &lock);
  return leave(lostWith);
}

API CUresult cuEventElapsedTime(float* milliseconds, struct Event* start, struct Event* end) {
  CUresult result = enter("cuEventElapsedTime", 1);
  if (result != OK) return result;
  if (start->completed < start->recorded || end->completed < end->recorded) return leave(NOT_READY);
  *milliseconds = (float)(end->atMs - start->atMs);
  return leave(OK);
}

static CUresult copy(const char* name, uint64_t to, uint64_t from, uint64_t bytes, struct Stream* stream) {
  CUresult result = enter(name, 1);
  if (result != OK) return result;
  if (stream == NULL || bytes == 0) return leave(INVALID);
  struct Work* work = append(stream, COPY);
  work->to = to;
  work->from = from;
  work->bytes = bytes;
  addCount(COUNT_COPIES, 1);
  return leave(OK);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, struct Stream* stream) {
  return copy("cuMemcpyHtoDAsync", to, (uint64_t)(uintptr_t)from, bytes, stream);
}

API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, struct Stream* stream) {
  return copy("cuMemcpyDtoHAsync", (uint64_t)(uintptr_t)to, from, bytes, stream);
}

API CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                struct BatchAttributes* attributes, size_t* indices, size_t attributeCount,
                                size_t* failed, struct Stream* stream) {
  CUresult result = enter("cuMemcpyBatchAsync", 1);
  if (result != OK) return result;
  int isFine = stream != NULL && count > 0 && attributeCount == 1 && indices[0] == 0 && failed != NULL &&
               attributes->sourceOrder >= 1 && attributes->sourceOrder <= 3 && attributes->flags == 0;
  for (int i = 0; i < 4; i += 1) isFine = isFine && attributes->hints[i] == 0;
  for (size_t i = 0; isFine && i < count; i += 1) isFine = bytes[i] > 0;
  if (!isFine) return leave(INVALID);
  // There is no order within a batch: whoever relies on one is found out.
  for (size_t i = count; i > 0; i -= 1) {
    struct Work* work = append(stream, COPY);
    work->to = to[i - 1];
    work->from = from[i - 1];
    work->bytes = bytes[i - 1];
  }
  addCount(COUNT_BATCHES, 1);
  return leave(OK);
}

/** The ABI of CUDA 13, without the index of what failed: whoever calls it as the one of 12.8 is found out. */
API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                   struct BatchAttributes* attributes, size_t* indices, size_t attributeCount,
                                   struct Stream* stream) {
  (void)to, (void)from, (void)bytes, (void)count, (void)attributes, (void)indices, (void)attributeCount, (void)stream;
  pthread_mutex_lock(&lock);
  addCount(COUNT_VIOLATIONS, 1);
  return leave(INVALID);
}

API CUresult cuLaunchKernel(void* function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                            unsigned blockY, unsigned blockZ, unsigned sharedBytes, struct Stream* stream,
                            void** parameters, void** extra) {
  CUresult result = enter("cuLaunchKernel", 1);
  if (result != OK) return result;
  const int isFine = function != NULL && stream != NULL && gridX > 0 && gridY == 1 && gridZ == 1 && blockX > 0 &&
                     blockX <= 1024 && blockY == 1 && blockZ == 1 && sharedBytes == 0 && extra == NULL;
  if (!isFine) return leave(INVALID);
  struct Work* work = append(stream, LAUNCH);
  work->from = *(uint64_t*)parameters[0];
  work->count = *(unsigned*)parameters[1];
  work->grid = gridX;
  work->threads = blockX;
  addCount(COUNT_LAUNCHES, 1);
  return leave(OK);
}

static CUresult semaphore(const char* name, enum Kind kind, struct Stream* stream, CUdeviceptr address, uint64_t value) {
  CUresult result = enter(name, 1);
  if (result != OK) return result;
  if (address % 8 != 0 || rangeOf(address, 8) == NULL) return leave(INVALID);
  struct Work* work = append(stream, kind);
  work->to = address;
  work->value = value;
  return leave(OK);
}

API CUresult cuStreamWriteValue64_v2(struct Stream* stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  return flags == 0 ? semaphore("cuStreamWriteValue64", WRITE_VALUE, stream, address, value) : INVALID;
}

API CUresult cuStreamWaitValue64_v2(struct Stream* stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  return flags == 0 ? semaphore("cuStreamWaitValue64", WAIT_VALUE, stream, address, value) : INVALID;
}
