// A CUDA driver for tests, on host memory. It proves how the driver is used, never a speed.
//
// Device pointers are moved by BIAS, so that the host that follows one faults. Allocations are poisoned. Each stream is
// a thread that does its work in order, batches from the last copy to the first. Copies must lie within live
// allocations and registered host memory: any other ends the context with error 700, as on a GPU. Every call but a few
// needs a current context. `kvtierStandInControl` arranges failures; `kvtierStandInCount` tells what is not freed.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
#define BIAS (1ull << 52)

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, BAD_CONTEXT = 201, BAD_IMAGE = 200,
       ALREADY_MAPPED = 208, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
       ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, UNKNOWN = 999 };

enum Kind { COPY, RECORD, WAIT, LAUNCH, WRITE_VALUE, WAIT_VALUE, STOP };

struct Event;

struct Work {
  enum Kind kind;
  struct Work* next;
  uint64_t to, from, bytes; // as the caller named them
  struct Event* event;
  uint64_t generation;
  uint64_t value;
  unsigned count, grid, threads;
};

struct Stream {
  pthread_t thread;
  struct Work *head, *tail;
  int busy;
  struct Stream* next;
};

struct Event {
  uint64_t recorded, completed;
  double atMs;
  struct Event* next;
};

/** A range that copies may touch. */
struct Range {
  enum { DEVICE, HOST, IMPORTED } kind;
  uint64_t start, bytes; // device: biased
  int fd;
  int isVirtual;    // device: of no single allocation, as expandable segments have it
  unsigned opened;  // imported: as often as it was opened
  char handle[64];  // imported: by which
  struct Range* next;
};

// All of it under `lock`; `changed` tells of everything.
extern pthread_mutex_t lock;
extern pthread_cond_t changed;
extern struct Range* ranges;
extern int lostWith;
extern int isHeld;
/** Copies move nothing: to measure what is around them. */
extern int isStill;
extern unsigned slowMicroseconds;
/** Allocations from now on are virtual. */
extern int isVirtual;
/** A process may open its own handles, which a driver refuses: for tests that play both sides. */
extern int opensOwn;

/** Live range that contains [start, start + bytes), or null. */
struct Range* rangeOf(uint64_t start, uint64_t bytes);
/** The address in this process of a device or host address. */
void* realOf(uint64_t address);
/** What an entry point returns first: an injected failure, a lost device, no context; else 0. Takes the lock and holds
 * it when 0. `needsContext` 0 for calls that work without. */
CUresult enter(const char* name, int needsContext);
CUresult leave(CUresult result);
void lose(int result);
void addCount(int which, int64_t change);
void endStreams(void);
/** Runs the kernel of the module: each thread of each block, as the PTX says. */
int runKernel(uint64_t copies, unsigned count, unsigned grid, unsigned threads);

enum { COUNT_ALLOCATED, COUNT_REGISTERED, COUNT_STREAMS, COUNT_EVENTS, COUNT_MODULES, COUNT_IMPORTED, COUNT_CONTEXTS,
       COUNT_CALLS, COUNT_VIOLATIONS, COUNT_COPIES, COUNT_BATCHES, COUNT_LAUNCHES, COUNTS };
