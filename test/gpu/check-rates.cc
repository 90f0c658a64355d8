// What issues of speed promise, each as `measured / floor / holds`, by figures of this run alone. Everything that is
// compared is measured in turn, ROUNDS times, and medians are compared.
#include <algorithm>
#include <numeric>

#include "check.h"
#include "plain-copies.h"

namespace kvtier::check {

using namespace kvtier::cuda;

namespace {

constexpr int ROUNDS = 15;
constexpr int REPEATS = 2;
constexpr std::uint64_t MIB = 1u << 20;
constexpr std::uint64_t SMALL_BYTES = 64 * MIB;
constexpr const char* WAYS[] = {"load", "store"};
constexpr const char* METHOD_NAMES[] = {"loop", "batch", "kernel"};

/** A device with memory of its own, and a stream each way. */
struct Rig {
  Fences fences;
  std::shared_ptr<Gpu> gpu;
  std::uint64_t bytes = 0;
  int lanes[2] = {-1, -1};

  bool open(const std::string& library, std::uint64_t poolBytes, unsigned methods) {
    GpuOptions options;
    OpenFailure failure;
    bytes = poolBytes;
    options.library = library;
    options.poolBytes = poolBytes;
    options.hostBytes = 2 * poolBytes;
    options.host = mapHost(options.hostBytes);
    options.methods = methods;
    if (options.host != nullptr) gpu = Gpu::open(options, fences.outbox, failure);
    if (gpu == nullptr) std::printf("{\"check\":\"open\",\"fine\":false,\"reason\":%s}\n", quoted(failure.reason).c_str());
    if (gpu == nullptr) return false;
    for (int& lane : lanes) lane = gpu->createStream();
    return true;
  }

