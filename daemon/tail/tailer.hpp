// Tailer: one path followed through everything that happens to a log: growth, rotation, truncation, deletion, replacement. It hands out whole
// lines and knows, at any moment, the checkpoint from which a restart loses nothing.
//
// The guarantee: every byte of every file that stood under the path is handed out at least once, or reported as lost. A file that was
// renamed is found again by its inode, or (copytruncate) by its content, and taken to its end before the next one; files that came and
// went in between are taken in the order of their rotation.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/tail/checkpoint.hpp"
#include "daemon/tail/file_system.hpp"
#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"

namespace triage::daemon {

struct TailStep {
  enum class What : std::uint8_t {
    bytes,           // `size` bytes stand in the room (0: a long line is being skipped; go on)
    idle,            // nothing new
    new_generation,  // another file from now on; it is taken from checkpoint() on, which is its beginning, unless it was left before and came back
    truncated,       // the file was cut: to nothing or written anew (generation() grew), or only its end is gone (the same generation)
    vanished,        // the path leads nowhere and the file is not found under another name; told once
  };
  What what = What::idle;
  std::size_t size = 0;                  // bytes in the room: whole lines, unless `partial`
  // The last line has no end. Either nothing came for the flush time, or the file is finished: these bytes are shown, not taken (the
  // checkpoint stays, and when the line grows it is handed out whole). Or it is the head of a line that is longer than the room: the
  // rest of that line will be skipped, and counted in lost_bytes.
  bool partial = false;
  std::uint64_t lost_bytes = 0;          // known to be lost with this step; what was never seen cannot be counted
  std::string why;                       // one sentence, for all but bytes and idle, and wherever something was lost
};

struct TailOptions {
  std::chrono::milliseconds flush{2000};      // without growth: show a line that has no end
  std::chrono::milliseconds rotate{1000};     // without growth: leave a file that was rotated away, once the new one has bytes
  std::chrono::milliseconds deleted{60'000};  // without growth: let go of a file that was deleted
  // Is this path a source of its own? Then it is no rotated file of another one, whatever its name. May be empty.
  std::function<bool(const std::string& path)> is_source;
};

// One thread at a time; no thread and no clock of its own. The file system and the options outlive it.
class Tailer {
 public:
  // known: where an earlier run stopped. A path without file is no error: it may come. generation: the number that the first file carries.
  Tailer(FileSystem& files, std::string path, std::optional<Checkpoint> known, const TailOptions& options, std::uint64_t generation = 0);
  Tailer(FileSystem& files, std::string path, std::optional<Checkpoint> known);

  // One look. `room`: at least 2 bytes; a line longer than it is cut, so give at least limits::kLineBytes. After bytes: call again.
  // Errors leave the state as it was: try again later. now: wall clock, for it is compared with the times of files.
  parsers::Result<TailStep> step(std::span<char> room, parsers::TimePoint now);

  // Of what was handed out with all steps so far.
  const Checkpoint& checkpoint() const { return at_; }
  std::uint64_t generation() const { return generation_; }
  const std::string& path() const { return path_; }
  // Bytes seen and not handed out yet.
  std::uint64_t behind() const { return at_.size > at_.offset ? at_.size - at_.offset : 0; }
  // When to look again although nobody told of a change; empty: not needed.
  std::optional<parsers::TimePoint> wake() const;
  // Gives its descriptor back, if the file can be found again without it. For idle files.
  void rest();
  // Is the file read from under another name, or held without a name?
  bool aside() const { return aside_; }

 private:
  using Step = parsers::Result<std::optional<TailStep>>;   // nothing: go on
  using There = std::optional<FileInfo>;                   // what the path leads to
  struct Sibling {
    std::string name, mark;
    std::uint64_t inode = 0;
    bool packed = false;
  };

  parsers::Result<TailStep> look_at(std::span<char> room, parsers::TimePoint now);
  Step find(parsers::TimePoint now);
  Step take(std::span<char> room, const FileInfo& info, parsers::TimePoint now);
  Step hand_out(std::span<char> room, std::size_t count, std::uint64_t at);
  Step skip(std::string_view bytes);
  Step show(std::span<char> room);
  Step at_end(std::span<char> room, const FileInfo& ours, parsers::TimePoint now);
  Step leave(std::span<char> room, const There& there, const FileInfo& ours, parsers::TimePoint now);
  Step lost_sight(parsers::TimePoint now);
  std::optional<TailStep> late_bytes(parsers::TimePoint now);

  parsers::Result<There> look() const;
  parsers::Result<bool> adopt_sibling(bool by_inode, parsers::TimePoint now);
  parsers::Result<bool> adopt_packed(parsers::TimePoint now);
  parsers::Result<bool> begin_later_sibling(bool gone, parsers::TimePoint now);
  parsers::Result<bool> begin_there(const FileInfo& there, parsers::TimePoint now);
  parsers::Result<std::vector<Sibling>> siblings(bool every_name) const;
  struct Packed {
    std::unique_ptr<OpenFile> file;
    FileInfo info;
    std::string mark;
  };
  parsers::Result<std::optional<Packed>> find_packed(const std::vector<Sibling>& all) const;
  parsers::Result<std::unique_ptr<OpenFile>> open_sibling(const Sibling& sibling) const;
  parsers::Result<bool> was_left(OpenFile& file, const FileInfo& info, bool packed) const;
  void adopt(std::unique_ptr<OpenFile> file, const FileInfo& info, bool aside, parsers::TimePoint now);
  parsers::Status begin(std::unique_ptr<OpenFile> file, const FileInfo& info, bool aside, parsers::TimePoint now);
  parsers::Status set_out(OpenFile& file, const FileInfo& info);
  parsers::Result<const Checkpoint*> left_before(OpenFile& file, const FileInfo& info) const;
  void note(const FileInfo& info, parsers::TimePoint now);
  bool unchanged(const FileInfo& info) const;
  bool is_ours(const FileInfo& info) const { return info.device == at_.device && info.inode == at_.inode; }
  std::uint64_t unseen() const;
  std::string_view base() const;
  std::string folder() const;

  FileSystem* files_;
  const TailOptions* options_;
  std::string path_;
  std::unique_ptr<OpenFile> file_;
  Checkpoint at_;
  std::uint64_t generation_ = 0;
  std::uint64_t shown_ = 0;              // end of the bytes that were handed out, taken or not
  std::uint64_t skip_at_ = 0;            // inside a long line: where its rest is looked through; else 0
  std::int64_t changed_ns_ = 0;          // of the file, when its content was last verified; 0: never
  parsers::TimePoint verified_{};        // when that was
  parsers::TimePoint grown_{};           // when the file last changed, as far as we saw
  parsers::TimePoint looked_{};          // time of the last step
  parsers::TimePoint aside_since_{};     // when the path was first seen to lead elsewhere
  std::array<Checkpoint, 3> left_{};     // the last files that were left: they may come back
  std::unique_ptr<OpenFile> left_file_;  // the last one, for a while: its writer may be late
  std::uint64_t left_size_ = 0;
  parsers::TimePoint left_at_{};
  bool aside_ = false;                   // the path leads elsewhere
  bool nameless_ = false;                // the file was deleted and is only held open
  bool vanished_ = false;                // told
  bool failed_ = false;                  // the last step
  bool cut_ = false;                     // the file that follows is the one that was emptied
};

}  // namespace triage::daemon
