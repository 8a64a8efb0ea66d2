#include "daemon/tail/discovery.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "daemon/tail/rotated_name.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kDepth = 64;       // folders in one another
constexpr std::size_t kFaults = 1000;    // kept until they are taken

std::string joined(const std::string& folder, std::string_view name) {
  return folder == "/" ? "/" + std::string(name) : folder + "/" + std::string(name);
}

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

// One pass of one pattern.
struct Discovery::Walk {
  const SourcePattern* pattern = nullptr;
  std::map<std::string, FoundFile>* out = nullptr;
  std::vector<std::pair<std::string, Positions>> folders;                       // still to be looked through
  std::set<std::tuple<std::uint64_t, std::uint64_t, Positions>> seen;           // links may lead into a folder above
  const std::vector<FolderEntry>* entries = nullptr;                            // of the folder that is looked through
  std::unordered_set<std::string_view> names;                                   // of those, when they were needed
};

Discovery::Discovery(FileSystem& files, std::vector<SourcePattern> patterns, DiscoveryOptions options)
    : files_(&files), patterns_(std::move(patterns)), options_(std::move(options)) {
  find_roots();
}

void Discovery::find_roots() {
  std::set<std::string> all;
  const auto add = [&](const std::string& folder) {
    const auto real = files_->real_path(folder);
    all.insert(real.ok() ? *real : folder);
  };
  for (const SourcePattern& pattern : patterns_) add(pattern.form.root());
  for (const std::string& folder : options_.links_into) add(folder);
  roots_.assign(all.begin(), all.end());
}

std::vector<std::string> Discovery::roots() const { return roots_; }

bool Discovery::allowed(const std::string& real) const {
  return std::any_of(roots_.begin(), roots_.end(), [&](const std::string& root) {
    return root == "/" || (real.starts_with(root) && (real.size() == root.size() || real[root.size()] == '/'));
  });
}

void Discovery::fault(Error error, const std::string& place) {
  if (faults_.size() < kFaults && told_.size() < 100 * kFaults && told_.insert(place).second) faults_.push_back(std::move(error));
}

std::vector<Error> Discovery::take_faults() { return std::exchange(faults_, {}); }

std::optional<FoundFile> Discovery::found_by(const SourcePattern& pattern, const std::string& path) const {
  const auto values = pattern.form.match(path);
  if (!values) return std::nullopt;
  for (const JobTemplate& except : pattern.except)
    if (except.match(path)) return std::nullopt;
  FoundFile out;
  out.path = path;
  out.source = template_source(path, *values);
  if (out.source.job.empty()) out.source.job = pattern.job;
  out.kind = pattern.kind;
  if (out.kind == FoundFile::Kind::log && has_packed_ending(path)) out.kind = FoundFile::Kind::packed;
  out.source.dump = out.kind == FoundFile::Kind::dump;
  return out;
}

std::optional<FoundFile> Discovery::find(const std::string& path) const {
  for (const SourcePattern& pattern : patterns_)
    if (auto out = found_by(pattern, path)) return out;
  return std::nullopt;
}

bool Discovery::is_source(const std::string& path) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const SourcePattern& pattern) {
    return (pattern.form.numbers_files() || rotated_bases(last_name(path)).empty()) && found_by(pattern, path).has_value();
  });
}

// A rotated file of a log that is there is that log's affair: its Tailer takes what it has not read of it.
bool Discovery::rotated(Walk& walk, const std::string& folder, const std::string& name) {
  if (walk.pattern->kind == FoundFile::Kind::dump || walk.pattern->form.numbers_files()) return false;
  const auto there = [&](std::string_view base) {
    if (!walk.entries) return files_->info(joined(folder, base)).ok();
    if (walk.names.empty())
      for (const FolderEntry& entry : *walk.entries) walk.names.insert(entry.name);
    return walk.names.count(base) > 0;
  };
  for (const std::string_view base : rotated_bases(name))
    if (there(base)) return true;
  if (!has_packed_ending(name)) return false;
  return there(std::string_view(name).substr(0, name.rfind('.')));   // being packed just now, or kept beside its packed form
}

void Discovery::found(Walk& walk, const std::string& folder, const FolderEntry& entry, const std::string& path, bool link) {
  if (walk.out->size() >= options_.files) {
    fault(Error(ErrorCode::limit, "more than " + std::to_string(options_.files) + " files match the patterns").at(Place{path, {}, {}, {}, {}}).help("narrow the patterns, or raise max_files; the first ones are watched"), "");
    return;
  }
  if (walk.out->count(path)) return;
  std::optional<FoundFile> file = found_by(*walk.pattern, path);
  if (!file || (file->kind == FoundFile::Kind::packed && !options_.packed) || rotated(walk, folder, entry.name)) return;
  file->link = link;
  walk.out->emplace(path, *std::move(file));
}

