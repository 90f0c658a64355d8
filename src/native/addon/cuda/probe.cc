#include "probe.h"

#include <thread>

#include "driver.h"
#include "json.h"

namespace kvtier::cuda {

namespace {

std::string uuidOf(const Driver& driver, DeviceOrdinal device) {
  Uuid uuid{};
  if (driver.deviceGetUuid(&uuid, device) != SUCCESS) return "";
  std::string text = "GPU-";
  char byte[4];
  for (int i = 0; i < 16; i += 1) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
  }
  return text;
}

int attributeOf(const Driver& driver, int attribute, DeviceOrdinal device) {
  int value = 0;
  return driver.deviceGetAttribute(&value, attribute, device) == SUCCESS ? value : 0;
}

std::string describe(const Driver& driver, int ordinal) {
  DeviceOrdinal device = 0;
  if (driver.deviceGet(&device, ordinal) != SUCCESS) return "";
  char name[256] = "";
  std::size_t bytes = 0;
  driver.deviceGetName(name, sizeof name, device);
  driver.deviceTotalMemory(&bytes, device);
  const auto attribute = [&](int which) { return std::to_string(attributeOf(driver, which, device)); };
  return "{\"ordinal\":" + std::to_string(ordinal) + ",\"name\":" + quoted(name) +
         ",\"uuid\":" + quoted(uuidOf(driver, device)) + ",\"bytes\":" + std::to_string(bytes) +
         ",\"computeCapability\":\"" + attribute(ATTRIBUTE_CAPABILITY_MAJOR) + "." +
         attribute(ATTRIBUTE_CAPABILITY_MINOR) + "\",\"multiprocessors\":" + attribute(ATTRIBUTE_MULTIPROCESSORS) +
         ",\"copyEngines\":" + attribute(ATTRIBUTE_COPY_ENGINES) + "}";
}

std::string unavailable(const std::string& reason) {
  return "{\"available\":false,\"reason\":" + quoted(reason) + "}";
}

std::string probeHere(const std::string& library) {
  std::string reason;
  const Driver* driver = loadDriver(library, reason);
  if (driver == nullptr) return unavailable(reason);
  int count = 0;
  const Result counted = driver->deviceGetCount(&count);
  if (counted != SUCCESS) return unavailable("the devices cannot be counted: " + driver->nameOf(counted));
  if (count == 0) return unavailable("the driver has no device");
  std::string devices;
  for (int ordinal = 0; ordinal < count; ordinal += 1) {
    const std::string one = describe(*driver, ordinal);
    if (one.empty()) continue;
    devices += (devices.empty() ? "" : ",") + one;
  }
  return "{\"available\":true,\"library\":" + quoted(driver->library) +
         ",\"driverVersion\":" + std::to_string(driver->version) +
         ",\"isStandIn\":" + (driver->isStandIn ? "true" : "false") + ",\"devices\":[" + devices + "]}";
}

}  // namespace

std::string probe(const std::string& library) {
  std::string answer;
  std::thread([&] { answer = probeHere(library); }).join();
  return answer;
}

}  // namespace kvtier::cuda
