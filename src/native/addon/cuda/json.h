#pragma once

#include <cstdio>
#include <string>

namespace kvtier::cuda {

/** A JSON string of any text. */
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      out += escape;
    } else if (code < 0x7f) {
      out += c;
    } else {
      out += '?';
    }
  }
  return out + "\"";
}

/** A finite number that reads back as the same double. */
inline std::string numeral(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace kvtier::cuda
