#pragma once

#include <cstdint>

namespace kvtier::cuda {

/** One copy as the kernel reads it. Addresses and bytes are multiples of 16. */
struct KernelCopy {
  std::uint64_t from;
  std::uint64_t to;
  std::uint64_t bytes;
};

constexpr unsigned KERNEL_ALIGNMENT_BYTES = 16;
/** Longer copies are cut into such pieces, so that thread blocks have about equal work. */
constexpr std::uint64_t KERNEL_PIECE_BYTES = 32 * 1024;
constexpr unsigned KERNEL_THREADS = 512;
/** Few, so that the model keeps its multiprocessors; enough for the bytes in flight that a PCIe 5 link needs. */
constexpr unsigned KERNEL_GRID_MAX = 16;

/** Name and PTX text of the gather and scatter kernel. It runs on everything from compute capability 7.0 on. */
extern const char* const COPY_KERNEL_NAME;
extern const char* const COPY_KERNEL_PTX;

}  // namespace kvtier::cuda
