#include "signatures/match/signature.hpp"

#include <array>

namespace triage::signatures {
namespace {

using Written = std::string_view;

constexpr std::array<std::pair<Written, Role>, 7> kRoles = {{{"root", Role::root},
                                                             {"cascade", Role::cascade},
                                                             {"confirmation", Role::confirmation},
                                                             {"handled", Role::handled},
                                                             {"advice", Role::advice},
                                                             {"progress", Role::progress},
                                                             {"fact", Role::fact}}};
constexpr std::array<std::pair<Written, Within>, 5> kWithins = {
    {{"any", Within::any}, {"line", Within::line}, {"exception", Within::exception}, {"block", Within::block}, {"kernel", Within::kernel}}};
constexpr std::array<std::pair<Written, CaptureType>, 10> kCaptureTypes = {{{"text", CaptureType::text},
                                                                            {"integer", CaptureType::integer},
                                                                            {"number", CaptureType::number},
                                                                            {"bytes", CaptureType::bytes},
                                                                            {"rank", CaptureType::rank},
                                                                            {"local_rank", CaptureType::local_rank},
                                                                            {"node", CaptureType::node},
                                                                            {"device", CaptureType::device},
                                                                            {"pid", CaptureType::pid},
                                                                            {"time", CaptureType::time}}};

template <class T>
std::string_view name_in(Names<T> names, T value) {
  const auto at = std::find_if(names.begin(), names.end(), [&](const auto& pair) { return pair.second == value; });
  return at == names.end() ? std::string_view() : at->first;
}

}  // namespace

void set_unread(Signature& rule, std::string_view key) {
  if (!key.empty() && rule.has_read(key)) rule.unread.emplace_back(key);
}

std::string rule_name(const Signature& rule) { return rule.id.empty() ? "the rule" : "rule '" + rule.id + "'"; }

Names<Role> role_names() { return kRoles; }
Names<Within> within_names() { return kWithins; }
Names<CaptureType> capture_type_names() { return kCaptureTypes; }

std::string_view role_name(Role role) { return name_in(role_names(), role); }
std::string_view within_name(Within within) { return name_in(within_names(), within); }
std::string_view capture_type_name(CaptureType type) { return name_in(capture_type_names(), type); }

}  // namespace triage::signatures
