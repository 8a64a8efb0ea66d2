#include "parsers/records/launcher_prefix.hpp"

#include <algorithm>
#include <array>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kLongestPrefix = 300;

std::optional<int> take_rank(std::string_view& text) {
  std::string_view rest = text;
  const auto number = take_integer(rest);
  if (!number || *number >= limits::kRanks) return std::nullopt;
  text = rest;
  return static_cast<int>(*number);
}

std::optional<int> whole_rank(std::string_view text) {
  const auto number = take_rank(text);
  return text.empty() ? number : std::nullopt;
}

// Some versions of a launcher put a blank behind their prefix, some do not. Python indents by even numbers of blanks, so an odd
// number has one of the launcher's.
void drop_odd_blank(std::string_view& text) {
  std::size_t blanks = 0;
  while (blanks < text.size() && text[blanks] == ' ') ++blanks;
  if (blanks % 2 == 1) text.remove_prefix(1);
}

bool is_host_text(std::string_view text) {
  return !text.empty() && text.size() <= 253 &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '-' || c == '.' || c == '_'; });
}

bool is_ipv4(std::string_view text) {
  int parts = 0;
  for (;; ++parts) {
    const auto part = take_integer(text);
    if (!part || *part > 255) return false;
    if (text.empty()) return parts == 3;
    if (parts == 3 || !consume(text, ".")) return false;
  }
}

// Names of machines: a known stem and a number ("gpu004", "node-3", "dgx01.cluster"). "gpu0:" is a device, "gpu004:" a machine.
bool is_host_name(std::string_view text) {
  if (is_ipv4(text)) return true;
  if (!is_host_text(text) || !is_alpha(text[0])) return false;
  std::size_t stem_end = 0;
  while (stem_end < text.size() && is_alpha(text[stem_end])) ++stem_end;
  const std::string_view stem = text.substr(0, stem_end);
  std::string_view rest = text.substr(stem_end);
  consume(rest, "-");
  std::size_t digits = 0;
  while (digits < rest.size() && is_digit(rest[digits])) ++digits;
  if (digits == 0) return false;
  constexpr std::array<std::string_view, 20> kStems = {"node", "gpunode", "worker", "host", "server", "compute", "dgx", "hgx", "nid", "cn",
                                                       "pod", "ip", "master", "slave", "gnode", "hpc", "cnode", "trainer", "machine", "rack"};
  if (std::find(kStems.begin(), kStems.end(), stem) != kStems.end()) return true;
  return (stem == "gpu" || stem == "g" || stem == "c" || stem == "n" || stem == "h" || stem == "a") && digits >= 2 &&
         (rest[0] == '0' || digits >= 3 || rest.substr(digits).starts_with("-"));
}

// "[rank3]:", "[default7]:", "[3]:", "[rank3][W1203 ...": torch's except hook and its loggers print "[rank3]:", torchrun
// "[ROLE LOCALRANK]:" (torch/distributed/elastic/multiprocessing/tail_log.py). "[3]:" alone is a row of the failure table.
bool role_bracket(std::string_view& text, std::string_view inside, std::string_view after, Record& record) {
  std::string_view number = inside;
  if (consume(number, "rank")) {
    const auto rank = whole_rank(number);
    if (!rank) return false;
    if (after.starts_with(":")) {
      after.remove_prefix(1);
      consume(after, " ");
    } else if (!consume(after, " ") && !after.starts_with("[")) {
      return false;
    }
    record.rank = *rank;
    text = after;
    return true;
  }
  if (!consume(after, ":")) return false;
  for (std::string_view role : {"default", "trainer", "worker", "agent", "role", "train", "learner", "actor"})
    if (consume(number, role)) break;
  const auto local = whole_rank(number);
  if (!local || (number.size() == inside.size() && trim(after).empty())) return false;
  record.local_rank = *local;
  drop_odd_blank(after);
  text = after;
  return true;
}

