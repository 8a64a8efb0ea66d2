#include "daemon/tail/tailer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/tail/compressed.hpp"
#include "daemon/tail/file_identity.hpp"
#include "daemon/tail/rotated_name.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::TimePoint;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using What = TailStep::What;

// A file may be changed twice within one tick of the clock that its times are taken from: a time counts as settled only when it was this old
// when the file was looked at. Generous, for the clocks of file servers differ.
constexpr seconds kSettled{2};
constexpr seconds kLate{60};                 // a file that was left is still watched for late bytes
constexpr std::size_t kSiblings = 64;        // limit: rotated files of one log that are looked at; more have been rotated within one outage
constexpr std::size_t kPackedTries = 4;      // packed files that are unpacked in search of one
constexpr int kTurns = 8;                    // opening, losing sight of and finding a file again within one step

TimePoint time_of(std::int64_t ns) { return TimePoint(std::chrono::duration_cast<TimePoint::duration>(std::chrono::nanoseconds(ns))); }

// Bytes up to and with the last line end. A '\r' ends a state of a progress bar: it counts where no '\n' stands, and not as the very last
// byte, where it may belong to "\r\n".
std::size_t whole_lines(std::string_view text) {
  if (const std::size_t at = text.rfind('\n'); at != std::string_view::npos) return at + 1;
  if (text.empty()) return 0;
  const std::size_t at = text.substr(0, text.size() - 1).rfind('\r');
  return at == std::string_view::npos ? 0 : at + 1;
}

std::size_t leading_nuls(std::string_view text) {
  const std::size_t at = text.find_first_not_of('\0');
  return at == std::string_view::npos ? text.size() : at;
}

TailStep told(What what, std::uint64_t lost, std::string why) {
  TailStep step;
  step.what = what;
  step.lost_bytes = lost;
  step.why = std::move(why);
  return step;
}

TailStep idle() { return {}; }

const TailOptions& default_options() {
  static const TailOptions options;
  return options;
}

}  // namespace

Tailer::Tailer(FileSystem& files, std::string path, std::optional<Checkpoint> known, const TailOptions& options, std::uint64_t generation)
    : files_(&files), options_(&options), path_(std::move(path)), generation_(generation) {
  if (!known) return;
  at_ = *known;
  shown_ = at_.offset;
  if (at_.check_bytes == 0) changed_ns_ = static_cast<std::int64_t>(at_.check_hash);
}

Tailer::Tailer(FileSystem& files, std::string path, std::optional<Checkpoint> known)
    : Tailer(files, std::move(path), std::move(known), default_options()) {}

std::string_view Tailer::base() const { return std::string_view(path_).substr(path_.rfind('/') + 1); }
std::string Tailer::folder() const {
  const std::size_t at = path_.rfind('/');
  return at == std::string::npos ? "." : at == 0 ? "/" : path_.substr(0, at);
}

std::uint64_t Tailer::unseen() const {
  const std::uint64_t seen = std::max(shown_, at_.offset);
  return at_.size > seen ? at_.size - seen : 0;
}

bool Tailer::unchanged(const FileInfo& info) const {
  return changed_ns_ != 0 && info.size == at_.size && info.changed_ns == changed_ns_ && verified_ - time_of(changed_ns_) > kSettled;
}

void Tailer::note(const FileInfo& info, TimePoint now) {
  if (info.size != at_.size) grown_ = now;
  at_.size = info.size;
  changed_ns_ = info.changed_ns;
  verified_ = now;
  if (at_.check_bytes == 0) at_.check_hash = static_cast<std::uint64_t>(info.changed_ns);
}

std::optional<TimePoint> Tailer::wake() const {
  std::optional<TimePoint> out;
  const auto at = [&out](TimePoint time) { out = out ? std::min(*out, time) : time; };
  if (failed_) at(looked_ + seconds(1));
  if (skip_at_ != 0 && !failed_) at(looked_);
  if (unseen() > 0 && !failed_) at(std::max(grown_ + options_->flush, looked_ + milliseconds(1)));
  // A file that was rotated away while its successor stays empty may be written on for hours.
  if (aside_) at(looked_ + std::clamp(std::chrono::duration_cast<milliseconds>(looked_ - std::max(grown_, aside_since_)) / 4, milliseconds(250), milliseconds(5000)));
  if (left_file_) at(looked_ + seconds(5));
  return out;
}

