#include "daemon/tail/job_template.hpp"

#include <algorithm>
#include <utility>

#include "daemon/pipeline/source_name.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

struct Named {
  std::string_view name;
  Field field;
  bool digits;
};
constexpr Named kNamed[] = {{"job", Field::job, false},         {"attempt", Field::attempt, true},         {"node", Field::node, false},
                            {"rank", Field::rank, true},        {"local_rank", Field::local_rank, true},   {"pod", Field::pod, false},
                            {"container", Field::container, false}, {"stream", Field::stream, false},     {"namespace", Field::name_space, false},
                            {"uid", Field::ignored, false},     {"user", Field::ignored, false}};
// sbatch(1): filename pattern.
constexpr Named kSlurm[] = {{"j", Field::job, true},        {"A", Field::array_job, true}, {"a", Field::array_task, true}, {"J", Field::job, false},
                            {"x", Field::job_name, false},  {"N", Field::node, false},     {"n", Field::ignored, true},    {"t", Field::rank, true},
                            {"s", Field::ignored, false},   {"u", Field::ignored, false},  {"b", Field::ignored, true}};

constexpr std::size_t kNameBytes = 255;   // of one name of a path: NAME_MAX
constexpr std::size_t kTokens = 40;       // of one component

bool in_set(std::string_view set, char c) {
  const bool inverted = !set.empty() && (set[0] == '!' || set[0] == '^');
  if (inverted) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (c >= set[i] && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || c == set[i];
    }
  }
  return found != inverted;
}

std::string& at(FieldValues& values, Field field) { return values[static_cast<std::size_t>(field)]; }
const std::string& at(const FieldValues& values, Field field) { return values[static_cast<std::size_t>(field)]; }

Error bad(std::string what, std::string help = {}) { return Error(ErrorCode::syntax, std::move(what)).help(std::move(help)); }

// The parts of an absolute path, empty ones left out.
std::vector<std::string_view> names_of(std::string_view path) {
  std::vector<std::string_view> out = parsers::split(path, '/');
  std::erase_if(out, [](std::string_view part) { return part.empty(); });
  return out;
}

}  // namespace

parsers::Status JobTemplate::parse_component(std::string_view text, Component& out) {
  if (text == "**") {
    out.folders = true;
    return parsers::done();
  }
  if (text == "." || text == "..") return bad("'" + std::string(text) + "' is no part of a pattern", "write the path in full");
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) out.tokens.push_back({Token::What::text, std::exchange(plain, {}), Field::ignored, false});
  };
  const auto named = [&](const Named& name) {
    flush();
    if (!out.tokens.empty() && out.tokens.back().what == Token::What::field && !out.tokens.back().digits && !name.digits) return false;
    out.tokens.push_back({Token::What::field, {}, name.field, name.digits});
    return true;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '*' || c == '?') {
      flush();
      if (c == '*' && !out.tokens.empty() && out.tokens.back().what == Token::What::any) continue;
      out.tokens.push_back({c == '*' ? Token::What::any : Token::What::one, {}, Field::ignored, false});
    } else if (c == '[') {
      const std::size_t end = text.find(']', i + 2);
      if (end == std::string_view::npos) return bad("a '[' has no ']'");
      flush();
      out.tokens.push_back({Token::What::set, std::string(text.substr(i + 1, end - i - 1)), Field::ignored, false});
      i = end;
    } else if (c == '{') {
      const std::size_t end = text.find('}', i);
      if (end == std::string_view::npos) return bad("a '{' has no '}'");
      const std::string_view name = text.substr(i + 1, end - i - 1);
      const auto* const found = std::find_if(std::begin(kNamed), std::end(kNamed), [&](const Named& known) { return known.name == name; });
      if (found == std::end(kNamed))
        return bad("'{" + std::string(name) + "}' is no named part", "known: {job} {attempt} {node} {rank} {local_rank} {pod} {container} {stream} {namespace} {uid} {user}; write alternatives as patterns of their own");
      if (!named(*found)) return bad("two named parts stand side by side: where one ends cannot be told", "put a '-' or '_' between them");
      i = end;
    } else if (c == '%') {
      std::size_t k = i + 1;
      while (k < text.size() && parsers::is_digit(text[k])) ++k;
      if (k < text.size() && text[k] == '%' && k == i + 1) {
        plain += '%';
        i = k;
        continue;
      }
      const auto* const found = k < text.size() ? std::find_if(std::begin(kSlurm), std::end(kSlurm), [&](const Named& known) { return known.name[0] == text[k]; }) : std::end(kSlurm);
      if (found == std::end(kSlurm)) {
        plain += c;   // a '%' of the name itself
        continue;
      }
      if (!named(*found)) return bad("two named parts stand side by side: where one ends cannot be told", "put a '-' or '_' between them");
      i = k;
    } else {
      plain += c;
    }
  }
  flush();
  if (out.tokens.size() > kTokens) return bad("a name of the pattern has too many parts");
  return parsers::done();
}

