// SHA-256 and HMAC-SHA256, in hexadecimal digits.
#pragma once

#include <string>
#include <string_view>

namespace triage::daemon {

std::string sha256_hex(std::string_view text);
// RFC 2104 with SHA-256.
std::string hmac_sha256_hex(std::string_view key, std::string_view text);

}  // namespace triage::daemon
