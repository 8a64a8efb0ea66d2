// triage snapshot: what filled the device.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/cli/command.hpp"
#include "daemon/cli/snapshot_view.hpp"
#include "daemon/cli/what_if.hpp"
#include "daemon/http/snapshot_html.hpp"
#include "daemon/http/snapshot_json.hpp"
#include "daemon/http/what_if_json.hpp"
#include "daemon/pipeline/snapshot_file.hpp"
#include "daemon/tail/input.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;

namespace {

int print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!std::ferror(stdout)) return kNothingFound;
  complain(Error(ErrorCode::io, "the answer could not be written to standard output"));
  return kTrouble;
}

// A folder, or several files: a run with its ranks.
bool several(const SnapshotCommand& command, const std::vector<std::string>& files) { return files.size() > 1 || files[0] != command.paths[0]; }

constexpr std::size_t kTimelinePoints = 2000, kTimelineStates = 60;

int write_page(const std::string& path, const std::string& page) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const bool written = file && std::fwrite(page.data(), 1, page.size(), file) == page.size();
  if (file && std::fclose(file) == 0 && written) return kNothingFound;
  complain(Error(ErrorCode::io, "the page could not be written").at(parsers::Place{path, {}, {}, {}, {}}).because(std::strerror(errno)));
  return kTrouble;
}

int compare(const SnapshotCommand& command, const std::vector<std::string>& files) {
  std::vector<SnapshotAnalysis> sides;
  for (const std::string& file : {files[0], command.compare}) {
    auto loaded = load_snapshot(file);
    if (!loaded.ok()) {
      complain(loaded.error());
      return kTrouble;
    }
    sides.push_back(analyze_snapshot(file, std::move(loaded).value()));
  }
  if (command.format == Format::json) return print(json_text(comparison_json(sides[0], sides[1]), 2) + "\n");
  return print(comparison_text(sides[0], sides[1], terminal_style(false)));
}

}  // namespace

int snapshot_command(const SnapshotCommand& command) {
  const auto what_if = read_what_if(command.what_if, command.capacity, command.total_memory);
  if (!what_if.ok()) {
    complain(what_if.error());
    return kTrouble;
  }
  const ExpandedPaths paths = expand_paths(command.paths);
  complain(paths.errors);
  if (paths.files.empty()) return kTrouble;
  if (!command.compare.empty()) {
    if (paths.files.size() != 1) {
      complain(Error(ErrorCode::conflict, "--compare takes one file before and one after").help("triage snapshot BEFORE.pickle --compare AFTER.pickle"));
      return kTrouble;
    }
    return compare(command, paths.files);
  }
  const bool table = several(command, paths.files);
  std::vector<SnapshotAnalysis> read;
  bool trouble = !paths.errors.empty();
  for (const std::string& file : paths.files) {
    auto loaded = load_snapshot(file);
    if (!loaded.ok()) {
      // A folder of a run holds other files too: they are told only when nothing else was read.
      if (!table || loaded.error().code() == ErrorCode::io) {
        complain(loaded.error());
        trouble = true;
      }
      continue;
    }
    parsers::SummaryOptions options;
    if (!command.html.empty()) {
      options.timeline_points = kTimelinePoints;
      options.timeline_states = kTimelineStates;
    }
    for (const auto& given : {what_if->limits.capacity, what_if->limits.total_memory})
      if (given && options.device_bytes == 0) options.device_bytes = given->count();
    read.push_back(analyze_snapshot(file, std::move(loaded).value(), options));
    if (table) read.back().snapshot.traces.clear();   // of a thousand ranks only the summaries are kept
  }
  if (read.empty()) {
    if (table) complain(Error(ErrorCode::not_found, "no allocator snapshot was found").help("torch.cuda.memory._dump_snapshot(FILE) writes one"));
    return kTrouble;
  }
  int status = kNothingFound;
  if (command.format == Format::json) {
    if (!table) {
      Json answer = snapshot_json(read.front());
      add_what_if(answer, read.front(), what_ifs_of(read.front(), *what_if), what_if->asked());
      status = print(json_text(answer, 2) + "\n");
    } else {
      Json ranks = Json::array();
      for (const SnapshotAnalysis& analysis : read) ranks.push_back(snapshot_json(analysis));
      status = print(json_text(Json{{"snapshots", ranks}}, 2) + "\n");
    }
  } else if (table && read.size() > 1) {
    status = print(rank_table_text(read, terminal_style(false)));
  } else {
    std::string text = snapshot_text(read.front(), terminal_style(false));
    if (what_if->asked()) text += what_if_text(read.front(), what_ifs_of(read.front(), *what_if), terminal_style(false));
    status = print(text);
  }
  if (!command.html.empty()) {
    if (read.size() > 1) {
      complain(Error(ErrorCode::conflict, "--html makes the page of one snapshot").help("name the file of one rank"));
      return kTrouble;
    }
    if (write_page(command.html, snapshot_html(read.front())) != kNothingFound) return kTrouble;
  }
  return trouble ? kTrouble : status;
}

}  // namespace triage::daemon