Result<JobTemplate> JobTemplate::parse(std::string_view text) {
  if (!text.starts_with('/')) return bad("the pattern '" + std::string(text) + "' is no absolute path", "begin it with '/'");
  if (text.ends_with('/')) return bad("the pattern '" + std::string(text) + "' names a folder", "end it with /** for all files in it");
  JobTemplate out;
  out.text_ = std::string(text);
  for (const std::string_view part : names_of(text)) {
    Component component;
    TRIAGE_CHECK(parse_component(part, component));
    if (component.folders && !out.components_.empty() && out.components_.back().folders) continue;
    out.components_.push_back(std::move(component));
  }
  if (out.components_.size() > kComponents) return bad("the pattern has more than " + std::to_string(kComponents) + " parts");
  if (out.components_.empty()) return bad("the pattern is empty");
  if (out.components_.back().folders) out.components_.push_back({false, {{Token::What::any, {}, Field::ignored, false}}});
  return out;
}

JobTemplate::Positions JobTemplate::closure(Positions at) const {
  for (std::size_t i = 0; i < components_.size(); ++i)
    if (((at >> i) & 1) && components_[i].folders) at |= Positions{1} << (i + 1);
  return at;
}

JobTemplate::Positions JobTemplate::next(Positions from, std::string_view name) const {
  Positions out = 0;
  for (std::size_t i = 0; i < components_.size(); ++i) {
    if (!((from >> i) & 1)) continue;
    if (components_[i].folders) {
      if (!name.starts_with('.')) out |= Positions{1} << i;
    } else if (matches(components_[i], name, nullptr)) {
      out |= Positions{1} << (i + 1);
    }
  }
  return closure(out);
}

JobTemplate::Next JobTemplate::next_names(Positions at) const {
  Next out;
  for (std::size_t i = 0; i < components_.size(); ++i) {
    if (!((at >> i) & 1)) continue;
    if (components_[i].fixed())
      out.fixed.push_back(components_[i].tokens.front().text);
    else
      out.wild = true;
  }
  return out;
}

// Which tails of the tokens match which tails of the name, from the back; then the way forward, each wild card as long as it may be.
bool JobTemplate::matches(const Component& component, std::string_view name, FieldValues* values) {
  const std::vector<Token>& tokens = component.tokens;
  if (name.empty() || name.size() > kNameBytes) return false;
  if (component.fixed()) return name == tokens.front().text;
  if (name.starts_with('.') && !(tokens.front().what == Token::What::text && tokens.front().text.starts_with('.'))) return false;
  if (tokens.front().what == Token::What::text && !name.starts_with(tokens.front().text)) return false;
  if (tokens.back().what == Token::What::text && !name.ends_with(tokens.back().text)) return false;
  const std::size_t width = name.size() + 1;
  std::vector<char> ok((tokens.size() + 1) * width, 0);
  ok[tokens.size() * width + name.size()] = 1;
  const auto longest = [&](const Token& token, std::size_t from) {   // bytes that a wild card or a field may take
    std::size_t to = from;
    while (to < name.size() && (!token.digits || parsers::is_digit(name[to]))) ++to;
    return to - from;
  };
  for (std::size_t t = tokens.size(); t-- > 0;) {
    const Token& token = tokens[t];
    const char* const after = ok.data() + (t + 1) * width;
    char* const here = ok.data() + t * width;
    for (std::size_t p = 0; p <= name.size(); ++p) {
      switch (token.what) {
        case Token::What::text: here[p] = name.substr(p).starts_with(token.text) && after[p + token.text.size()]; break;
        case Token::What::one: here[p] = p < name.size() && after[p + 1]; break;
        case Token::What::set: here[p] = p < name.size() && in_set(token.text, name[p]) && after[p + 1]; break;
        case Token::What::any:
        case Token::What::field: {
          const std::size_t most = longest(token, p);
          for (std::size_t n = token.what == Token::What::any ? 0 : 1; n <= most && !here[p]; ++n) here[p] = after[p + n];
        }
      }
    }
  }
  if (!ok[0]) return false;
  if (!values) return true;
  std::size_t p = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const Token& token = tokens[t];
    const char* const after = ok.data() + (t + 1) * width;
    std::size_t n = token.what == Token::What::text ? token.text.size() : 1;
    if (token.what == Token::What::any || token.what == Token::What::field) {
      n = longest(token, p);
      while (n > 0 && !after[p + n]) --n;
    }
    if (token.what == Token::What::field && token.field != Field::ignored) {
      std::string& value = at(*values, token.field);
      const std::string_view found = name.substr(p, n);
      if (!value.empty() && value != found) return false;
      value = std::string(found);
    }
    p += n;
  }
  return true;
}

