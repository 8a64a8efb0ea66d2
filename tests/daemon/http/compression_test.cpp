#include "daemon/http/compression.hpp"

#include <doctest/doctest.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <random>

using namespace triage::daemon::api;
using triage::parsers::ErrorCode;

namespace {

std::string deflated(const std::string& text, int window) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string packed(Coding coding, const std::string& text) {
  switch (coding) {
    case Coding::gzip: return gzip(text, 6);
    case Coding::deflate: return deflated(text, 15);
    case Coding::zstd: {
      std::string out(ZSTD_compressBound(text.size()), '\0');
      out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
      return out;
    }
    case Coding::snappy: {
      std::string out;
      snappy::Compress(text.data(), text.size(), &out);
      return out;
    }
    case Coding::identity: break;
  }
  return text;
}

constexpr Coding kAll[] = {Coding::identity, Coding::gzip, Coding::deflate, Coding::zstd, Coding::snappy};

}  // namespace

TEST_CASE("what was packed comes back, of any size up to the limit") {
  std::mt19937 random(7);
  for (const std::size_t size : {0UL, 1UL, 1000UL, 65536UL, 300'000UL}) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>('a' + random() % 5);
    for (const Coding coding : kAll) {
      CAPTURE(size);
      CAPTURE(static_cast<int>(coding));
      const std::string bytes = packed(coding, text);
      const auto all = unpack(coding, bytes, size);
      REQUIRE(all.ok());
      CHECK(*all == text);
      if (size == 0) continue;
      const auto less = unpack(coding, bytes, size - 1);
      REQUIRE_FALSE(less.ok());
      CHECK(less.error().code() == ErrorCode::limit);
    }
  }
}

TEST_CASE("a bomb is stopped at the limit") {
  const std::string zeros(64 * 1024 * 1024, '\0');
  for (const Coding coding : {Coding::gzip, Coding::deflate, Coding::zstd, Coding::snappy}) {
    CAPTURE(static_cast<int>(coding));
    const std::string bomb = packed(coding, zeros);
    CHECK(bomb.size() < 4 * 1024 * 1024);
    const auto out = unpack(coding, bomb, 1024 * 1024);
    REQUIRE_FALSE(out.ok());
    CHECK(out.error().code() == ErrorCode::limit);
  }
  // A length that lies: 4 GiB - 1 in front of nothing.
  const auto lie = unpack(Coding::snappy, "\xff\xff\xff\xff\x0f", 1ULL << 40);
  REQUIRE_FALSE(lie.ok());
  CHECK(lie.error().code() == ErrorCode::syntax);
}

TEST_CASE("cut and damaged bodies are refused") {
  const std::string text(5000, 'x');
  for (const Coding coding : {Coding::gzip, Coding::deflate, Coding::zstd, Coding::snappy}) {
    CAPTURE(static_cast<int>(coding));
    const std::string bytes = packed(coding, text);
    for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 50) {
      const auto out = unpack(coding, std::string_view(bytes).substr(0, cut), 1 << 20);
      if (cut > 0 || coding != Coding::zstd) CHECK_FALSE(out.ok());
    }
    CHECK_FALSE(unpack(coding, "this is no packed body", 1 << 20).ok());
  }
}

TEST_CASE("members of gzip follow one another; bare deflate is taken") {
  const auto both = unpack(Coding::gzip, gzip("one ", 6) + gzip("two", 6), 100);
  REQUIRE(both.ok());
  CHECK(*both == "one two");
  const auto bare = unpack(Coding::deflate, deflated("hello", -15), 100);
  REQUIRE(bare.ok());
  CHECK(*bare == "hello");
  CHECK_FALSE(unpack(Coding::deflate, deflated("hello", 15) + "rest", 100).ok());
}

TEST_CASE("names of codings") {
  CHECK(read_coding("") == Coding::identity);
  CHECK(read_coding(" GZIP ") == Coding::gzip);
  CHECK_FALSE(read_coding("br"));
  CHECK_FALSE(read_coding("gzip, gzip"));
}
