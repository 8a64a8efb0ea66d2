#include "parsers/base/quantity.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace triage::parsers;

TEST_CASE("amounts of memory as the programs print them become bytes") {
  struct Row { std::string text; std::int64_t want; };
  const std::vector<Row> rows = {
      {"62.62 GiB", 67237713019}, {"139.80 GiB", 150109106995}, {"537.12 MiB", 563211141},
      {"79.15 GiB", 84986665370}, {"1024MB", 1073741824}, {"12.5 kB", 12800}, {"1.05GiB", 1127428915},
      {"500 bytes", 500}, {"123", 123}, {" 1 B ", 1}, {"0 bytes", 0}, {"17.4 B", 17}, {"1 GB", 1073741824},
      {"1byte", 1}, {"2.00 TiB", 2199023255552}, {"15.7G", 16857746637}, {"31.74 GiB", 34080565494}, {"40960 MiB", 42949672960},
      {"23Mi", 24117248}, {"7.999999 EiB", 9223370883933271201}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto got = read_bytes(row.text);
    REQUIRE(got.has_value());
    CHECK(got->count() == row.want);
  }
}

TEST_CASE("what is no amount of memory stays unknown") {
  for (const char* text : {"", " ", "GiB", "-1 GiB", "1.5.2 GiB", "1,024 MB", "12 apples", "1 GiB free", "8 EiB",
                           "99999999999999999999", "0x10", "1e9", "nan", ".5 GiB", "12 mibibytes"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(read_bytes(text).has_value());
  }
}

TEST_CASE("bytes are shown in the largest unit that gives one or more") {
  CHECK(bytes_text(Bytes(17)) == "17 B");
  CHECK(bytes_text(Bytes(0)) == "0 B");
  CHECK(bytes_text(Bytes(1023)) == "1023 B");
  CHECK(bytes_text(mib(512)) == "512.00 MiB");
  CHECK(bytes_text(Bytes(84986665369)) == "79.15 GiB");
  CHECK(bytes_text(Bytes(1073741823)) == "1.00 GiB");
  CHECK(bytes_text(Bytes(-2147483648)) == "-2.00 GiB");
  CHECK(bytes_text(Bytes(INT64_MAX)) == "8.00 EiB");
  CHECK(bytes_text(Bytes(INT64_MIN)) == "-8.00 EiB");
}
