// One part of the unattended run on a machine with a GPU (run.sh); needs g++ and the driver, no Node and no network.
// Usage: check PART [LIBRARY [MEBIBYTES]]; '' = the usual places. Prints a JSON object a line; exits 0 when all is well.
#include "check.h"

#include <cstdlib>
#include <functional>

int main(int argc, char** argv) {
  using namespace kvtier::check;
  const std::string part = argc > 1 ? argv[1] : "";
  const std::string library = argc > 2 ? argv[2] : "";
  const std::uint64_t bytes = static_cast<std::uint64_t>(argc > 3 ? std::atoi(argv[3]) : 256) << 20;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // As the engine does: streams that share a queue of the hardware wait for each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const struct {
    const char* name;
    std::function<bool()> run;
  } parts[] = {
      {"driver", [&] { return checkDriver(library); }},
      {"bytes", [&] { return checkBytes(library, bytes); }},
      {"rates", [&] { return checkRates(library, bytes); }},
      {"register", [&] { return checkRegistration(library, bytes * 2); }},
      {"queues", [&] { return checkQueues(library); }},
      {"peers", [&] { return checkPeers(library); }},
      {"loss", [&] { return checkLoss(library); }},
      {"--peer", [&] { return runPeer(library) == 0; }},
      {"--loss", [&] { return runLoss(library) == 0; }},
  };
  for (const auto& one : parts) {
    if (part == one.name) return one.run() ? 0 : 1;
  }
  std::fprintf(stderr, "check: there is no part %s\n", part.c_str());
  return 2;
}
