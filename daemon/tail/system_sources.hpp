// Lines of the system itself: the kernel's ring buffer (/dev/kmsg) and the systemd journal. Both give lines of one form,
//   2026-12-02T10:34:16.123456+00:00 node kernel: NVRM: Xid (PCI:0000:3b:00): 79, ...
// and a cursor from which a restart goes on.
//
// The journal is read through a child process, `journalctl --output=export --follow --after-cursor`: its format is documented and stable, a
// damaged journal file kills the child and not the service, and nothing of systemd is linked. Source of the format: systemd.io, "Journal Export Formats".
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"

namespace triage::daemon {

struct SystemLines {
  std::string text;                      // whole lines, each with '\n'
  std::string cursor;                    // after them; keep it with what was found in them
  std::uint64_t lost_records = 0;        // overwritten before they were read
  std::string why;
};

// One thread at a time.
class SystemSource {
 public:
  virtual ~SystemSource() = default;
  virtual std::string name() const = 0;  // "/dev/kmsg", "journal"
  virtual int fd() const = 0;            // readable: call read(); -1: nothing to wait on just now, call read() again in a second
  // What there is, at most some hundred KiB; never waits. Errors: unavailable (not permitted, not there; it is tried again with the next call).
  virtual parsers::Result<SystemLines> read() = 0;
};

// One record of /dev/kmsg ("6,3973,227996636,-;text\n KEY=value\n"): its number and text. Source: Documentation/ABI/testing/dev-kmsg.
struct KmsgRecord {
  unsigned priority = 0;
  std::uint64_t sequence = 0;
  std::chrono::microseconds since_boot{};
  std::string text;                      // \xNN undone
};
std::optional<KmsgRecord> read_kmsg_record(std::string_view bytes);

// The device, for the tests to have another. All give a negative errno on failure; nothing waits.
class KmsgDevice {
 public:
  virtual ~KmsgDevice() = default;
  virtual int open() = 0;
  virtual long read(char* room, std::size_t size) = 0;   // one record; -EPIPE: some were overwritten, go on; -EAGAIN: no more
  virtual void close() = 0;
  virtual int fd() const = 0;            // -1: closed
};
std::unique_ptr<KmsgDevice> make_kmsg_device(std::string path);

// cursor: of an earlier run, or empty: then only what comes from now on. boot: identity of this boot (boot_identity()); numbers of another boot mean nothing:
// then everything of this boot is read.
std::unique_ptr<SystemSource> make_kmsg_source(std::unique_ptr<KmsgDevice> device, std::string cursor, std::string boot, std::string node);
// /proc/sys/kernel/random/boot_id; empty where it cannot be read.
std::string boot_identity();

// Entries of the journal's export format out of any portions of bytes.
class JournalReader {
 public:
  // Appends lines; a message of several lines gives several. Returns the cursor of the last whole entry, or "".
  std::string feed(std::string_view bytes, std::string& out);
  // Entries of before are passed over, but for their cursors.
  void only_from(parsers::TimePoint time) { from_us_ = time.time_since_epoch().count(); }

 private:
  void field(std::string_view name, std::string_view value);
  void entry(std::string& out);

  std::string bytes_;                    // not taken yet
  std::uint64_t skip_ = 0;               // of a value that is too long
  std::string message_, host_, ident_, pid_, cursor_, last_cursor_;
  std::int64_t time_us_ = 0, from_us_ = 0;
  bool kernel_ = false;
  bool skip_line_ = false;               // the rest of a text value that is too long
};

struct JournalOptions {
  std::string program = "journalctl";
  bool kernel = true;
  std::vector<std::string> units;
  std::chrono::milliseconds again{5000};   // before a child that died is followed by another
};
// The command line; for tests and for the log.
std::vector<std::string> journal_arguments(const JournalOptions& options, const std::string& cursor);
std::unique_ptr<SystemSource> make_journal_source(JournalOptions options, std::string cursor);

// "2026-12-02T10:34:16.123456+00:00"
std::string iso_time(parsers::TimePoint time);

}  // namespace triage::daemon
