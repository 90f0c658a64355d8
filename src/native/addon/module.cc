// Entry of the addon: called once for each thread that loads it.
#include "parts.h"

NAPI_MODULE_INIT() {
  for (kvtier::Register part : kvtier::kParts) part(env, exports);
  return exports;
}
