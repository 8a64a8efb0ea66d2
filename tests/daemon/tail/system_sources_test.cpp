#include "daemon/tail/system_sources.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "parsers/base/text.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage::daemon;
using triage::tests::TempFolder;

namespace {

// Records, errors, and what was opened.
struct Ring {
  std::deque<std::string> records;       // "!<errno>": a failed read
  int opens = 0, open_error = 0;
};

class FakeDevice final : public KmsgDevice {
 public:
  explicit FakeDevice(std::shared_ptr<Ring> ring) : ring_(std::move(ring)) {}
  int open() override {
    if (ring_->open_error != 0) return -ring_->open_error;
    ++ring_->opens;
    open_ = true;
    return 0;
  }
  long read(char* room, std::size_t size) override {
    if (ring_->records.empty()) return -EAGAIN;
    const std::string record = ring_->records.front();
    ring_->records.pop_front();
    if (record[0] == '!') return -std::atol(record.c_str() + 1);
    if (record.size() > size) return -EINVAL;
    return static_cast<long>(record.copy(room, size));
  }
  void close() override { open_ = false; }
  int fd() const override { return open_ ? 0 : -1; }

 private:
  std::shared_ptr<Ring> ring_;
  bool open_ = false;
};

std::string record(std::uint64_t sequence, const std::string& text, unsigned priority = 4) {
  return std::to_string(priority) + "," + std::to_string(sequence) + ",5140900,-,caller=T1;" + text + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n";
}

// The texts without their fronts.
std::vector<std::string> texts(const std::string& lines) {
  std::vector<std::string> out;
  for (const std::string_view line : triage::parsers::split(lines, '\n'))
    if (const std::size_t at = line.find(": "); at != std::string_view::npos) out.emplace_back(line.substr(at + 2));
  return out;
}

using Texts = std::vector<std::string>;

struct Kmsg {
  std::shared_ptr<Ring> ring = std::make_shared<Ring>();
  std::unique_ptr<SystemSource> open(const std::string& cursor, const std::string& boot = "boot-a") {
    return make_kmsg_source(std::make_unique<FakeDevice>(ring), cursor, boot, "n7");
  }
};

std::string entry(const std::string& cursor, std::int64_t time_us, const std::string& fields) {
  return "__CURSOR=" + cursor + "\n__REALTIME_TIMESTAMP=" + std::to_string(time_us) + "\n__MONOTONIC_TIMESTAMP=5\n" + fields + "\n";
}

std::string binary(const std::string& name, const std::string& value) {
  std::string out = name + "\n";
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value.size() >> (8 * i));
  return out + value + "\n";
}

}  // namespace

TEST_CASE("a record of the kernel log") {
  struct Row {
    std::string bytes, text;
    std::uint64_t sequence = 0;
  };
  const Row rows[] = {
      {"4,1234,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1", 1234},
      {"6,0,0,-,caller=C0;a\\x0ab \\x5c\\xZZ\n SUBSYSTEM=x\n", "a b \\\\xZZ", 0},
      {"6,1,2,-;", "", 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.bytes);
    const auto got = read_kmsg_record(row.bytes);
    REQUIRE(got);
    CHECK(got->text == row.text);
    CHECK(got->sequence == row.sequence);
  }
  for (const char* const broken : {"", ";", "4", "4,", "4,5", "4,5,6", "4,5,6,-", "x,5,6,-;t", "99999999,5,6,-;t", "4,-,6,-;t"}) CHECK(!read_kmsg_record(broken));
}

