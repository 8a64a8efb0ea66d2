#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "daemon/cli/command.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/base/error_text.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;

void complain(const Error& error) { std::fputs(parsers::error_text(error).c_str(), stderr); }
void complain(const std::vector<Error>& errors) {
  if (!errors.empty()) std::fputs(parsers::error_text(parsers::first_of_each_file(errors)).c_str(), stderr);
}

int written_or_complain(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  if (errno == EPIPE) return status;   // the reader has what it wanted: `| head`
  complain(Error(ErrorCode::io, "the answer could not be written to standard output")
               .because(errno != 0 ? std::strerror(errno) : "")
               .help("free space on the disk, or write it elsewhere"));
  return kTrouble;
}

std::shared_ptr<const Knowledge> knowledge_or_complain(const std::vector<std::string>& rule_paths, bool checked) {
  const LoadedKnowledge loaded = load_rule_files(rule_paths_or_site(rule_paths), {checked, true});
  complain(loaded.faults);
  if (!loaded.notes.empty()) std::fputs(parsers::error_text(parsers::first_of_each_file(loaded.notes), "warning").c_str(), stderr);
  return loaded.knowledge;
}

}  // namespace triage::daemon
