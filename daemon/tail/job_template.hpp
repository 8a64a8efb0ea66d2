// JobTemplate: a path with wild cards and named parts, as the configuration has it:
//   /logs/{job}/{attempt}/{node}/rank{rank}.log     /scratch/%x-%j-%N-%4t.out     /data/**/stderr.log
// Wild cards: * ? [abc] [!a-z] within one name, ** over any number of folders. Names that begin with '.' are met by such only where the
// pattern has the '.' itself. Named parts: {job} {node} {pod} {container} {stream} {namespace} {uid} {user} are text without '/';
// {attempt} {rank} {local_rank} are digits. Slurm's: %j %A %a %J %x %N %n %t %s %u %b, with a width (%4t), %% for '%'.
// Source of the latter: sbatch(1), srun(1), "filename pattern".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/match/match.hpp"

namespace triage::daemon {

enum class Field : std::uint8_t { job, job_name, array_job, array_task, attempt, node, rank, local_rank, pod, container, stream, name_space, ignored, count };

// Text of the named parts; empty where the template has none.
using FieldValues = std::array<std::string, static_cast<std::size_t>(Field::count)>;

class JobTemplate {
 public:
  // Where one may stand in the template while a path is followed: bit i = component i is the next one.
  using Positions = std::uint64_t;
  static constexpr std::size_t kComponents = 60;

  // An absolute path. Errors: syntax, with what is wrong in it.
  static parsers::Result<JobTemplate> parse(std::string_view text);

  const std::string& text() const { return text_; }
  Positions start() const { return closure(1); }
  // After one more name of the path; 0: the path does not fit.
  Positions next(Positions from, std::string_view name) const;
  // A path may end here.
  bool ends(Positions at) const { return (at >> components_.size()) & 1; }
  // Names that come next, as far as they are fixed; wild: there are others besides.
  struct Next {
    std::vector<std::string> fixed;
    bool wild = false;
  };
  Next next_names(Positions at) const;
  // The named parts of a whole path; empty if it does not fit. A part that stands twice has to be the same twice.
  std::optional<FieldValues> match(std::string_view path) const;
  // Does the last name hold a number that the template names (a rank, a job)? Then no name of it is taken for that of a rotated file.
  bool numbers_files() const;
  // The folder above the first wild card or named part.
  std::string root() const;

 private:
  struct Token {
    enum class What : std::uint8_t { text, any, one, set, field } what = What::text;
    std::string text;                    // text; set: "a-z" or "!a-z"
    Field field = Field::ignored;
    bool digits = false;
  };
  struct Component {
    bool folders = false;                // **
    std::vector<Token> tokens;
    bool fixed() const { return !folders && tokens.size() == 1 && tokens.front().what == Token::What::text; }
  };
  Positions closure(Positions at) const;
  static parsers::Status parse_component(std::string_view text, Component& out);
  static bool matches(const Component& component, std::string_view name, FieldValues* values);

  std::string text_;
  std::vector<Component> components_;
};

// What a template and the path say together; the rest is read from the name as `triage scan` does it (source_info).
signatures::SourceInfo template_source(const std::string& path, const FieldValues& values);

}  // namespace triage::daemon