void Tailer::rest() {
  if (!nameless_) file_.reset();
}

Result<Tailer::There> Tailer::look() const {
  Result<FileInfo> info = files_->info(path_);
  if (info.ok()) return There(*info);
  if (info.error().code() == ErrorCode::not_found) return There();
  return std::move(info).error();
}

Result<TailStep> Tailer::step(std::span<char> room, TimePoint now) {
  Result<TailStep> out = look_at(room, now);
  failed_ = !out.ok();
  return out;
}

Result<TailStep> Tailer::look_at(std::span<char> room, TimePoint now) {
  grown_ = std::min(grown_, now);   // the clock may have been set back
  verified_ = std::min(verified_, now);
  aside_since_ = std::min(aside_since_, now);
  looked_ = now;
  if (std::optional<TailStep> late = late_bytes(now)) return *std::move(late);
  for (int turn = 0; turn < kTurns; ++turn) {
    if (!file_) {
      TRIAGE_TRY(std::optional<TailStep> step, find(now));
      if (step) return *std::move(step);
      if (!file_) continue;
    }
    const Result<FileInfo> info = file_->info();
    if (!info.ok()) {
      if (info.error().code() == ErrorCode::limit) return info.error();   // the answer comes later
      const bool taken_back = info.error().code() == ErrorCode::unavailable;
      file_.reset();
      nameless_ = false;
      if (taken_back) continue;
      return info.error();
    }
    const OpenFile* const before = file_.get();
    std::optional<TailStep> step;
    if (!unchanged(*info) || skip_at_ != 0 || at_.size > std::max(shown_, at_.offset)) {
      Step taken = take(room, *info, now);
      if (!taken.ok()) {
        if (!comes_later(taken.error())) file_.reset();   // a stale handle of a file server, a bad disk: opened anew next time
        if (taken.error().code() == ErrorCode::unavailable && turn + 1 < kTurns) {
          file_.reset();
          continue;
        }
        return std::move(taken).error();
      }
      step = *std::move(taken);
    }
    if (step) return *std::move(step);
    if (file_.get() != before || !file_) continue;   // another file, or none, since then
    TRIAGE_TRY(step, at_end(room, *info, now));
    if (step) return *std::move(step);
  }
  return Error(ErrorCode::unavailable, "the file changed faster than it could be looked at").at(Place{path_, {}, {}, {}, {}});
}

// Opens the file that the checkpoint tells of, where it is.
Tailer::Step Tailer::find(TimePoint now) {
  TRIAGE_TRY(const There there, look());
  if (!there && !at_.known()) return std::optional(idle());
  if (!there && vanished_) {
    TRIAGE_TRY(const bool later, begin_later_sibling(true, now));
    return std::optional(later ? told(What::new_generation, 0, "a file that came and was rotated away meanwhile was found") : idle());
  }
  if (!there || (at_.known() && !is_ours(*there))) return lost_sight(now);
  if (at_.known() && unchanged(*there) && skip_at_ == 0 && (unseen() == 0 || now - grown_ < options_->flush)) {
    vanished_ = aside_ = false;
    return std::optional(idle());
  }
  TRIAGE_TRY(auto file, files_->open(path_));
  TRIAGE_TRY(const FileInfo info, file->info());
  if (info.device != there->device || info.inode != there->inode) return std::optional<TailStep>();   // replaced just now
  if (!at_.known()) {
    TRIAGE_CHECK(set_out(*file, info));
  } else {
    TRIAGE_TRY(const bool same, content_matches(*file, at_));
    if (!same || info.size < at_.offset) return lost_sight(now);
  }
  adopt(std::move(file), info, false, now);
  return std::optional<TailStep>();
}

