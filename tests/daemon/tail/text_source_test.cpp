#include "daemon/tail/text_source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

using namespace triage;

namespace {

// Gives its text in portions, as a pipe does.
class Portions : public daemon::ByteSource {
 public:
  Portions(std::string text, std::size_t portion) : text_(std::move(text)), portion_(portion) {}
  parsers::Result<std::size_t> read(std::span<char> room) override {
    const std::size_t count = std::min({room.size(), portion_, text_.size() - at_});
    std::memcpy(room.data(), text_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  std::string text_;
  std::size_t portion_, at_ = 0;
};

std::string read_all(const std::string& text, std::size_t portion, std::size_t room_bytes) {
  daemon::TextSource source(std::make_unique<Portions>(text, portion));
  std::string out, room(room_bytes, '\0');
  for (;;) {
    auto count = source.read(room);
    REQUIRE(count.ok());
    if (*count == 0) return out;
    out.append(room, 0, *count);
  }
}

}  // namespace

TEST_CASE("a source gives text in UTF-8, whatever its form and its portions") {
  std::string plain;
  for (int i = 0; i < 500; ++i) plain += "step " + std::to_string(i) + " loss 1.0\n";
  std::string wide = "\xff\xfe";
  for (const char c : plain) (wide += c) += '\0';
  for (const std::size_t portion : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}})
    for (const std::size_t room : {std::size_t{3}, std::size_t{4096}}) {
      CAPTURE(portion);
      CAPTURE(room);
      CHECK(read_all(plain, portion, room) == plain);
      CHECK(read_all(wide, portion, room) == plain);
      CHECK(read_all("", portion, room).empty());
    }
}
