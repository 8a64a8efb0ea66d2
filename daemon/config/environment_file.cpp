#include "daemon/config/environment_file.hpp"

#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

std::optional<std::string> environment_value(std::string_view text, std::string_view name) {
  std::optional<std::string> out;
  for (std::string_view line : parsers::split(text, '\n')) {
    line = parsers::trim(line);
    if (line.starts_with('#') || line.starts_with(';')) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || parsers::trim(line.substr(0, equals)) != name) continue;
    std::string_view value = parsers::trim(line.substr(equals + 1));
    const bool quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
    out = quoted ? value.substr(1, value.size() - 2) : value;
  }
  return out;
}

SecretLookup secrets_beside(const std::filesystem::path& folder) {
  return [file = (folder / "environment").string()](std::string_view kind, const std::string& name) -> Result<std::string> {
    Result<std::string> found = system_secret(kind, name);
    if (found.ok() || kind != "env") return found;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return found;
    const Result<std::string> text = system_secret("file", file);
    if (!text.ok()) return std::move(found).error().because(text.error().message());
    if (std::optional<std::string> value = environment_value(*text, name)) return *std::move(value);
    return std::move(found).error().because("nor is it in " + file);
  };
}

}  // namespace triage::daemon