void Tailer::adopt(std::unique_ptr<OpenFile> file, const FileInfo& info, bool aside, TimePoint now) {
  file_ = std::move(file);
  at_.device = info.device;
  at_.inode = info.inode;
  grown_ = std::max(grown_, std::min(now, time_of(info.changed_ns)));
  if (aside && !aside_) aside_since_ = now;
  aside_ = aside;
  nameless_ = vanished_ = false;
}

// The checkpoint at the beginning of a file.
parsers::Status Tailer::set_out(OpenFile& file, const FileInfo& info) {
  Checkpoint at;
  at.device = info.device;
  at.inode = info.inode;
  at.size = info.size;
  std::array<char, Checkpoint::kCheckBytes> room;
  TRIAGE_TRY(const std::size_t count, file.read(0, room));
  at.check_bytes = static_cast<std::uint32_t>(count);
  at.check_hash = count > 0 ? content_hash({room.data(), count}) : static_cast<std::uint64_t>(info.changed_ns);
  at_ = at;
  return parsers::done();
}

Result<const Checkpoint*> Tailer::left_before(OpenFile& file, const FileInfo& info) const {
  for (const Checkpoint& left : left_) {
    if (left.device != info.device || left.inode != info.inode || left.check_bytes == 0 || info.size < left.offset) continue;
    TRIAGE_TRY(const bool same, content_matches(file, left));
    if (same) return &left;
  }
  return nullptr;
}

parsers::Status Tailer::begin(std::unique_ptr<OpenFile> file, const FileInfo& info, bool aside, TimePoint now) {
  TRIAGE_TRY(const Checkpoint* const left, left_before(*file, info));
  const Checkpoint before = at_;
  if (left) {
    at_ = *left;
  } else {
    TRIAGE_CHECK(set_out(*file, info));
  }
  if (before.inode != info.inode) {
    std::rotate(left_.begin(), left_.end() - 1, left_.end());
    left_.front() = before;
    if (file_) {
      left_file_ = std::move(file_);
      left_size_ = before.size;
      left_at_ = now;
    }
  }
  ++generation_;
  shown_ = at_.offset;
  skip_at_ = 0;
  changed_ns_ = 0;
  cut_ = false;
  grown_ = TimePoint{};
  adopt(std::move(file), info, aside, now);
  aside_since_ = TimePoint{};   // it has a successor: its own time tells how long it has been quiet
  return parsers::done();
}

// Bytes that come to a file after it was left cannot be put before those of the next one any more.
std::optional<TailStep> Tailer::late_bytes(TimePoint now) {
  if (!left_file_) return std::nullopt;
  const Result<FileInfo> info = left_file_->info();
  std::optional<TailStep> out;
  if (info.ok() && info->size > left_size_) {
    out = told(What::idle, info->size - left_size_, "a file that was rotated away was written on after its successor had begun");
    left_size_ = info->size;
  }
  const bool late_answer = !info.ok() && info.error().code() == ErrorCode::limit;
  if ((!info.ok() && !late_answer) || now - left_at_ > kLate || now < left_at_) left_file_.reset();
  return out;
}

