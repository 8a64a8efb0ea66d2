// Secrets and personal data out of text, before it leaves the node: tokens and keys by their shape, values by the name they stand
// beside, URLs with a password, headers, private keys, mail addresses, home folders; host names by choice. What is masked is replaced by
// a mark that says what it was: "[masked github-token]". Masking a masked text changes nothing.
// limit: a secret without a known shape and without a telling name beside it is not seen, and so is one that is cut in the middle.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/json_view.hpp"

namespace triage::daemon {

struct MaskOptions {
  bool users = true;                   // home folders, USER=
  bool mails = true;                   // mail addresses
  bool hosts = false;                  // host_names, host_suffixes, IP addresses: the alert no longer says where, only whether it is the same
  std::vector<std::string> host_names; // of the incident
  std::vector<std::string> host_suffixes;  // "corp.example.com": names that end with it
  std::vector<std::string> words;      // masked wherever they stand, any case
  bool operator==(const MaskOptions&) const = default;
};

// Text without secrets. Linear in the text's length.
std::string mask_text(std::string_view text, const MaskOptions& options);

// Every text value in the document masked; keys stay, and so do texts under the key `kept`. Nesting deeper than limits::kJsonDepth becomes
// "[masked: too deep]".
Json mask_json(const Json& json, const MaskOptions& options, std::string_view kept = {});

// For tests and docs: the names of the shapes that are known ("github-token").
std::vector<std::string_view> mask_shapes();

}  // namespace triage::daemon
