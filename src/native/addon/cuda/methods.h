// The three ways to move the pieces of one transfer, and the table by which one is chosen.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "copy-kernel.h"
#include "driver.h"

namespace kvtier::cuda {

/** One copy: addresses as the copy engine takes them. */
struct Copy {
  DevicePointer device;
  unsigned char* host;
  std::uint64_t bytes;
};

enum Method : std::uint32_t { LOOP = 0, BATCH = 1, KERNEL = 2 };
constexpr std::size_t METHODS = 3;
constexpr unsigned ALL_METHODS = 7;

/** Descriptions of copies in pinned memory, read by the kernel. */
constexpr std::size_t SLAB_COPIES = 4096;

/** One cell of the table: seconds of `count` pieces by each method; 0 = not measured. */
struct MeasuredRow {
  bool isStore;
  std::uint32_t count;
  std::uint64_t pieceBytes;
  std::array<double, METHODS> seconds;
};

/** The methods of one context. Every call is made on the device's own thread. */
class CopyMethods {
 public:
  /**
   * Finds out which methods the driver has, and loads the kernel.
   *
   * @param wanted bits by `Method`; the loop is always there.
   */
  void open(const Driver& driver, unsigned wanted);
  void close();

  bool has(Method method) const { return reasons_[method].empty(); }
  /** Why a method is not there; empty when it is. */
  const std::string& reason(Method method) const { return reasons_[method]; }
  /** Takes a method out, for good. */
  void drop(Method method, const std::string& reason) { reasons_[method] = reason; }

  /** The method for `count` copies of `bytes` together: of the nearest measured row, else the batch. */
  Method choose(bool isStore, std::size_t count, std::uint64_t bytes) const;

  /** Whether the kernel can do these copies. */
  static bool isAligned(const std::vector<Copy>& copies);
  /** Pieces into which the kernel cuts the copies. */
  static std::size_t piecesOf(const std::vector<Copy>& copies);

  Result runLoop(const std::vector<Copy>& copies, bool isStore, Stream stream) const;
  Result runBatch(const std::vector<Copy>& copies, bool isStore, Stream stream);
  /**
   * @param slab room for `piecesOf(copies)` descriptions, left alone until the copies have ended.
   * @param hostOfDevice what to add to a host address of the arena to have the device's.
   */
  Result runKernel(const std::vector<Copy>& copies, bool isStore, Stream stream, KernelCopy* slab,
                   DevicePointer slabOnDevice, std::uint64_t hostToDevice) const;

  std::vector<MeasuredRow> table;

 private:
  const Driver* driver_ = nullptr;
  Module module_ = nullptr;
  Function kernel_ = nullptr;
  std::array<std::string, METHODS> reasons_;
  std::vector<DevicePointer> to_;
  std::vector<DevicePointer> from_;
  std::vector<std::size_t> bytes_;
};

}  // namespace kvtier::cuda