// Hands out what stands at the offset, or goes on.
Tailer::Step Tailer::take(std::span<char> room, const FileInfo& info, TimePoint now) {
  if (info.size < at_.offset) return lost_sight(now);
  const std::uint64_t at = skip_at_ != 0 ? skip_at_ : at_.offset;
  TRIAGE_TRY(const std::size_t count, file_->read(at, room));
  // Verified after reading: a file that was emptied meanwhile does not have the bytes before the offset any more.
  TRIAGE_TRY(const bool same, content_matches(*file_, at_));
  const bool emptied_between = info.size == 0 && at_.size == 0 && changed_ns_ != 0 && info.changed_ns != changed_ns_;
  if (!same || emptied_between) return lost_sight(now);
  if (at_.check_bytes == 0 && changed_ns_ != 0 && count > 0) {
    // First bytes of a file that was empty. It may have had others that went into a rotated copy.
    auto ours = std::move(file_);
    TRIAGE_TRY(const bool later, begin_later_sibling(true, now));
    if (later) return std::optional(told(What::truncated, 0, "the file was emptied before its first bytes were read; its copy is read first"));
    file_ = std::move(ours);
  }

  FileInfo seen = info;
  seen.size = std::max<std::uint64_t>(info.size, count > 0 ? at + count : 0);
  if (seen.size < at_.size) {   // what stands before the offset is as it was, the end is gone
    const std::uint64_t kept = std::max(seen.size, std::max(shown_, at_.offset));
    const std::uint64_t lost = at_.size > kept ? at_.size - kept : 0;
    shown_ = std::min(shown_, seen.size);
    if (skip_at_ > seen.size) skip_at_ = 0;
    note(seen, now);
    return std::optional(told(What::truncated, lost, "the end of the file was cut off"));
  }
  note(seen, now);
  if (count == 0) return std::optional<TailStep>();
  if (skip_at_ != 0) return skip({room.data(), count});
  return hand_out(room, count, at);
}

Tailer::Step Tailer::hand_out(std::span<char> room, std::size_t count, std::uint64_t at) {
  std::string_view bytes(room.data(), count);
  // A writer that does not append goes on at its old place after the file was emptied: what lies before is a hole.
  if (const std::size_t nuls = leading_nuls(bytes); nuls > 0) {
    const std::uint64_t data = std::max(file_->data_from(at), at + nuls);
    if (data >= at_.size) return std::optional<TailStep>();   // may be filled yet
    Checkpoint next = at_;
    next.offset = data;
    TRIAGE_CHECK(advance(*file_, next, {}));
    at_ = next;
    shown_ = std::max(shown_, at_.offset);
    if (data > at + nuls || nuls == count) return std::optional(TailStep{What::bytes, 0, false, 0, {}});
    std::memmove(room.data(), room.data() + nuls, count - nuls);
    bytes = {room.data(), count - nuls};
    at = at_.offset;
  }
  if (const std::size_t whole = whole_lines(bytes); whole > 0) {
    TRIAGE_CHECK(advance(*file_, at_, bytes.substr(0, whole)));
    shown_ = std::max(shown_, at_.offset);
    return std::optional(TailStep{What::bytes, whole, false, 0, {}});
  }
  if (bytes.size() == room.size()) {
    skip_at_ = at + bytes.size();
    shown_ = std::max(shown_, skip_at_);
    return std::optional(TailStep{What::bytes, bytes.size(), true, 0, "a line is longer than can be taken: its head was"});
  }
  if (at_.offset == 0) {   // nothing was taken yet: the beginning of its first line is all that the file can be known by
    const std::size_t checked = std::min<std::size_t>(bytes.size(), Checkpoint::kCheckBytes);
    at_.check_bytes = static_cast<std::uint32_t>(checked);
    at_.check_hash = content_hash(bytes.substr(0, checked));
  }
  return std::optional<TailStep>();
}

Tailer::Step Tailer::skip(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  TailStep step = told(What::bytes, end == std::string_view::npos ? bytes.size() : end, "the rest of a line that is too long was skipped");
  if (end == std::string_view::npos) {
    skip_at_ += bytes.size();
    shown_ = std::max(shown_, skip_at_);
    return std::optional(std::move(step));
  }
  Checkpoint next = at_;
  next.offset = skip_at_ + end + 1;
  TRIAGE_CHECK(advance(*file_, next, {}));
  ++next.lines;
  at_ = next;
  skip_at_ = 0;
  shown_ = std::max(shown_, at_.offset);
  return std::optional(std::move(step));
}

// Hands out a line without an end.
Tailer::Step Tailer::show(std::span<char> room) {
  TRIAGE_TRY(const std::size_t count, file_->read(at_.offset, room));
  if (count == 0 || at_.offset + count <= shown_) return std::optional<TailStep>();
  shown_ = at_.offset + count;
  if (leading_nuls({room.data(), count}) == count) return std::optional<TailStep>();
  return std::optional(TailStep{What::bytes, count, true, 0, {}});
}