TEST_CASE("the kernel log: what was there before the first start is passed over; a restart goes on; lost records are counted") {
  Kmsg kmsg;
  for (std::uint64_t i = 10; i < 20; ++i) kmsg.ring->records.push_back(record(i, "old"));
  auto source = kmsg.open("");
  auto lines = source->read();
  REQUIRE(lines.ok());
  CHECK(lines->text.empty());
  CHECK(lines->cursor == "boot-a 20");
  CHECK(lines->lost_records == 0);
  kmsg.ring->records = {record(20, "NVRM: Xid"), record(21, "systemd says", 30), record(22, "second")};
  lines = source->read();
  REQUIRE(lines.ok());
  CHECK(texts(lines->text) == Texts{"NVRM: Xid", "second"});
  CHECK(lines->text.find(" n7 kernel: NVRM") != std::string::npos);
  CHECK(lines->cursor == "boot-a 23");

  // The ring holds older records still.
  source = kmsg.open("boot-a 23");
  kmsg.ring->records = {record(21, "seen"), record(22, "seen"), record(23, "new")};
  lines = source->read();
  REQUIRE(lines.ok());
  CHECK(texts(lines->text) == Texts{"new"});
  CHECK(lines->lost_records == 0);

  // It overwrote some: before a restart, and while it was read.
  source = kmsg.open("boot-a 24");
  kmsg.ring->records = {record(30, "after a gap"), "!32", record(40, "after another")};
  lines = source->read();
  REQUIRE(lines.ok());
  CHECK(texts(lines->text) == Texts{"after a gap", "after another"});
  CHECK(lines->lost_records == 6 + 9);
  CHECK(lines->why.find("log_buf_len") != std::string::npos);

  // Another boot counts from the beginning: all of it is read.
  source = kmsg.open("boot-a 41", "boot-b");
  kmsg.ring->records = {record(0, "Linux version"), record(1, "EDAC")};
  lines = source->read();
  REQUIRE(lines.ok());
  CHECK(texts(lines->text) == Texts{"Linux version", "EDAC"});
  CHECK(lines->lost_records == 0);
  CHECK(lines->cursor == "boot-b 2");
}

TEST_CASE("a kernel log that cannot be read is told with the reason, and tried again") {
  Kmsg kmsg;
  kmsg.ring->open_error = EPERM;
  auto source = kmsg.open("boot-a 5");
  auto lines = source->read();
  REQUIRE(!lines.ok());
  CHECK(lines.error().code() == triage::parsers::ErrorCode::unavailable);
  CHECK(source->fd() < 0);
  kmsg.ring->open_error = 0;
  kmsg.ring->records = {record(5, "one"), "!5"};
  lines = source->read();
  REQUIRE(lines.ok());
  CHECK(texts(lines->text) == Texts{"one"});
  CHECK(source->fd() < 0);
  kmsg.ring->records = {"garbage", record(6, "two")};
  lines = source->read();
  REQUIRE(lines.ok());
  CHECK(texts(lines->text) == Texts{"two"});
  CHECK(kmsg.ring->opens == 2);
}

