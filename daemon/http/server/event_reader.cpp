#include "daemon/http/server/event_reader.hpp"

#include <cstdio>
#include <string_view>

namespace triage::daemon::api {

namespace {

constexpr std::size_t kEvents = 64;   // of one piece

std::string chunk(std::string_view text) {
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + std::string(text) + "\r\n";
}

}  // namespace

EventReader::EventReader(const EventHub& hub, const Response::Events& from) : hub_(hub), position_(from.after), gap_(from.gap), prefix_(from.type_prefix) {}

std::string EventReader::first() const { return chunk("retry: 2000\nid: " + hub_.id_of(position_) + "\n\n" + (gap_ ? gap_text() : "")); }

std::optional<std::string> EventReader::next() {
  const HubPage page = hub_.after(position_, kEvents);
  position_ = page.last;
  std::string text = page.gap ? gap_text() : "";
  for (const HubEvent& event : page.events) {
    if (!event.type.starts_with(prefix_)) continue;
    text += "id: " + hub_.id_of(event.sequence) + "\nevent: " + event.type + "\ndata: " + event.data + "\n\n";
  }
  if (!text.empty()) return chunk(text);
  if (!page.events.empty()) return std::string();   // all of other types
  return std::nullopt;
}

std::string EventReader::heartbeat() { return chunk(": still here\n\n"); }

std::string EventReader::gap_text() const { return "event: reset\nid: " + hub_.id_of(position_) + "\ndata: {}\n\n"; }

}  // namespace triage::daemon::api