// Nothing to take from the file: is it still what the path leads to?
Tailer::Step Tailer::at_end(std::span<char> room, const FileInfo& ours, TimePoint now) {
  if (unseen() > 0 && skip_at_ == 0 && now - grown_ >= options_->flush) {
    TRIAGE_TRY(std::optional<TailStep> step, show(room));
    if (step) return step;
  }
  TRIAGE_TRY(const There there, look());
  if (!there || !is_ours(*there)) return leave(room, there, ours, now);
  if (aside_ || nameless_) file_->hold(false);
  aside_ = nameless_ = vanished_ = cut_ = false;
  return std::optional(idle());
}

// The path leads elsewhere, or nowhere. Stays with the file until it is certain that nothing more comes to it.
Tailer::Step Tailer::leave(std::span<char> room, const There& there, const FileInfo& ours, TimePoint now) {
  if (!aside_) aside_since_ = now;
  aside_ = true;
  nameless_ = ours.links == 0;
  file_->hold(nameless_);
  const auto quiet = now - std::max(grown_, aside_since_);
  const bool given_up = nameless_ && quiet >= options_->deleted;
  if (!given_up && quiet < options_->rotate) return std::optional(idle());
  if (unseen() > 0 && skip_at_ == 0) {
    TRIAGE_TRY(std::optional<TailStep> step, show(room));
    if (step) return step;
  }
  const What what = cut_ ? What::truncated : What::new_generation;
  const std::string why = cut_ ? "the file was emptied; its copy was read to the end" : "the file was rotated; the old one was read to its end";
  // One that came and was rotated away while ours was read.
  TRIAGE_TRY(const bool later, begin_later_sibling(false, now));
  if (later) return std::optional(told(what, 0, why));
  if (there && (there->size > 0 || given_up)) {
    TRIAGE_TRY(const bool begun, begin_there(*there, now));
    return begun ? std::optional(told(what, 0, why)) : std::optional<TailStep>();
  }
  if (!given_up) return std::optional(idle());   // its successor is empty or missing: the writer may still have this one
  file_.reset();
  nameless_ = false;
  vanished_ = true;
  return std::optional(told(What::vanished, 0, "the file was deleted; it was read to its end"));
}

// The path does not lead to what the checkpoint tells of. Looks for it elsewhere; if it is gone, begins with what there is.
Tailer::Step Tailer::lost_sight(TimePoint now) {
  TRIAGE_TRY(const There there, look());
  const bool in_place = there && is_ours(*there);
  bool found = false;
  if (!in_place) {
    TRIAGE_TRY(found, adopt_sibling(true, now));
  }
  if (!found) {
    TRIAGE_TRY(found, adopt_sibling(false, now));
  }
  if (!found) {
    TRIAGE_TRY(found, adopt_packed(now));
  }
  if (found) {
    cut_ = cut_ || in_place;
    return std::optional<TailStep>();
  }
  file_.reset();
  const std::uint64_t lost = unseen();
  const What what = in_place || cut_ ? What::truncated : What::new_generation;
  std::string why = in_place ? "the file was emptied or written anew; what was not read before is lost" : "the file was replaced; what was not read of the old one is lost";
  TRIAGE_TRY(bool begun, begin_later_sibling(true, now));
  if (begun) return std::optional(told(what, lost, std::move(why)));
  if (!there) {
    shown_ = std::max(shown_, at_.size);
    skip_at_ = 0;
    nameless_ = false;
    vanished_ = aside_ = true;
    return std::optional(told(What::vanished, lost, "the file is gone; what was written to it after the last look is lost"));
  }
  TRIAGE_TRY(begun, begin_there(*there, now));
  return begun ? std::optional(told(what, lost, std::move(why))) : std::optional<TailStep>();
}

// false: replaced just now.
Result<bool> Tailer::begin_there(const FileInfo& there, TimePoint now) {
  TRIAGE_TRY(auto file, files_->open(path_));
  TRIAGE_TRY(const FileInfo info, file->info());
  if (info.device != there.device || info.inode != there.inode) return false;
  TRIAGE_CHECK(begin(std::move(file), info, false, now));
  return true;
}

