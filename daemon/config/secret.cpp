#include "daemon/config/secret.hpp"

#include <cstdlib>
#include <fstream>

#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

constexpr std::size_t kSecretBytes = 64 * 1024;   // of a file that holds a secret

}  // namespace

Result<std::string> system_secret(std::string_view kind, const std::string& name) {
  if (kind == "env") {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return Error(ErrorCode::not_found, "the environment variable " + name + " is not set");
    return std::string(value);
  }
  std::ifstream in(name, std::ios::binary);
  if (!in) return Error(ErrorCode::io, "the file " + name + " cannot be read");
  std::string text(kSecretBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kSecretBytes) return Error(ErrorCode::limit, "the file " + name + " is too large for a secret");
  return text;
}

Result<std::string> secret_of(std::string_view reference, const SecretLookup& lookup) {
  std::string value(reference);
  for (const std::string_view kind : {"env", "file"}) {
    std::string_view rest = reference;
    if (!parsers::consume(rest, std::string(kind) + ":")) continue;
    TRIAGE_TRY(const std::string found, lookup(kind, std::string(rest)));
    value = std::string(parsers::trim(found));
    if (value.empty()) return Error(ErrorCode::syntax, "the secret is empty at its source");
  }
  if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) return Error(ErrorCode::syntax, "a secret has to be one line");
  return value;
}

}  // namespace triage::daemon
