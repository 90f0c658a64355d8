#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand-in.h"

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int lostWith;

void setTotalBytes(uint64_t bytes);
void endMemory(void);
void freeEvents(void);

static int64_t counts[COUNTS];
static int isInitialised;
static int references;
static int deviceCount = 1;
static int version = 12090;
static char context;
static __thread void* current;

/** A failure to come: of the nth call from now of one entry point, or of any ("*"). */
static struct {
  char name[64];
  int64_t nth;
  int result;
} fault;

void addCount(int which, int64_t change) { counts[which] += change; }

void lose(int result) {
  lostWith = result;
  pthread_cond_broadcast(&changed);
}

static int isFatal(int result) { return result == 46 || (result >= 700 && result < 712) || (result >= 714 && result < 720) || result == 999; }

CUresult enter(const char* name, int needsContext) {
  pthread_mutex_lock(&lock);
  counts[COUNT_CALLS] += 1;
  CUresult result = OK;
  if (fault.nth > 0 && (fault.name[0] == '*' || strcmp(fault.name, name) == 0)) {
    fault.nth -= 1;
    if (fault.nth == 0) {
      result = fault.result;
      if (isFatal(result)) lose(result);
    }
  }
  if (result == OK && !isInitialised) result = NOT_INITIALIZED;
  if (result == OK && needsContext) result = current == NULL || references == 0 ? BAD_CONTEXT : lostWith;
  if (result == BAD_CONTEXT && needsContext) counts[COUNT_VIOLATIONS] += 1;
  if (result != OK) pthread_mutex_unlock(&lock);
  return result;
}

CUresult leave(CUresult result) {
  pthread_mutex_unlock(&lock);
  return result;
}

/**
 * Steers the driver: `fail NAME NTH RESULT`, `revive`, `hold 0|1`, `slow MICROSECONDS`, `move 0|1`, `memory BYTES`,
 * `devices COUNT`, `version NUMBER`, `virtual 0|1`, `own 0|1`. Returns 0 when understood.
 */
API int kvtierStandInControl(const char* command) {
  long long number = 0;
  int result = 0, understood = 0;
  char name[64];
  pthread_mutex_lock(&lock);
  if (sscanf(command, "fail %63s %lld %d", name, &number, &result) == 3) {
    strcpy(fault.name, name);
    fault.nth = number;
    fault.result = result;
    understood = 1;
  } else if (strcmp(command, "revive") == 0) {
    lostWith = OK;
    fault.nth = 0;
    understood = 1;
  } else if (sscanf(command, "hold %lld", &number) == 1) {
    isHeld = (int)number;
    understood = 1;
  } else if (sscanf(command, "slow %lld", &number) == 1) {
    slowMicroseconds = (unsigned)number;
    understood = 1;
  } else if (sscanf(command, "move %lld", &number) == 1) {
    isStill = number == 0;
    understood = 1;
  } else if (sscanf(command, "memory %lld", &number) == 1) {
    setTotalBytes((uint64_t)number);
    understood = 1;
  } else if (sscanf(command, "virtual %lld", &number) == 1) {
    isVirtual = (int)number;
    understood = 1;
  } else if (sscanf(command, "own %lld", &number) == 1) {
    opensOwn = (int)number;
    understood = 1;
  } else if (sscanf(command, "devices %lld", &number) == 1) {
    deviceCount = (int)number;
    understood = 1;
  } else if (sscanf(command, "version %lld", &number) == 1) {
    version = (int)number;
    understood = 1;
  }
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return understood ? 0 : -1;
}

/** The counter of a name: bytes or objects that are not freed, calls, violations. -1 = unknown. */
API long long kvtierStandInCount(const char* name) {
  static const char* const names[COUNTS] = {"allocated", "registered", "streams",    "events", "modules", "imported",
                                            "contexts",  "calls",      "violations", "copies", "batches", "launches"};
  for (int i = 0; i < COUNTS; i += 1) {
    if (strcmp(name, names[i]) != 0) continue;
    pthread_mutex_lock(&lock);
    const long long count = counts[i];
    pthread_mutex_unlock(&lock);
    return count;
  }
  return -1;
}

/** Failures that a process starts with, for engines that a test cannot reach: commands with `;` between them. */
__attribute__((constructor)) static void readEnvironment(void) {
  const char* all = getenv("STAND_IN_CUDA");
  if (all == NULL) return;
  char* copy = strdup(all);
  for (char* one = strtok(copy, ";"); one != NULL; one = strtok(NULL, ";")) {
    if (kvtierStandInControl(one) != 0) fprintf(stderr, "stand-in: %s is no command\n", one);
  }
  free(copy);
}