Result<std::vector<Tailer::Sibling>> Tailer::siblings(bool every_name) const {
  std::vector<Sibling> out;
  const std::string where = folder();
  Result<std::vector<FolderEntry>> entries = files_->list(where);
  if (!entries.ok()) {
    if (entries.error().code() == ErrorCode::not_found) return out;   // the folder went with the file
    return std::move(entries).error();
  }
  const std::string_view own = base();
  for (FolderEntry& entry : *entries) {
    if (entry.name == own || (entry.kind_known && entry.kind != FileKind::file)) continue;
    const auto rotated = read_rotated_name(own, entry.name);
    if (!rotated && !every_name) continue;
    if (!every_name && out.size() == kSiblings) break;
    if (options_->is_source && options_->is_source(where + "/" + entry.name)) continue;
    out.push_back({entry.name, rotated ? std::string(rotated->mark) : "", entry.inode, rotated && rotated->packed});
  }
  return out;
}

// Nothing: it cannot be read, and never will.
Result<std::unique_ptr<OpenFile>> Tailer::open_sibling(const Sibling& sibling) const {
  const std::string path = folder() + "/" + sibling.name;
  auto file = sibling.packed ? open_unpacked(*files_, path) : files_->open(path);
  if (!file.ok() && !comes_later(file.error())) return std::unique_ptr<OpenFile>();
  return file;
}

// Finds the file under another name. by_inode: renamed; else: copied before it was emptied.
Result<bool> Tailer::adopt_sibling(bool by_inode, TimePoint now) {
  if (!at_.known() || (!by_inode && at_.check_bytes == 0)) return false;
  std::unique_ptr<OpenFile> best;
  FileInfo best_info;
  TRIAGE_TRY(const std::vector<Sibling> all, siblings(by_inode));
  for (const Sibling& sibling : all) {
    if (sibling.packed || (by_inode && sibling.inode != at_.inode)) continue;
    if (by_inode && at_.check_bytes == 0 && sibling.mark.empty()) continue;   // the inode alone is no proof
    TRIAGE_TRY(auto file, open_sibling(sibling));
    if (!file) continue;
    const auto info = file->info();
    if (!info.ok() && comes_later(info.error())) return info.error();
    if (!info.ok() || info->size < at_.offset || (by_inode && !is_ours(*info)) || (!by_inode && is_ours(*info))) continue;
    if (by_inode && info->size == 0 && at_.size == 0 && info->changed_ns != changed_ns_) continue;   // emptied since then: nothing to take from it
    // limit: after a restart, an older file that is the same up to the offset is taken for the copy.
    if (!by_inode && changed_ns_ != 0 && info->changed_ns < changed_ns_) continue;
    const auto same = content_matches(*file, at_);
    if (!same.ok() && comes_later(same.error())) return same.error();
    if (!same.ok() || !*same || (best && info->size <= best_info.size)) continue;
    best = std::move(file);
    best_info = *info;
  }
  if (!best) return false;
  adopt(std::move(best), best_info, true, now);
  return true;
}

// The packed form of our file. Packers keep the time of the file, or set a later one.
// limit: it is unpacked whole on the thread that asks: about a second for each 300 MB.
Result<std::optional<Tailer::Packed>> Tailer::find_packed(const std::vector<Sibling>& all) const {
  if (!at_.known() || at_.check_bytes == 0) return std::optional<Packed>();
  std::size_t tries = 0;
  for (const Sibling& sibling : all) {
    if (!sibling.packed) continue;
    const auto info = files_->info(folder() + "/" + sibling.name);
    if (!info.ok() && comes_later(info.error())) return info.error();
    if (!info.ok() || (changed_ns_ != 0 && info->changed_ns < changed_ns_ / 1'000'000'000 * 1'000'000'000)) continue;   // gzip keeps whole seconds
    if (++tries > kPackedTries) break;
    TRIAGE_TRY(auto file, open_sibling(sibling));
    if (!file) continue;
    const auto inside = file->info();
    if (!inside.ok() || inside->size < at_.offset) continue;
    const auto same = content_matches(*file, at_);
    if (!same.ok() && comes_later(same.error())) return same.error();
    if (same.ok() && *same) return std::optional(Packed{std::move(file), *inside, sibling.mark});
  }
  return std::optional<Packed>();
}