// The wild cards over folders as short as they may be: the classical way with one place to come back to.
std::optional<FieldValues> JobTemplate::match(std::string_view path) const {
  const std::vector<std::string_view> names = names_of(path);
  FieldValues values, values_there;
  std::size_t c = 0, n = 0;
  std::size_t back_c = components_.size(), back_n = 0;
  while (n < names.size()) {
    if (c < components_.size() && components_[c].folders) {
      back_c = c++;
      back_n = n;
      values_there = values;
      continue;
    }
    if (c < components_.size() && matches(components_[c], names[n], &values)) {
      ++c;
      ++n;
      continue;
    }
    if (back_c == components_.size() || names[back_n].starts_with('.')) return std::nullopt;
    c = back_c + 1;
    n = ++back_n;
    values = values_there;
  }
  while (c < components_.size() && components_[c].folders) ++c;
  if (c < components_.size()) return std::nullopt;
  return values;
}

bool JobTemplate::numbers_files() const {
  const std::vector<Token>& tokens = components_.back().tokens;
  return std::any_of(tokens.begin(), tokens.end(), [](const Token& token) { return token.what == Token::What::field && token.digits; });
}

std::string JobTemplate::root() const {
  std::string out;
  for (std::size_t i = 0; i + 1 < components_.size() && components_[i].fixed(); ++i) out += "/" + components_[i].tokens.front().text;
  return out.empty() ? "/" : out;
}

namespace {

std::optional<int> number_of(const std::string& text) {
  const auto value = parsers::read_integer(text);
  if (!value || *value < 0 || *value >= parsers::limits::kRanks) return std::nullopt;
  return static_cast<int>(*value);
}

// What a job's pods have in common: without the replica's role and number (Kubeflow's job-worker-3) and without the random end that
// the Job and JobSet controllers add (job-0-x7k2p).
std::string job_of_pod(std::string_view pod) {
  const auto last_part = [&pod] { return pod.substr(pod.rfind('-') + 1); };
  const auto drop = [&pod] { pod = pod.substr(0, pod.rfind('-')); };
  const auto digits = [](std::string_view part) { return !part.empty() && std::all_of(part.begin(), part.end(), parsers::is_digit); };
  if (pod.find('-') == std::string_view::npos) return std::string(pod);
  const std::string_view end = last_part();
  // apimachinery's rand.String: 5 of "bcdfghjklmnpqrstvwxz2456789".
  const bool random = end.size() == 5 && end.find_first_not_of("bcdfghjklmnpqrstvwxz2456789") == std::string_view::npos;
  if (random && !digits(end)) drop();
  while (pod.find('-') != std::string_view::npos && digits(last_part())) drop();
  for (const std::string_view role : {"master", "worker", "launcher", "chief", "replica", "node"})
    if (pod.size() > role.size() + 1 && last_part() == role) {
      drop();
      break;
    }
  return std::string(pod);
}

}  // namespace

signatures::SourceInfo template_source(const std::string& path, const FieldValues& values) {
  signatures::SourceInfo out = source_info(path);
  if (const std::string& pod = at(values, Field::pod); !pod.empty()) {
    out.node = pod;
    out.job = job_of_pod(pod);
    if (const std::string& space = at(values, Field::name_space); !space.empty()) out.job = space + "/" + out.job;
    out.rank.reset();        // numbers of a pod's name are those of the pod
    out.local_rank.reset();
  }
  if (const std::string& job = at(values, Field::job); !job.empty())
    out.job = job.substr(0, job.find('.') == std::string::npos || !parsers::is_digit(job[0]) ? job.size() : job.find('.'));   // %J: 128.0
  else if (const std::string& array = at(values, Field::array_job); !array.empty())
    out.job = at(values, Field::array_task).empty() ? array : array + "_" + at(values, Field::array_task);
  else if (const std::string& name = at(values, Field::job_name); !name.empty())
    out.job = name;
  if (const std::string& node = at(values, Field::node); !node.empty()) out.node = node;
  if (const auto rank = number_of(at(values, Field::rank))) out.rank = rank;
  if (const auto rank = number_of(at(values, Field::local_rank))) out.local_rank = rank;
  if (const auto attempt = number_of(at(values, Field::attempt))) out.attempt = attempt;
  return out;
}

}  // namespace triage::daemon