void Discovery::entry(Walk& walk, const std::string& folder, const FolderEntry& entry, Positions at) {
  const JobTemplate& form = walk.pattern->form;
  const Positions next = form.next(at, entry.name);
  if (next == 0) return;
  const std::string path = joined(folder, entry.name);
  FileKind kind = entry.kind;
  if (!entry.kind_known) {
    const auto info = files_->info(path, false);
    if (!info.ok()) {
      if (info.error().code() != ErrorCode::not_found) fault(info.error(), path);
      return;
    }
    kind = info->kind;
  }
  const bool link = kind == FileKind::link;
  if (link) {
    const auto real = files_->real_path(path);
    if (!real.ok()) {
      if (real.error().code() != ErrorCode::not_found) fault(real.error(), path);
      return;
    }
    if (!allowed(*real)) {
      fault(Error(ErrorCode::unsupported, "a link leads out of the folders that are watched")
                .at(Place{path, {}, {}, {}, {}})
                .because("it leads to " + *real)
                .help("name that folder under 'links_into', if its files are to be read"),
            path);
      return;
    }
    const auto info = files_->info(path);
    if (!info.ok()) return;
    kind = info->kind;
    if (kind == FileKind::file && find(*real)) return;   // it is a source under its own name
  }
  if (kind == FileKind::file && form.ends(next)) found(walk, folder, entry, path, link);
  if (kind == FileKind::folder) {
    const JobTemplate::Next below = form.next_names(next);
    if (below.wild || !below.fixed.empty()) walk.folders.emplace_back(path, next);
  }
}

void Discovery::run(Walk& walk) {
  while (!walk.folders.empty()) {
    const auto [folder, at] = std::move(walk.folders.back());
    walk.folders.pop_back();
    const auto info = files_->info(folder);
    if (!info.ok() && info.error().code() != ErrorCode::not_found) {   // it may answer later, and is then told as changed
      fault(info.error(), folder);
      if (options_.watch) options_.watch(folder);
    }
    if (!info.ok() || info->kind != FileKind::folder) continue;
    if (!walk.seen.emplace(info->device, info->inode, at).second) continue;
    if (static_cast<std::size_t>(std::count(folder.begin(), folder.end(), '/')) > kDepth) {
      fault(Error(ErrorCode::limit, "folders lie deeper in one another than " + std::to_string(kDepth)).at(Place{folder, {}, {}, {}, {}}), folder);
      continue;
    }
    const JobTemplate::Next next = walk.pattern->form.next_names(at);
    if (!next.wild) {
      for (const std::string& name : next.fixed) {
        const auto child = files_->info(joined(folder, name), false);
        if (!child.ok() && child.error().code() != ErrorCode::not_found) fault(child.error(), joined(folder, name));
        if (child.ok())
          entry(walk, folder, {name, child->inode, child->kind, true}, at);
        else if (options_.watch)
          options_.watch(folder);   // it may come
      }
      continue;
    }
    if (options_.watch) options_.watch(folder);
    const auto entries = files_->list(folder);
    if (!entries.ok()) {
      if (entries.error().code() != ErrorCode::not_found) fault(entries.error(), folder);
      continue;
    }
    walk.entries = &*entries;
    walk.names.clear();
    for (const FolderEntry& item : *entries) entry(walk, folder, item, at);
    walk.entries = nullptr;
    walk.names.clear();
  }
}

Discovery::Positions Discovery::positions_of(const SourcePattern& pattern, const std::string& folder) const {
  Positions at = pattern.form.start();
  for (const std::string_view name : parsers::split(folder, '/'))
    if (!name.empty() && at != 0) at = pattern.form.next(at, name);
  return at;
}

namespace {

std::vector<FoundFile> values_of(std::map<std::string, FoundFile>& found) {
  std::vector<FoundFile> out;
  out.reserve(found.size());
  for (auto& [path, file] : found) out.push_back(std::move(file));
  return out;
}

}  // namespace

std::vector<FoundFile> Discovery::scan() {
  find_roots();
  told_.clear();
  return look("/");
}

std::vector<FoundFile> Discovery::look(const std::string& folder) {
  std::map<std::string, FoundFile> out;
  for (const SourcePattern& pattern : patterns_) {
    const Positions at = positions_of(pattern, folder);
    if (at == 0) continue;
    Walk walk;
    walk.pattern = &pattern;
    walk.out = &out;
    walk.folders.emplace_back(folder, at);
    run(walk);
  }
  return values_of(out);
}

std::vector<FoundFile> Discovery::look(const std::string& folder, const std::string& name) {
  std::map<std::string, FoundFile> out;
  std::optional<FolderEntry> item;
  for (const SourcePattern& pattern : patterns_) {
    const Positions at = positions_of(pattern, folder);
    if (at == 0 || pattern.form.next(at, name) == 0) continue;
    if (!item) {
      const auto info = files_->info(joined(folder, name), false);
      if (!info.ok()) return {};
      item = FolderEntry{name, info->inode, info->kind, true};
    }
    Walk walk;
    walk.pattern = &pattern;
    walk.out = &out;
    entry(walk, folder, *item, at);
    run(walk);
  }
  return values_of(out);
}

}  // namespace triage::daemon