  /** GB/s of `transfers` of `count` pieces each way that is asked for; 0 = it failed. */
  double rate(bool isLoading, bool isStoring, std::uint64_t piece, std::uint64_t count, int transfers) {
    std::vector<std::uint64_t> order(count);
    std::iota(order.rbegin(), order.rend(), 0);
    const auto start = std::chrono::steady_clock::now();
    std::size_t submitted = 0;
    for (int i = 0; i < transfers; i += 1) {
      for (const bool isStore : {false, true}) {
        if (!(isStore ? isStoring : isLoading)) continue;
        submit(*gpu, lanes[isStore ? 1 : 0], isStore, piece, isStore ? bytes : 0, order);
        submitted += 1;
      }
    }
    if (!fences.waitFor(submitted)) return 0;
    return static_cast<double>(piece * count * submitted) / secondsSince(start) / 1e9;
  }
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void say(const char* must, double measured, double floor, bool holds, const std::string& more) {
  std::printf("{\"must\":\"%s\",\"measured\":%.3f,\"floor\":%.2f,\"holds\":%s,\"rounds\":%d%s}\n", must, measured, floor,
              wordOf(holds), ROUNDS, more.c_str());
}

std::string figure(const char* name, double value) {
  char text[64];
  std::snprintf(text, sizeof text, ",\"%s\":%.2f", name, value);
  return text;
}

void showTable(Gpu& gpu) {
  for (const auto& row : gpu.table()) {
    std::printf("{\"check\":\"table\",\"way\":\"%s\",\"pieceBytes\":%llu,\"count\":%u", WAYS[row.isStore],
                static_cast<unsigned long long>(row.pieceBytes), row.count);
    for (std::size_t i = 0; i < METHODS; i += 1) {
      const double bytes = static_cast<double>(row.pieceBytes) * row.count;
      std::printf(",\"%sGBs\":%.2f", METHOD_NAMES[i], row.seconds[i] > 0 ? bytes / row.seconds[i] / 1e9 : 0.0);
    }
    std::printf("}\n");
  }
}

/** Pieces of 1 MiB and more, one way, beside the best plain copy: whole, in pieces of 16 MiB, and in the same pieces. */
bool largePieces(Rig& rig, const PlainCopies& plain, double (&oneWay)[2]) {
  bool isFine = true;
  for (const bool isStore : {false, true}) {
    for (const std::uint64_t piece : {MIB, 2 * MIB, 4 * MIB}) {
      std::vector<double> ours;
      std::vector<double> whole;
      std::vector<double> large;
      std::vector<double> same;
      for (int round = 0; round < ROUNDS; round += 1) {
        ours.push_back(rig.rate(!isStore, isStore, piece, rig.bytes / piece, REPEATS));
        whole.push_back(plain.oneWay(isStore, rig.bytes, REPEATS));
        large.push_back(plain.oneWay(isStore, 16 * MIB, REPEATS));
        same.push_back(plain.oneWay(isStore, piece, REPEATS));
      }
      const double best = std::max({median(whole), median(large), median(same)});
      const double measured = best > 0 ? median(ours) / best : 0;
      isFine = isFine && best > 0 && median(ours) > 0;
      oneWay[isStore] = std::max(oneWay[isStore], median(same));
      const std::string must = std::string(WAYS[isStore]) + " of " + std::to_string(piece / MIB) +
                               " MiB pieces, of the best plain copy";
      say(must.c_str(), measured, 0.9, measured >= 0.9,
          figure("GBs", median(ours)) + figure("plainWholeGBs", median(whole)) + figure("plain16MiBGBs", median(large)) +
              figure("plainSameGBs", median(same)));
    }
  }
  return isFine;
}

/** Both ways at once beside a bare loop of both ways at once; and, for people, beside the sum of its single ways. */
bool bothWays(Rig& rig, const PlainCopies& plain, const double (&oneWay)[2]) {
  std::vector<double> ours;
  std::vector<double> bare;
  for (int round = 0; round < ROUNDS; round += 1) {
    ours.push_back(rig.rate(true, true, MIB, rig.bytes / MIB, REPEATS));
    bare.push_back(plain.bothWays(MIB, REPEATS));
  }
  const double measured = median(bare) > 0 ? median(ours) / median(bare) : 0;
  const double single = oneWay[0] + oneWay[1];
  say("both ways at once, of a bare loop's sum", measured, 0.8, measured >= 0.8,
      figure("GBs", median(ours)) + figure("bareGBs", median(bare)) +
          figure("ofTheSumOfSingleWays", single > 0 ? median(ours) / single : 0));
  return median(ours) > 0 && median(bare) > 0;
}

/** Small pieces: what the table picks, beside the batch alone and the kernel alone. */
bool smallPieces(const std::string& library, std::uint64_t bytes) {
  Rig picked;
  Rig batch;
  Rig kernel;
  if (!picked.open(library, bytes, ALL_METHODS) || !batch.open(library, bytes, 3) || !kernel.open(library, bytes, 5)) {
    return false;
  }
  picked.gpu->measure(5);
  batch.gpu->prefer(BATCH);
  kernel.gpu->prefer(KERNEL);
  Rig* const rigs[] = {&picked, &batch, &kernel};
  bool isFine = true;
  for (const std::uint64_t piece : {std::uint64_t{8} << 10, std::uint64_t{16} << 10, std::uint64_t{32} << 10}) {
    for (const std::uint64_t count : {64, 512, 2048}) {
      if (count * piece > bytes) continue;
      const int transfers = static_cast<int>(std::max<std::uint64_t>(2, 1024 / count));
      for (const bool isStore : {false, true}) {
        std::vector<double> rates[3];
        const GpuStats before = picked.gpu->stats();
        for (int round = 0; round < ROUNDS; round += 1) {
          for (int turn = 0; turn < 3; turn += 1) {
            const int i = (turn + round) % 3;
            rates[i].push_back(rigs[i]->rate(!isStore, isStore, piece, count, transfers));
          }
        }
        const GpuStats after = picked.gpu->stats();
        int taken = 0;
        for (int i = 1; i < 3; i += 1) {
          if (after.transfers[i] - before.transfers[i] > after.transfers[taken] - before.transfers[taken]) taken = i;
        }
        const double ours = median(rates[0]);
        const int better = median(rates[2]) > median(rates[1]) ? KERNEL : BATCH;
        const double best = median(rates[better]);
        const double measured = best > 0 ? ours / best : 0;
        isFine = isFine && ours > 0 && best > 0;
        const std::string must = std::string(WAYS[isStore]) + " of " + std::to_string(count) + " pieces of " +
                                 std::to_string(piece >> 10) + " KiB, of the better of batch and kernel";
        // The same method cannot be slower than itself: what differs then is the machine.
        say(must.c_str(), measured, 1, measured >= 1 || taken == better,
            figure("GBs", ours) + figure("batchGBs", median(rates[1])) + figure("kernelGBs", median(rates[2])) +
                ",\"picked\":\"" + METHOD_NAMES[taken] + "\",\"better\":\"" + METHOD_NAMES[better] + "\"");
      }
    }
  }
  for (Rig* rig : rigs) isFine = rig->gpu->close(std::chrono::seconds(30)) && isFine;
  return isFine;
}

}  // namespace

bool checkRates(const std::string& library, std::uint64_t bytes) {
  Rig rig;
  const auto start = std::chrono::steady_clock::now();
  if (!rig.open(library, bytes, ALL_METHODS)) return false;
  const double opened = secondsSince(start);
  const auto middle = std::chrono::steady_clock::now();
  rig.gpu->measure(5);
  std::printf("{\"check\":\"open\",\"hostBytes\":%llu,\"seconds\":%.3f,\"tableSeconds\":%.3f,\"fine\":true}\n",
              static_cast<unsigned long long>(2 * bytes), opened, secondsSince(middle));
  showTable(*rig.gpu);
  PlainCopies plain;
  double oneWay[2] = {0, 0};
  bool isFine = plain.open(library, bytes);
  if (!isFine) std::printf("{\"check\":\"plain\",\"fine\":false,\"reason\":\"no pinned memory of the driver\"}\n");
  if (isFine) {
    isFine = largePieces(rig, plain, oneWay);
    isFine = bothWays(rig, plain, oneWay) && isFine;
  }
  plain.close();
  isFine = rig.gpu->close(std::chrono::seconds(30)) && isFine;
  return smallPieces(library, std::min(bytes, SMALL_BYTES)) && isFine;
}

}  // namespace kvtier::check
