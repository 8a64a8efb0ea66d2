// The texts of requests: each line of the input as target, Host, Origin, list, time, page place, name. What a reader takes, it takes again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/http/request_text.hpp"
#include "parsers/base/text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage::daemon::api;
  for (const std::string_view line : triage::parsers::split(std::string_view(reinterpret_cast<const char*>(data), size), '\n')) {
    if (const auto target = read_target(line); target.ok())
      for (const auto& segment : target->segments)
        if (segment == "." || segment == ".." || segment.find('/') != std::string::npos) std::abort();
    (void)read_authority(line);
    (void)read_origin(line);
    (void)list_allows(line, "gzip");
    (void)media_type(line);
    (void)read_duration_s(line);
    (void)read_time(line);
    if (const auto place = read_page_place(line))
      if (read_page_place(page_place(place->first, place->second)) != place) std::abort();
    const std::string name = shown_name(line);
    if (name.empty() || name.size() > 255 || name.find('/') != std::string::npos || !triage::parsers::is_utf8(name)) std::abort();
  }
  return 0;
}