API CUresult cuInit(unsigned flags) {
  pthread_mutex_lock(&lock);
  isInitialised = 1;
  pthread_mutex_unlock(&lock);
  CUresult result = enter("cuInit", 0);
  if (result != OK) return result;
  return leave(flags != 0 ? INVALID : deviceCount == 0 ? NO_DEVICE : OK);
}

API CUresult cuDriverGetVersion(int* out) {
  *out = version;
  return OK;
}

API CUresult cuDeviceGetCount(int* count) {
  CUresult result = enter("cuDeviceGetCount", 0);
  if (result != OK) return result;
  *count = deviceCount;
  return leave(OK);
}

API CUresult cuDeviceGet(int* device, int ordinal) {
  CUresult result = enter("cuDeviceGet", 0);
  if (result != OK) return result;
  *device = ordinal;
  return leave(ordinal >= 0 && ordinal < deviceCount ? OK : 101);
}

API CUresult cuDeviceGetName(char* name, int length, int device) {
  (void)device;
  snprintf(name, (size_t)length, "Stand-in GPU of the tests");
  return OK;
}

API CUresult cuDeviceGetUuid_v2(char* uuid, int device) {
  memset(uuid, 0x5a, 16);
  uuid[15] = (char)device;
  return OK;
}

API CUresult cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 40 ? 3 : 1;
  return OK;
}

API CUresult cuDevicePrimaryCtxRetain(void** out, int device) {
  CUresult result = enter("cuDevicePrimaryCtxRetain", 0);
  if (result != OK) return result;
  if (device < 0 || device >= deviceCount) return leave(101);
  if (lostWith != OK) return leave(lostWith);
  references += 1;
  counts[COUNT_CONTEXTS] += 1;
  *out = &context;
  return leave(OK);
}

API CUresult cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  pthread_mutex_lock(&lock);
  if (references == 0) return leave(BAD_CONTEXT);
  references -= 1;
  counts[COUNT_CONTEXTS] -= 1;
  if (references == 0) {
    // What was not destroyed on a healthy device is a leak; on a lost one nothing could be.
    if (lostWith != OK) {
      endStreams();
      endMemory();
      counts[COUNT_MODULES] = 0;
    }
    freeEvents();
  }
  return leave(OK);
}

API CUresult cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* isActive) {
  CUresult result = enter("cuDevicePrimaryCtxGetState", 0);
  if (result != OK) return result;
  *flags = 0;
  *isActive = references > 0;
  return leave(device >= 0 && device < deviceCount ? OK : 101);
}

API CUresult cuCtxSetCurrent(void* one) {
  if (one != NULL && one != &context) return BAD_CONTEXT;
  current = one;
  return OK;
}

API CUresult cuModuleLoadData(void** module, const char* image) {
  CUresult result = enter("cuModuleLoadData", 1);
  if (result != OK) return result;
  if (strstr(image, ".version") == NULL || strstr(image, ".target sm_") == NULL) return leave(BAD_IMAGE);
  char* copy = strdup(image);
  *module = copy;
  counts[COUNT_MODULES] += 1;
  return leave(OK);
}

API CUresult cuModuleGetFunction(void** function, void* module, const char* name) {
  CUresult result = enter("cuModuleGetFunction", 1);
  if (result != OK) return result;
  char entry[160];
  snprintf(entry, sizeof entry, ".visible .entry %.128s(", name);
  if (strstr(module, entry) == NULL) return leave(NOT_FOUND);
  *function = module;
  return leave(OK);
}

API CUresult cuModuleUnload(void* module) {
  CUresult result = enter("cuModuleUnload", 1);
  free(module);
  if (result != OK) return result;
  counts[COUNT_MODULES] -= 1;
  return leave(OK);
}

API CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == OK ? "CUDA_SUCCESS" : error == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
        : error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_STAND_IN";
  return OK;
}

API CUresult cuGetProcAddress_v2(const char* symbol, void** found, int wanted, uint64_t flags, int* status) {
  char name[128];
  snprintf(name, sizeof name, "%.120s_v2", symbol);
  Dl_info self;
  *found = NULL;
  // The one entry point whose newer ABI has other parameters.
  if (strcmp(symbol, "cuMemcpyBatchAsync") == 0 && wanted < 13000) snprintf(name, sizeof name, "%.120s", symbol);
  if (flags == 0 && wanted <= version && dladdr((void*)cuInit, &self) != 0) {
    void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL) {
      *found = dlsym(library, name);
      if (*found == NULL) *found = dlsym(library, symbol);
      dlclose(library);
    }
  }
  if (status != NULL) *status = *found == NULL ? 1 : 0;
  return *found == NULL ? NOT_FOUND : OK;
}
