#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <map>

#include "tests/corpus/mutate.hpp"

namespace triage::tests {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

Mutated one(std::string text, std::size_t portion = 0) { return {{{"train.log", std::move(text), portion}}, {}, {}}; }

using Change = std::string (*)(std::string_view line, std::size_t number);

Mutated each_line(const Original& original, Change change) {
  std::string out;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(original.text)) out += change(line, number++) + '\n';
  return one(std::move(out));
}

bool has_state_bars(const Original& original) { return original.text.find('\r') != std::string::npos; }

// Does the log carry container or launcher prefixes of its own, so that another one around it would be no log of any program?
bool wrapped(const Original& original) {
  const auto lines = lines_of(original.text);
  std::size_t with = 0;
  for (const std::string_view line : lines)
    with += line.starts_with("{") || line.find(" stdout F ") < 48 || line.find(" stderr F ") < 48 || line.find(" kernel: ") < 64 || line.starts_with("<");
  return with * 2 > lines.size();
}

// Kernel, scheduler and journal lines do not come out of a training process.
bool system_log(const Original& original) {
  const auto lines = lines_of(original.text);
  std::size_t with = 0;
  for (const std::string_view line : lines)
    with += line.find("kernel:") != std::string_view::npos || line.find("NVRM") != std::string_view::npos || line.find("oom-kill") != std::string_view::npos || line.starts_with("[ ") ||
            (line.size() > 8 && line[0] == '[' && std::isdigit(static_cast<unsigned char>(line[1])) && line.find('.') < 12 && line.find("] ") < 24);
  return with * 2 > lines.size() || wrapped(original);
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string clock_text(std::size_t number, const char* form) {
  char out[64];
  const unsigned long seconds = number / 50;   // 20 ms a line
  std::snprintf(out, sizeof out, form, (9 + seconds / 3600) % 24, seconds / 60 % 60, seconds % 60, number % 50 * 20);
  return out;
}

constexpr std::array<std::string_view, 8> kOther = {
    "INFO:megatron.core.datasets.gpt_dataset:> total number of samples: 104117",
    "building GPT model ...",
    "/usr/lib/python3/dist-packages/torch/nn/modules/module.py:1762: FutureWarning: Using a non-full backward hook is deprecated.",
    "Loading checkpoint shards: 75%|#######   | 3/4 [00:03<00:01,  1.01s/it]",
    "gpu-node-01:4410:4522 [1] NCCL INFO Connected all rings",
    "[W socket.cpp:663] [c10d] The client socket has failed to connect to [localhost]:6000 (errno: 99 - Cannot assign requested address).",
    " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1752760320",
    "wandb: Tracking run with wandb version 0.18.7"};

std::optional<Mutated> between(const Original& original) {
  if (original.root_line == 0 || original.numbered || has_state_bars(original) || system_log(original)) return {};
  for (std::string_view prefix : {"[default", "[1,", "(pid=", " pid=", "[rank"})
    if (original.text.find(prefix) != std::string::npos) return {};
  std::string out;
  std::uint64_t number = 0;
  for (const std::string_view line : lines_of(original.text)) {
    out += "[default0]:" + std::string(line) + '\n';
    if (++number < original.root_line && number % 2 == 0) out += "[default1]:" + std::string(kOther[number / 2 % kOther.size()]) + '\n';
  }
  return one(std::move(out));
}

// [rank3] -> [rank19]; only where a log names its ranks in no other way.
std::optional<Mutated> renumbered(const Original& original) {
  constexpr int kShift = 16;
  if (original.text.find("[rank") == std::string::npos) return {};
  for (std::string_view other : {"Rank ", "rank ", "rank=", "rank:", "local_rank", "RANK", "[default", "world_size"})
    if (original.text.find(other) != std::string::npos) return {};
  std::string out;
  std::string_view rest = original.text;
  while (true) {
    const std::size_t at = rest.find("[rank");
    out += rest.substr(0, std::min(at, rest.size()));
    if (at == std::string_view::npos) break;
    rest.remove_prefix(at + 5);
    int rank = 0;
    std::size_t digits = 0;
    while (digits < rest.size() && digits < 5 && std::isdigit(static_cast<unsigned char>(rest[digits]))) rank = rank * 10 + (rest[digits++] - '0');
    out += "[rank" + (digits > 0 ? std::to_string(rank + kShift) : std::string());
    rest.remove_prefix(digits);
  }
  Mutated made = one(std::move(out));
  made.shift = kShift;
  return made;
}

// As PowerShell's redirection writes it.
std::optional<Mutated> utf16(const Original& o, std::string out) {
  for (const char c : o.text) {
    if (static_cast<unsigned char>(c) >= 0x80) return {};
    out += c;
    out += '\0';
  }
  return one(std::move(out));
}

std::optional<Mutated> lone_rank(const Original& original) {
  if (!original.alone || has_state_bars(original) || system_log(original)) return {};
  Mutated made = each_line(original, [](std::string_view line, std::size_t) { return "[rank5]: " + std::string(line); });
  made.lone = 5;
  return made;
}

std::optional<Mutated> lone_file(const Original& original) {
  if (!original.alone || system_log(original)) return {};
  Mutated made = one(original.text);
  made.sources[0].name = "logs/attempt_0/rank_3.log";
  made.lone = 3;
  return made;
}

// One file a rank, as with torchrun --log-dir. Lines without a prefix are the launcher's, and those of rank 0.
std::optional<Mutated> split_by_rank(const Original& original) {
  std::map<int, std::string> files;
  for (const std::string_view line : lines_of(original.text)) {
    int rank = 0;
    std::string_view rest = line;
    for (std::string_view head : {"[rank", "[default"}) {
      if (!line.starts_with(head)) continue;
      std::string_view number = line.substr(head.size());
      const std::size_t close = number.find("]:");
      if (close == std::string_view::npos || close == 0 || close > 4) continue;
      rank = std::atoi(std::string(number.substr(0, close)).c_str());
      if (head == "[default") rest = number.substr(close + 2);
    }
    files[rank] += std::string(rest) + '\n';
  }
  if (files.size() < 2) return {};
  Mutated made;
  for (auto& [rank, text] : files) made.sources.push_back({"logs/rank_" + std::to_string(rank) + ".log", std::move(text), 0});
  return made;
}

// One hour later: every HH:MM:SS, if none of them wraps over midnight.
std::optional<Mutated> hour_later(const Original& original) {
  std::string out = original.text;
  const auto digit = [&](std::size_t i) { return i < out.size() && std::isdigit(static_cast<unsigned char>(out[i])); };
  std::size_t changed = 0;
  for (std::size_t i = 0; i + 8 <= out.size(); ++i) {
    if (!(digit(i) && digit(i + 1) && out[i + 2] == ':' && digit(i + 3) && digit(i + 4) && out[i + 5] == ':' && digit(i + 6) && digit(i + 7))) continue;
    if (i > 0 && (digit(i - 1) || out[i - 1] == ':')) continue;
    if (digit(i + 8) || (i + 8 < out.size() && out[i + 8] == ':')) continue;
    const int hour = (out[i] - '0') * 10 + (out[i + 1] - '0');
    if (hour >= 23) return {};
    out[i] = static_cast<char>('0' + (hour + 1) / 10);
    out[i + 1] = static_cast<char>('0' + (hour + 1) % 10);
    ++changed;
    i += 7;
  }
  if (changed == 0) return {};
  return one(std::move(out));
}

std::optional<Mutated> cleaned_up(const Original& original) {
  if (system_log(original) || original.root_line == 0) return {};
  std::string out = original.text;
  if (!out.ends_with('\n')) out += '\n';
  out +=
      "/usr/lib/python3.11/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 12 leaked semaphore objects to clean up at shutdown\n"
      "  warnings.warn('resource_tracker: There appear to be %d '\n"
      "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
      "slurmstepd: error: *** STEP 4121.0 ON gpu-node-01 CANCELLED AT 2030-02-02T02:02:02 ***\n"
      "srun: error: gpu-node-02: tasks 8-15: Terminated\n"
      "srun: error: gpu-node-02: task 9: Exited with exit code 1\n"
      "wandb: Synced 5 W&B file(s), 0 media file(s), 0 artifact file(s) and 0 other file(s)\n"
      "wandb: Find logs at: ./wandb/run-20300202_020202-1a2b/logs\n";
  return one(std::move(out));
}

}  // namespace

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"chunks of 1 byte", [](const Original& o) { return o.text.size() > 60'000 ? std::optional<Mutated>() : one(o.text, 1); }},
      {"chunks of 37 bytes", [](const Original& o) { return std::optional(one(o.text, 37)); }},
      {"CRLF",
       [](const Original& o) { return std::optional(each_line(o, [](std::string_view line, std::size_t) { return std::string(line) + '\r'; })); }},
      {"no last line end",
       [](const Original& o) { return std::optional(one(o.text.ends_with('\n') ? o.text.substr(0, o.text.size() - 1) : o.text + '\n')); }},
      {"srun -l",
       [](const Original& o) {
         if (system_log(o) || o.numbered || has_state_bars(o)) return std::optional<Mutated>();
         return std::optional(each_line(o, [](std::string_view line, std::size_t) { return "0: " + std::string(line); }));
       }},
      {"kubectl --prefix",
       [](const Original& o) {
         if (system_log(o)) return std::optional<Mutated>();
         return std::optional(each_line(o, [](std::string_view line, std::size_t) { return "[pod/llama-sft-worker-0/pytorch] " + std::string(line); }));
       }},
      {"docker JSON",
       [](const Original& o) {
         if (system_log(o)) return std::optional<Mutated>();
         return std::optional(each_line(o, [](std::string_view line, std::size_t number) {
           return "{\"log\":" + json_text(std::string(line) + '\n') + ",\"stream\":\"stderr\",\"time\":\"2026-02-18T" + clock_text(number, "%02lu:%02lu:%02lu.%03lu456789Z") + "\"}";
         }));
       }},
      {"CRI",
       [](const Original& o) {
         if (system_log(o)) return std::optional<Mutated>();
         return std::optional(each_line(o, [](std::string_view line, std::size_t number) {
           return "2026-02-18T" + clock_text(number, "%02lu:%02lu:%02lu.%03lu949381+00:00") + " stderr F " + std::string(line);
         }));
       }},
      {"CRI, cut in parts",
       [](const Original& o) {
         if (system_log(o)) return std::optional<Mutated>();
         return std::optional(each_line(o, [](std::string_view line, std::size_t number) {
           std::string out;
           const std::string clock = "2026-02-18T" + clock_text(number, "%02lu:%02lu:%02lu.%03lu949381+00:00");
           while (line.size() > 90) {
             out += clock + " stderr P " + std::string(line.substr(0, 90)) + '\n';
             line.remove_prefix(90);
           }
           return out + clock + " stderr F " + std::string(line);
         }));
       }},
      {"clock before lines",
       [](const Original& o) {
         if (system_log(o)) return std::optional<Mutated>();
         return std::optional(each_line(o, [](std::string_view line, std::size_t number) { return "2026-02-18T" + clock_text(number, "%02lu:%02lu:%02lu.%03luZ ") + std::string(line); }));
       }},
      {"bracketed clock",
       [](const Original& o) {
         if (system_log(o)) return std::optional<Mutated>();
         return std::optional(each_line(o, [](std::string_view line, std::size_t number) { return "[2026-02-18 " + clock_text(number, "%02lu:%02lu:%02lu,%03lu] ") + std::string(line); }));
       }},
      {"colours",
       [](const Original& o) { return std::optional(each_line(o, [](std::string_view line, std::size_t) { return line.empty() ? std::string() : "\x1b[33m" + std::string(line) + "\x1b[0m"; })); }},
      {"UTF-16 with mark", [](const Original& o) { return utf16(o, "\xff\xfe"); }},
      {"UTF-16 without mark", [](const Original& o) { return utf16(o, ""); }},
      {"[rank5]: before lines", lone_rank},
      {"a file of rank 3", lone_file},
      {"other rank between", between},
      {"ranks renumbered", renumbered},
      {"a file a rank", split_by_rank},
      {"an hour later", hour_later},
      {"clean-up after it", cleaned_up},
  };
  return all;
}

}  // namespace triage::tests