// Rotated and packed: what was not read of it is read from there.
Result<bool> Tailer::adopt_packed(TimePoint now) {
  TRIAGE_TRY(const std::vector<Sibling> all, siblings(false));
  TRIAGE_TRY(std::optional<Packed> packed, find_packed(all));
  if (!packed) return false;
  adopt(std::move(packed->file), packed->info, true, now);
  at_.size = packed->info.size;   // nobody writes to it any more: it is left as soon as it is read
  aside_since_ = TimePoint{};
  return true;
}

// A packed file has an inode of its own: it is known by what it holds.
Result<bool> Tailer::was_left(OpenFile& file, const FileInfo& info, bool packed) const {
  if (!packed) {
    TRIAGE_TRY(const Checkpoint* const left, left_before(file, info));
    return left != nullptr;
  }
  for (const Checkpoint& left : left_) {
    if (left.check_bytes == 0 || info.size < left.offset) continue;
    TRIAGE_TRY(const bool same, content_matches(file, left));
    if (same) return true;
  }
  return false;
}

// Files that came after ours and were rotated away before they were seen under the path: begins the oldest of them. gone: our content is
// nowhere, so that a file with its inode is a later one. Where our own mark is not known either, the time of the last change decides.
Result<bool> Tailer::begin_later_sibling(bool gone, TimePoint now) {
  TRIAGE_TRY(std::vector<Sibling> all, siblings(false));
  std::string own;
  for (const Sibling& sibling : all)
    if (!gone && sibling.inode == at_.inode) own = sibling.mark;   // a packed one, too
  if (!gone && own.empty()) {   // ours has no name any more: it may have been packed
    TRIAGE_TRY(std::optional<Packed> packed, find_packed(all));
    if (packed) own = packed->mark;
  }
  std::erase_if(all, [&](const Sibling& sibling) {
    if (sibling.inode == at_.inode && !gone) return true;
    if (sibling.inode == at_.inode && !sibling.packed) return false;   // packed, it has got the number by chance
    return own.empty() ? changed_ns_ == 0 : !rotated_later(sibling.mark, own);
  });
  std::stable_sort(all.begin(), all.end(), [](const Sibling& a, const Sibling& b) { return rotated_later(b.mark, a.mark); });   // the oldest first
  std::size_t unpacked = 0;
  for (const Sibling& sibling : all) {
    const bool same_inode = sibling.inode == at_.inode && !sibling.packed;
    const bool twin = sibling.packed && std::any_of(all.begin(), all.end(), [&](const Sibling& other) { return !other.packed && other.mark == sibling.mark; });
    if (twin || (sibling.packed && ++unpacked > kPackedTries)) continue;   // being packed just now
    if (sibling.packed && own.empty()) {   // before it is unpacked: is it later at all?
      const auto info = files_->info(folder() + "/" + sibling.name);
      if (!info.ok() && comes_later(info.error())) return info.error();
      if (!info.ok() || info->changed_ns <= changed_ns_) continue;
    }
    TRIAGE_TRY(auto file, open_sibling(sibling));
    if (!file) continue;
    const auto info = file->info();
    if (!info.ok() && comes_later(info.error())) return info.error();
    if (!info.ok() || (info->size == 0 && !same_inode) || info->device != at_.device) continue;
    if (!same_inode && own.empty() && info->changed_ns <= changed_ns_) continue;
    const auto left = was_left(*file, *info, sibling.packed);
    if (!left.ok() && comes_later(left.error())) return left.error();
    if (!left.ok() || *left) continue;
    TRIAGE_CHECK(begin(std::move(file), *info, true, now));
    return true;
  }
  return false;
}

}  // namespace triage::daemon
