#pragma once

#include <string>

namespace kvtier::cuda {

/** What devices there are, or why there is none, as a JSON object. Initialises the driver, on a thread of its own. */
std::string probe(const std::string& library);

}  // namespace kvtier::cuda
