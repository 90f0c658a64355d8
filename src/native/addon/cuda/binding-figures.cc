#include "binding-handle.h"
#include "json.h"

namespace kvtier {

using cuda::Gpu;

napi_value measure(Handle& handle, Arguments& arguments) {
  const double seconds = arguments.number(0);
  if (arguments.ok()) handle.gpu->measure(seconds);
  return undefined(arguments.env());
}

/** Figures of the device, as JSON. */
napi_value figures(Handle& handle, Arguments& arguments) {
  static const char* const names[] = {"loop", "batch", "kernel"};
  Gpu& gpu = *handle.gpu;
  const cuda::GpuStats stats = gpu.stats();
  std::string methods;
  for (std::uint32_t i = 0; i < cuda::METHODS; i += 1) {
    const std::string reason = gpu.methodReason(static_cast<cuda::Method>(i));
    methods += std::string(i == 0 ? "" : ",") + "{\"name\":\"" + names[i] +
               "\",\"available\":" + (reason.empty() ? "true" : "false") + ",\"reason\":" + cuda::quoted(reason) +
               ",\"transfers\":" + std::to_string(stats.transfers[i]) + "}";
  }
  std::string table;
  for (const auto& row : gpu.table()) {
    table += std::string(table.empty() ? "" : ",") + "{\"direction\":\"" + (row.isStore ? "store" : "load") +
             "\",\"pieceBytes\":" + std::to_string(row.pieceBytes) + ",\"count\":" + std::to_string(row.count);
    for (std::size_t i = 0; i < cuda::METHODS; i += 1) {
      table += std::string(",\"") + names[i] + "Seconds\":" + cuda::numeral(row.seconds[i]);
    }
    table += "}";
  }
  return string(arguments.env(), "{\"methods\":[" + methods + "],\"table\":[" + table +
                                     "],\"poolBytes\":" + std::to_string(stats.poolBytes) +
                                     ",\"pinnedBytes\":" + std::to_string(stats.pinnedBytes) +
                                     ",\"importedPools\":" + std::to_string(stats.importedPools) +
                                     ",\"failures\":" + std::to_string(stats.failures) +
                                     ",\"wakes\":" + std::to_string(handle.outbox->wakes()) +
                                     ",\"lostWith\":" + std::to_string(gpu.lostWith()) + "}");
}

napi_value nameOf(Handle& handle, Arguments& arguments) {
  const auto result = static_cast<cuda::Result>(arguments.index(0, kMostNumbers));
  return arguments.ok() ? string(arguments.env(), handle.gpu->driver().nameOf(result)) : nullptr;
}

napi_value lostWith(Handle& handle, Arguments& arguments) {
  return number(arguments.env(), handle.gpu->lostWith());
}

}  // namespace kvtier
