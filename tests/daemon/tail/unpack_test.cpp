#include "daemon/tail/unpack.hpp"

#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parsers/base/limits.hpp"
#include "tests/support/memory_source.hpp"
#include "tests/support/temp_folder.hpp"

namespace {

using namespace triage;
using daemon::Weight;
namespace limits = parsers::limits;

std::string some_log(int lines, int from = 0) {
  std::string out;
  for (int i = from; i < from + lines; ++i) out += "iteration " + std::to_string(i) + " loss " + std::to_string(1.0 / (i + 1)) + " hash " + std::to_string(static_cast<unsigned>(i) * 2654435761U) + "\n";
  return out;
}

std::string gzip(const std::string& text, const char* name = nullptr) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  gz_header header{};
  Bytef extra[300] = {};
  if (name) {
    header.name = reinterpret_cast<Bytef*>(const_cast<char*>(name));
    header.comment = header.name;
    header.extra = extra;
    header.extra_len = sizeof extra;
    header.hcrc = 1;
    deflateSetHeader(&stream, &header);
  }
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text, int window_log = 0) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()) + 100, '\0');
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  // Not in one go: then the frame would state its size, and need a window of that size only.
  ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue);
  while (ZSTD_compressStream2(context, &to, &in, ZSTD_e_end) != 0) {
  }
  out.resize(to.pos);
  ZSTD_freeCCtx(context);
  return out;
}

// One file of a ustar archive, or with size: a header that states another size.
// type: '0' a file, '1' a hard link, '2' a symbolic link, '3' a device, '5' a folder, '6' a pipe.
std::string tar_member(const std::string& name, const std::string& bytes, char type = '0', const std::string& link = "") {
  std::string head(512, '\0');
  head.replace(0, name.size(), name);
  head.replace(157, link.size(), link);
  head.replace(100, 7, "0000644");
  char size[13];
  std::snprintf(size, sizeof size, "%011lo", static_cast<unsigned long>(bytes.size()));
  head.replace(124, 11, size, 11);
  head.replace(148, 8, "        ");
  head[156] = type;
  head.replace(257, 8, std::string("ustar\0" "00", 8));
  unsigned long sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  char checksum[8];
  std::snprintf(checksum, sizeof checksum, "%06lo", sum);
  head.replace(148, 7, checksum, 7);
  return head + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}

struct Stream {
  std::string name, bytes;
};
struct Unpacked {
  std::vector<Stream> streams;
  std::vector<std::string> faults;       // "message|offset"
  std::string all() const {
    std::string out;
    for (const Stream& stream : streams) out += stream.bytes;
    return out;
  }
};

Unpacked unpack(const std::string& packed, std::size_t portion = 1 << 20, std::size_t room_bytes = 10'000) {
  Unpacked out;
  const auto note = [&](const parsers::Error& error) {
    out.faults.push_back(error.message() + "|" + (error.place() && error.place()->offset ? std::to_string(*error.place()->offset) : ""));
  };
  daemon::for_each_stream(
      std::make_unique<tests::MemorySource>(packed, portion), "x", [&](parsers::Error error, Weight) { note(error); },
      [&](const std::string& name, daemon::PeekedSource& stream) {
        out.streams.push_back({name, {}});
        std::string room(room_bytes, '\0');
        for (;;) {
          auto count = stream.read(room);
          if (!count.ok()) {
            note(count.error());
            return;
          }
          if (*count == 0) return;
          out.streams.back().bytes.append(room, 0, *count);
        }
      });
  return out;
}

bool tells(const Unpacked& unpacked, std::string_view message) {
  return std::any_of(unpacked.faults.begin(), unpacked.faults.end(), [&](const std::string& fault) { return fault.find(message) != std::string::npos; });
}

}  // namespace