TEST_CASE("a pipe with one record a packet is read as the device is") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "kmsg").c_str(), 0600) == 0);
  auto source = make_kmsg_source(make_kmsg_device(folder / "kmsg"), "boot-a 7", "boot-a", "n7");
  auto lines = source->read();               // nobody writes yet: a pipe ends, the device waits
  CHECK(!lines.ok());
  const int keeper = ::open((folder / "kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const int writer = ::open((folder / "kmsg").c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(::fcntl(writer, F_SETFL, O_DIRECT) == 0);
  for (const std::string& bytes : {record(7, "one"), record(9, "two")}) REQUIRE(::write(writer, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  lines = source->read();
  ::close(writer);
  ::close(keeper);
  REQUIRE(lines.ok());
  CHECK(texts(lines->text) == Texts{"one", "two"});
  CHECK(lines->lost_records == 1);
}

TEST_CASE("the journal's export format, in any portions") {
  const std::int64_t time = 1'796'207'656'123'456;   // 2026-12-02T10:34:16
  const std::string all = entry("s=1", time, "_TRANSPORT=kernel\n_HOSTNAME=n7\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n") +
                          entry("s=2", time, "_HOSTNAME=n7\nSYSLOG_IDENTIFIER=slurmd\n_PID=12\n" + binary("MESSAGE", "two\nlines")) +
                          entry("s=3", time, binary("COREDUMP", std::string(600'000, 'c')) + "_HOSTNAME=n7\nSYSLOG_IDENTIFIER=x\nMESSAGE=after\n") +
                          entry("s=4", time, "_HOSTNAME=n7\nSYSLOG_IDENTIFIER=x\nLONG=" + std::string(600'000, 'l') + "\nMESSAGE=last\n");
  for (const std::size_t portion : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{65'536}, all.size()}) {
    CAPTURE(portion);
    JournalReader reader;
    std::string out, cursor;
    for (std::size_t at = 0; at < all.size(); at += portion) {
      if (portion == 1 && at == 2000) break;   // long values byte by byte are slow, and no other than in larger portions
      const std::string last = reader.feed(std::string_view(all).substr(at, portion), out);
      if (!last.empty()) cursor = last;
    }
    CHECK(out.starts_with("2026-12-02T10:34:16.123456+00:00 n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79\n"
                          "2026-12-02T10:34:16.123456+00:00 n7 slurmd[12]: two\n2026-12-02T10:34:16.123456+00:00 n7 slurmd[12]: lines\n"));
    if (portion == 1) continue;
    CHECK(texts(out) == Texts{"NVRM: Xid (PCI:0000:3b:00): 79", "two", "lines", "after", "last"});
    CHECK(cursor == "s=4");
  }
}

TEST_CASE("what a value that is cut contains is not read as fields") {
  JournalReader reader;
  std::string out;
  std::string value(300'000, 'v');
  (void)reader.feed("__CURSOR=s=1\n__REALTIME_TIMESTAMP=5\nSYSLOG_IDENTIFIER=x\nMESSAGE=m\nLONG=" + value, out);
  (void)reader.feed("__CURSOR=evil", out);
  CHECK(reader.feed("__CURSOR=evil\n\n", out) == "s=1");
}

TEST_CASE("the journal is asked for the kernel and the units, after the cursor") {
  JournalOptions options;
  options.units = {"slurmd.service"};
  const auto arguments = journal_arguments(options, "s=5;i=6");
  const auto has = [&](const char* text) { return std::find(arguments.begin(), arguments.end(), text) != arguments.end(); };
  CHECK(has("--after-cursor=s=5;i=6"));
  CHECK(has("--no-tail"));
  CHECK(has("_TRANSPORT=kernel"));
  CHECK(has("_SYSTEMD_UNIT=slurmd.service"));
  CHECK(has("+"));
}

namespace {

// Lines of the source until `count` came; waits for the child, at most some seconds.
std::string read_lines(SystemSource& source, std::size_t count, std::string& cursor) {
  std::string out;
  for (int i = 0; i < 200 && texts(out).size() < count; ++i) {
    auto lines = source.read();
    if (!lines.ok()) break;
    out += lines->text;
    cursor = lines->cursor;
    pollfd wait{source.fd(), POLLIN, 0};
    if (texts(out).size() < count) (void)::poll(&wait, 1, 100);
  }
  return out;
}

}  // namespace

TEST_CASE("a journalctl that dies is told, and the next one goes on after the cursor") {
  for (const std::string end : {"exit 1", "sleep 0.3; exit 1"}) {   // its end is seen together with its last line, or later
    CAPTURE(end.c_str());
    const TempFolder folder;
    {
      std::ofstream script(folder / "journalctl");
      script << "#!/bin/sh\necho \"$@\" >> " << folder.path() << "/calls\n"
             << "case \"$*\" in\n"
             << "*after-cursor=s=2*) printf '__CURSOR=s=3\\n__REALTIME_TIMESTAMP=5\\n_TRANSPORT=kernel\\nMESSAGE=three\\n\\n'; exec sleep 100;;\n"
             << "*) printf '__CURSOR=s=1\\n__REALTIME_TIMESTAMP=5\\n_TRANSPORT=kernel\\nMESSAGE=before\\n\\n"
             << "__CURSOR=s=2\\n__REALTIME_TIMESTAMP=9000000000000000\\n_TRANSPORT=kernel\\nMESSAGE=two\\n\\n__CURSOR=s=3\\nMESS'; " << end << ";;\n"
             << "esac\n";
    }
    std::filesystem::permissions(folder / "journalctl", std::filesystem::perms::owner_all);
    JournalOptions options;
    options.program = folder / "journalctl";
    options.again = std::chrono::seconds(0);
    const auto source = make_journal_source(options, "");
    std::string cursor, early;
    if (const auto begun = source->read(); begun.ok()) {   // starts it
      early = begun->text;
      cursor = begun->cursor;
    }
    if (end == "exit 1") std::this_thread::sleep_for(std::chrono::milliseconds(500));   // so that it is over at the next look; either way is right
    CHECK(texts(early + read_lines(*source, 2, cursor)) == Texts{"two"});   // the first is of before the start; then its end is told
    CHECK(cursor == "s=2");
    CHECK(texts(read_lines(*source, 1, cursor)) == Texts{"three"});
    CHECK(cursor == "s=3");
    std::ifstream in(folder / "calls");
    const std::string calls{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    CHECK(calls.find("--lines=1") != std::string::npos);
    CHECK(calls.find("--after-cursor=s=2") != std::string::npos);
  }
}

TEST_CASE("without journalctl the reason is told") {
  JournalOptions options;
  options.program = "/nowhere/journalctl";
  const auto source = make_journal_source(options, "");
  const auto lines = source->read();
  REQUIRE(!lines.ok());
  CHECK(lines.error().code() == triage::parsers::ErrorCode::unavailable);
  CHECK(source->fd() < 0);
}