// Open MPI: "[1,3]<stderr>:text"; SageMaker's "[1,mpirank:3,algo-1]<stderr>:text".
bool mpirun_bracket(std::string_view& text, std::string_view inside, std::string_view after, Record& record) {
  if (!take_integer(inside) || !consume(inside, ",")) return false;
  consume(inside, "mpirank:");
  const auto task = take_rank(inside);
  std::string_view host;
  if (consume(inside, ",")) {
    host = inside;
    inside = {};
  }
  if (!task || !inside.empty() || (!host.empty() && !is_host_text(host))) return false;
  const bool channel = consume(after, "<stderr>") || consume(after, "<stdout>") || consume(after, "<stddiag>");
  if (!channel || !consume(after, ":")) return false;
  record.task = *task;
  if (!host.empty()) record.node = host;
  drop_odd_blank(after);
  text = after;
  return true;
}

// "[node01:3] text" (host and local rank), "[node01:12345] *** Process received signal ***" (Open MPI: host and pid, five digits).
bool host_bracket(std::string_view& text, std::string_view inside, std::string_view after, Record& record) {
  const std::size_t colon = inside.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = inside.substr(0, colon), digits = inside.substr(colon + 1);
  const auto number = read_integer(digits);
  if (!number || *number < 0 || !is_digit(digits[0]) || !is_host_text(host)) return false;
  for (std::string_view code : {".py", ".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".go", ".rs", ".java", ".cxx"})
    if (host.ends_with(code)) return false;
  const bool named = host == "localhost" || host.find_first_of("0123456789") != std::string_view::npos ||
                     host.find('-') != std::string_view::npos;
  if (!named || host.starts_with("rank") || is_digit(host[0])) return false;
  consume(after, ":");
  if (!after.empty() && !consume(after, " ")) return false;
  record.node = host;
  if (*number >= 1000 || digits.size() >= 5)
    record.pid = *number;
  else
    record.local_rank = static_cast<int>(*number);
  text = after;
  return true;
}

// kubectl logs --prefix: "[pod/name/container] text".
bool pod_bracket(std::string_view& text, std::string_view inside, std::string_view after, Record& record) {
  if (!consume(inside, "pod/") || !(after.empty() || consume(after, " "))) return false;
  const std::string_view name = inside.substr(0, inside.find('/'));
  if (!is_host_text(name)) return false;
  record.node = name;
  text = after;
  return true;
}

// "[3] text" of MPICH's and Intel MPI's -prepend-rank could be any list: taken only before what begins a crash report.
bool number_bracket(std::string_view& text, std::string_view inside, std::string_view after, Record& record) {
  const auto task = whole_rank(inside);
  if (!task || !consume(after, " ") || record.task) return false;
  if (!starts_with_any(after, {"Traceback (most recent", "  File \"", "Fatal Python error", "terminate called", "[rank"})) return false;
  record.task = *task;
  text = after;
  return true;
}

bool brackets(std::string_view& text, Record& record) {
  const std::size_t close = text.substr(0, kLongestPrefix).find(']');
  if (close == std::string_view::npos || close < 2) return false;
  const std::string_view inside = text.substr(1, close - 1), after = text.substr(close + 1);
  return role_bracket(text, inside, after, record) || mpirun_bracket(text, inside, after, record) ||
         pod_bracket(text, inside, after, record) || host_bracket(text, inside, after, record) ||
         number_bracket(text, inside, after, record);
}

// "(Worker pid=12, ip=10.0.0.1) ", "(pid=12) ", "(raylet) ", "(VllmWorker rank=0 pid=12) ", "(autoscaler +5s) ", "(worker_7) : ".
// Sources: ray python/ray/_private/worker.py (print_worker_logs), vllm/utils (_add_prefix).
bool parentheses(std::string_view& text, Record& record) {
  std::size_t depth = 0, close = 0;
  for (std::size_t i = 0; i < text.size() && i < kLongestPrefix; ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) {
      close = i;
      break;
    }
  }
  if (close < 2) return false;
  const std::string_view inside = text.substr(1, close - 1);
  std::string_view after = text.substr(close + 1);
  consume(after, "[0m");
  if (!after.empty() && !consume(after, " ")) return false;
  std::string_view own = inside;
  if (consume(own, "worker_") || consume(own, "rank_") || consume(own, "rank=") || consume(own, "rank ")) {
    const auto rank = whole_rank(own);
    if (!rank) return false;
    record.rank = *rank;
    consume(after, ": ");
    text = after;
    return true;
  }

  const std::size_t pid_at = inside.find("pid=");
  if (pid_at == std::string_view::npos || (pid_at != 0 && inside[pid_at - 1] != ' ')) {
    const std::string_view name = inside.substr(0, inside.find_first_of(", "));
    if (name != "raylet" && name != "autoscaler" && name != "gcs_server") return false;
    record.actor = name;
  } else {
    std::string_view digits = inside.substr(pid_at + 4);
    const auto pid = take_integer(digits);
    if (!pid) return false;
    record.pid = *pid;
    std::string_view name = trim(inside.substr(0, pid_at));
    const std::size_t rank_at = name.find("rank=");
    if (rank_at != std::string_view::npos) {
      std::string_view number = name.substr(rank_at + 5);
      if (const auto rank = take_rank(number)) record.rank = *rank;
      name = trim(name.substr(0, rank_at));
    }
    record.actor = name;
  }
  const std::size_t ip_at = inside.find("ip=");
  if (ip_at != std::string_view::npos) {
    const std::string_view address = inside.substr(ip_at + 3);
    record.node = address.substr(0, address.find_first_of(", )"));
  }
  text = after;
  return true;
}

// A colour code whose ESC was lost on the way: "[36m(Actor pid=12)[0m text".
bool bare_color(std::string_view& text) {
  std::size_t i = 1;
  while (i < text.size() && i < 12 && (is_digit(text[i]) || text[i] == ';')) ++i;
  if (i < 2 || i + 1 >= text.size() || text[i] != 'm' || (text[i + 1] != '(' && text[i + 1] != '[')) return false;
  text.remove_prefix(i + 1);
  return true;
}

// srun -l: the task's number, padded to the width of the largest, and ": ".
bool task_number(std::string_view& text, Record& record) {
  std::size_t blanks = 0;
  while (blanks < text.size() && blanks < 4 && text[blanks] == ' ') ++blanks;
  std::string_view rest = text.substr(blanks);
  const std::size_t before = rest.size();
  const auto task = take_rank(rest);
  if (!task || record.task || blanks > 3 || blanks + before - rest.size() > 6) return false;
  if (rest == ":") {
    rest.remove_prefix(1);
  } else if (!consume(rest, ": ")) {
    return false;
  }
  // "404: Not Found" is an answer of a server; a dump of a list or table ("  0: 12") has nothing but a number behind it.
  if (*task >= 100 && *task < 600 &&
      starts_with_any(rest, {"OK", "Created", "Accepted", "Not ", "Bad ", "Unauthorized", "Forbidden", "Internal Server", "Service Unav",
                             "Too Many", "Moved", "Found", "Gateway", "Conflict", "Request", "Method"}))
    return false;
  if (blanks > 0 && read_double(trim(rest))) return false;
  record.task = *task;
  text = rest;
  return true;
}

// docker-compose: "worker-1  | text"; SageMaker's local mode: "algo-1-k3x2a  | text".
bool compose(std::string_view& text, Record& record) {
  std::size_t end = 0;
  while (end < text.size() && end < 80 && (is_alnum(text[end]) || text[end] == '-' || text[end] == '_' || text[end] == '.')) ++end;
  if (end < 3) return false;
  if (!text.starts_with("algo-")) {
    std::size_t name_end = end;
    while (name_end > 0 && is_digit(text[name_end - 1])) --name_end;
    if (name_end == end || name_end < 2 || (text[name_end - 1] != '-' && text[name_end - 1] != '_')) return false;
  }
  std::size_t bar = end;
  while (bar < text.size() && bar < end + 40 && text[bar] == ' ') ++bar;
  if (bar == end || bar >= text.size() || text[bar] != '|') return false;
  std::string_view rest = text.substr(bar + 1);
  if (!rest.empty() && !consume(rest, " ")) return false;
  record.node = text.substr(0, end);
  text = rest;
  return true;
}

// "pod/name container text" and stern's "name-worker-0 pytorch text".
bool pod_words(std::string_view& text, Record& record) {
  std::string_view rest = text;
  const bool marked = consume(rest, "pod/");
  const std::size_t space = rest.substr(0, 254).find(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view pod = rest.substr(0, space);
  rest = rest.substr(space + 1);
  const std::size_t end = rest.substr(0, 64).find(' ');
  const std::string_view container = rest.substr(0, end);
  if (!is_host_text(pod) || !is_host_text(container)) return false;
  if (!marked) {
    constexpr std::array<std::string_view, 9> kContainers = {"pytorch", "tensorflow", "mpi", "launcher", "ray-worker", "ray-head", "trainer",
                                                             "jax", "main"};
    if (std::find(kContainers.begin(), kContainers.end(), container) == kContainers.end()) return false;
    if (!contains(pod, "-worker-") && !contains(pod, "-master-") && !contains(pod, "-launcher") && !contains(pod, "-head-")) return false;
  }
  record.node = pod;
  text = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return true;
}

bool host_colon(std::string_view& text, Record& record) {
  const std::size_t colon = text.substr(0, 254).find(':');
  if (colon == std::string_view::npos || colon < 2 || !record.node.empty()) return false;
  std::string_view after = text.substr(colon + 1);
  if (!after.empty() && !consume(after, " ")) return false;
  const std::string_view host = text.substr(0, colon);
  // Any name that could be a machine's counts before what a program prints at the start of its line.
  const bool plain = is_host_text(host) && host.find_first_of("0123456789-") != std::string_view::npos && !host.starts_with("rank");
  if (!is_host_name(host) && !(plain && starts_with_any(after, {"[20", "[rank", "[default", "Traceback (most", "  File \""}))) return false;
  record.node = host;
  text = after;
  return true;
}

// torchx and NeMo-Run: "role/replica [default0]:text".
bool torchx(std::string_view& text, Record& record) {
  const std::size_t slash = text.substr(0, 120).find('/');
  if (slash == std::string_view::npos || slash == 0 || !is_host_text(text.substr(0, slash))) return false;
  std::string_view rest = text.substr(slash + 1);
  if (!take_integer(rest)) return false;
  const std::size_t length = text.size() - rest.size();
  if (!consume(rest, " ") || !starts_with_any(rest, {"[default", "[rank", "[NeMo ", "I0", "I1", "W0", "W1", "E0", "E1", "Traceback (most", "  File \""})) return false;
  record.actor = text.substr(0, length);
  text = rest;
  return true;
}

// voir and milabench: "bench.node [stderr] text".
bool stream_word(std::string_view& text, Record& record) {
  const std::size_t space = text.substr(0, 120).find(' ');
  if (space == std::string_view::npos || !is_host_text(text.substr(0, space))) return false;
  std::string_view rest = text.substr(space + 1);
  if (!consume(rest, "[stderr] ") && !consume(rest, "[stdout] ")) return false;
  record.actor = text.substr(0, space);
  text = rest;
  return true;
}

// tqdm prints no newline before another process's line: "  9%|#  | 9/100 [00:09<01:30, 1.00it/s][rank3]: text".
bool progress_bar(std::string_view& text) {
  const std::string_view head = text.substr(0, 400);
  const std::size_t percent = head.find("%|");
  if (percent == std::string_view::npos) return false;
  for (std::string_view next : {"][rank", "][default"}) {
    const std::size_t at = head.find(next, percent);
    if (at == std::string_view::npos) continue;
    text.remove_prefix(at + 1);
    return true;
  }
  return false;
}

}  // namespace

bool peel_launcher(std::string_view& text, Record& record) {
  if (text.empty()) return false;
  const char c = text[0];
  if (c == '[') return bare_color(text) || brackets(text, record);
  if (c == '(') return parentheses(text, record);
  if (c == ' ') return task_number(text, record) || progress_bar(text);
  if (is_digit(c)) return task_number(text, record) || host_colon(text, record) || progress_bar(text);
  if (!is_alpha(c)) return false;
  if (consume(text, "stderr: ") || consume(text, "stdout: ")) return true;
  return host_colon(text, record) || compose(text, record) || torchx(text, record) || pod_words(text, record) || stream_word(text, record) ||
         progress_bar(text);
}

}  // namespace triage::parsers