TEST_CASE("whole packed files give their bytes and no fault") {
  const std::string a = some_log(3000), b = some_log(2000, 3000), c = some_log(500, 5000);
  struct Row {
    const char* name;
    std::string packed, want;
    std::vector<std::string> names;
  };
  const std::string skippable("\x50\x2a\x4d\x18\x04\0\0\0abcd", 12);
  const std::vector<Row> rows = {
      {"plain", a, a, {"x"}},
      {"empty", "", "", {"x"}},
      {"gzip", gzip(a), a, {"x"}},
      {"gzip of nothing", gzip(""), "", {"x"}},
      {"gzip with all header fields", gzip(a, "train.log"), a, {"x"}},
      {"gzip members", gzip(a) + gzip("") + gzip(b), a + b, {"x"}},
      {"gzip with padding", gzip(a) + std::string(5000, '\0'), a, {"x"}},
      {"zstd", zstd(a), a, {"x"}},
      {"zstd frames", zstd(a) + zstd("") + zstd(b), a + b, {"x"}},
      {"pzstd", skippable + zstd(a) + skippable + zstd(b), a + b, {"x"}},
      {"zstd with padding", zstd(a) + std::string(300, '\0'), a, {"x"}},
      {"gzip of gzip", gzip(gzip(a)), a, {"x"}},
      {"tar", tar_member("a.log", a) + tar_member("b.log", b) + std::string(1024, '\0'), a + b, {"x!a.log", "x!b.log"}},
      {"tar.gz", gzip(tar_member("a.log", a) + tar_member("../b.log", b) + std::string(1024, '\0')), a + b, {"x!a.log", "x!../b.log"}},
      {"tar.zst with packed members", zstd(tar_member("a.log.gz", gzip(a)) + tar_member("b.zst", zstd(b)) + std::string(1024, '\0')), a + b, {"x!a.log.gz", "x!b.zst"}},
      {"tar of tar.gz", tar_member("n.tgz", gzip(tar_member("a.log", a))) + tar_member("c.log", c), a + c, {"x!n.tgz!a.log", "x!c.log"}},
      {"tars one after the other", tar_member("a", a) + std::string(1024, '\0') + tar_member("b", b) + std::string(1024, '\0'), a + b, {"x!a", "x!b"}},
  };
  for (const Row& row : rows) {
    for (const std::size_t portion : {std::size_t{1} << 20, std::size_t{7}, std::size_t{4096}}) {
      const std::string name = std::string(row.name) + ", portions of " + std::to_string(portion);
      CAPTURE(name);
      const Unpacked got = unpack(row.packed, portion);
      CHECK(got.faults.empty());
      CHECK((got.all() == row.want));
      REQUIRE(got.streams.size() == row.names.size());
      for (std::size_t i = 0; i < row.names.size(); ++i) CHECK(got.streams[i].name == row.names[i]);
    }
  }
}

TEST_CASE("a packed file that is cut anywhere gives what stands before the cut, and tells where") {
  const std::string text = some_log(4000);
  for (const std::string& packed : {gzip(text, "n"), zstd(text)}) {
    std::size_t before = 0;
    for (std::size_t size = 5; size < packed.size(); size += 1 + size / 7) {
      CAPTURE(size);
      const Unpacked got = unpack(packed.substr(0, size), size % 3 == 0 ? 11 : 1 << 20);
      REQUIRE(got.streams.size() == 1);
      CHECK(text.starts_with(got.all()));
      CHECK(got.all().size() >= before);
      before = got.all().size();
      REQUIRE(got.faults.size() == 1);
      CHECK(got.faults[0] == "the packed file breaks off|" + std::to_string(size));
    }
    // Of gzip at most its buffered bits are missing, of zstd a block of 128 KiB.
    CHECK(unpack(packed.substr(0, packed.size() - 20)).all().size() + (packed[0] == '\x28' ? 131'072 : 2'000) > text.size());
    CHECK((unpack(packed.substr(0, packed.size() - 2)).all() == text));   // only the checksum is missing
  }
}

TEST_CASE("what follows a cut or damaged part is found again") {
  const std::string a = some_log(3000), b = some_log(3000, 3000), c = some_log(100, 6000);
  for (const bool gz : {true, false}) {
    CAPTURE(gz);
    const auto pack = [&](const std::string& text) { return gz ? gzip(text) : zstd(text); };
    const std::string cut = pack(a).substr(0, pack(a).size() / 2);
    SUBCASE("a part that was cut when its node died, and one by the next run") {
      const Unpacked got = unpack(cut + pack(b) + pack(c));
      CHECK(got.all().ends_with(b + c));
      CHECK(!got.faults.empty());
      if (gz) CHECK(got.all().substr(0, 20'000) == a.substr(0, 20'000));
    }
    SUBCASE("bytes of something else between") {
      const Unpacked got = unpack(pack(a) + std::string(1000, 'q') + pack(b));
      CHECK((got.all() == a + b));
      CHECK(tells(got, "stand behind the packed data|" + std::to_string(pack(a).size())));
    }
    SUBCASE("bytes of something else at the end") {
      const Unpacked got = unpack(pack(a) + "Connection reset by peer");
      CHECK((got.all() == a));
      REQUIRE(got.faults.size() == 1);
      CHECK(tells(got, "stand behind the packed data|" + std::to_string(pack(a).size())));
    }
    SUBCASE("a wrong checksum") {
      std::string packed = pack(a);
      packed[packed.size() - (gz ? 6 : 2)] = static_cast<char>(packed[packed.size() - (gz ? 6 : 2)] ^ 1);
      const Unpacked got = unpack(packed + pack(c));
      CHECK((got.all() == a + c));
      CHECK(tells(got, "do not match their checksum"));
    }
    SUBCASE("many broken beginnings are told a few times, with a count") {
      std::string packed;
      for (int i = 0; i < 3000; ++i) packed += gz ? std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x07\x07", 12) : std::string("\x28\xb5\x2f\xfd\x04\x58\xff\xff\xff", 9);
      const Unpacked got = unpack(packed + pack(c));
      CHECK(got.all().ends_with(c));
      CHECK(got.faults.size() == limits::kToldFaults + 1);
      CHECK(tells(got, "more faults of the packed file"));
    }
  }
}

TEST_CASE("any damaged byte: what stands before it comes out, nothing breaks, and any portions give the same") {
  const std::string text = some_log(2000);
  for (const std::string& packed : {gzip(text), zstd(text), gzip(tar_member("a", text))}) {
    for (std::size_t at = 0; at < packed.size(); at += 1 + packed.size() / 150) {
      CAPTURE(at);
      CAPTURE(int(packed[0]));
      std::string broken = packed;
      broken[at] = static_cast<char>(broken[at] ^ 0x55);
      const Unpacked got = unpack(broken), again = unpack(broken, 13, 77);
      CHECK((got.all() == again.all()));
      CHECK(got.faults.empty() == again.faults.empty());   // where in the packed bytes a damage is noticed depends on the portions
    }
  }
}

TEST_CASE("a zstd frame that wants much memory is told, and the rest is read") {
  const std::string a = some_log(100), big = zstd(some_log(10), limits::kZstdWindowLog + 1);
  const Unpacked got = unpack(zstd(a) + big + zstd(a));
  CHECK((got.all() == a + a));
  CHECK(tells(got, "wants a window of more than 128 MiB"));
  CHECK((unpack(zstd(a, limits::kZstdWindowLog)).all() == a));
}

TEST_CASE("an archive that is cut gives what stands before, once") {
  const std::string a = some_log(3000), b = some_log(3000, 3000);
  const std::string tar = tar_member("a", a) + tar_member("b", b) + std::string(1024, '\0');
  const Unpacked plain = unpack(tar.substr(0, 512 + a.size() / 2));
  CHECK((plain.all() == a.substr(0, a.size() / 2)));
  CHECK(!plain.faults.empty());
  const std::string packed = gzip(tar);
  const Unpacked got = unpack(packed.substr(0, packed.size() * 3 / 4));
  CHECK((a + b).starts_with(got.all()));
  CHECK(got.all().size() > a.size());
  CHECK(tells(got, "the packed file breaks off|" + std::to_string(packed.size() * 3 / 4)));
  CHECK(got.faults.size() <= 2);   // that, and which member is not complete
}

TEST_CASE("files packed too often are told, and those beside them read") {
  std::string deep = some_log(10);
  for (int i = 0; i <= limits::kPackedLayers; ++i) deep = gzip(deep);
  const Unpacked got = unpack(tar_member("deep.gz", deep) + tar_member("b", "fine\n"));
  CHECK((got.all() == "fine\n"));
  CHECK(tells(got, "packed more than 4 times"));
}

TEST_CASE("the checksum behind the end of a tar is read too") {
  std::string packed = gzip(tar_member("a", some_log(10)) + std::string(10'240, '\0'));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);
  CHECK(tells(unpack(packed), "do not match their checksum"));
}

TEST_CASE("an archive reaches no file but its own: links, devices and pipes are passed over, names that climb are only shown") {
  const tests::TempFolder folder;
  const std::string absolute = folder / "absolute.log", climbing = "../../../../../.." + (folder / "climbs.log");
  const std::string packed = tar_member("passwd", "", '2', "/etc/passwd") + tar_member("hard", "", '1', "/etc/passwd") + tar_member("disk", "", '3') + tar_member("pipe", "", '6') +
                             tar_member("folder/", "", '5') + tar_member(climbing, "a line\n") + tar_member(absolute, "another\n") + std::string(1024, '\0');
  const Unpacked out = unpack(packed);
  REQUIRE(out.streams.size() == 2);
  CHECK(out.streams[0].name == "x!" + climbing);
  CHECK(out.all() == "a line\nanother\n");
  CHECK(out.faults.empty());
  CHECK(std::filesystem::is_empty(folder.path()));
}
