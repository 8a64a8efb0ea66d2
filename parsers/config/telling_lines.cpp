// Single lines that any program may print: the allocator's setting, PyTorch's version, the card,
// the number of processes. Sources: torch.utils.collect_env, DeepSpeed's ds_report, nvidia-smi -L,
// Lightning (pytorch_lightning/utilities/rank_zero, trainer/setup), accelerate env, unsloth's
// banner, transformers' and LLaMA-Factory's notes on gradient checkpointing, PEFT's
// print_trainable_parameters.
#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/line_facts.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kTriggers[] = {
    "ALLOC_CONF=",
    "ALLOC_CONF':",
    "ALLOC_CONF\":",
    "ALLOC_CONF: ",  // the OOM text's advice is told apart below
    "PyTorch version",
    "torch version ...",
    "CUDA device ('",
    "(UUID: GPU-",
    "Num processes: ",
    "distributed: GLOBAL_RANK: ",
    "Max memory: ",
    "trainable params: ",
    "Gradient checkpointing enabled",
    "gradient checkpointing enabled",
    "World size: ",
    "world size: ",
    "WORLD_SIZE=",
    " alloc_conf ",
    " layers="};

class TellingLines final : public LineReader {
 public:
  std::string_view name() const override { return "environment"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }

 protected:
  void read(std::string_view message, const Record&) override {
    alloc_conf_ = {};
    if (contains(message, "ALLOC_CONF")) allocator(message);
    if (const std::string_view rest = after_mark(message, "PyTorch version"); !rest.empty())
      version(rest);
    else if (const std::string_view dots = after_mark(message, "torch version ..."); !dots.empty())
      version(dots);
    if (const std::string_view rest = after_mark(message, "CUDA device ('");
        !rest.empty() && contains(rest, "')"))
      key(Key::gpu, rest.substr(0, rest.find("')")));
    if (contains(message, "(UUID: GPU-") && contains(message, "GPU 0: ")) {
      const std::string_view rest = after_mark(message, "GPU 0: ");
      key(Key::gpu, trim(rest.substr(0, rest.find("(UUID"))));
    }
    if (const std::string count = number_after(message, "Num processes: "); !count.empty())
      key(Key::world, count);
    if (contains(message,
                 "GLOBAL_RANK: ")) {  // Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8
      const std::string_view member = after_mark(message, ", MEMBER: ");
      const std::string world = number_after(member, "/");
      if (!world.empty()) key(Key::world, world), framework("lightning");
    }
    if (const std::string_view rest = after_mark(message, "Max memory: ");
        !rest.empty()) {  // unsloth: "Max memory: 39.564 GB"
      if (const auto unit = rest.find("GB"); unit != std::string_view::npos && unit < 12)
        if (const auto bytes = read_bytes(rest.substr(0, unit + 2)))
          key(Key::gpu_capacity_bytes, std::to_string(bytes->count()));
    }
    if (contains(message, "trainable params: ") && contains(message, "all params: ")) {
      key(Key::trainable_parameters, number_after(message, "trainable params: "));
      key(Key::parameters, number_after(message, "all params: "));
    }
    if (contains(message, "radient checkpointing enabled")) key(Key::recompute, "full");
    for (const std::string_view mark : {"World size: ", "world size: ", "WORLD_SIZE="})
      if (const std::string count = number_after(message, mark);
          !count.empty() && !contains(message, "data-parallel"))
        key(Key::world, count);
    if (contains(message, " layers=")) pairs(message);
    if (const std::string_view conf = after_mark(message, " alloc_conf "); !conf.empty()) {
      if (contains(message, " torch ")) version(after_mark(message, " torch "));
      if (const std::string_view value = conf.substr(0, conf.find(' ')); contains(value, ":"))
        alloc_conf_ = std::string(value), raw("PYTORCH_CUDA_ALLOC_CONF", value);
    }
  }

  void after(Target& target) override {
    if (!alloc_conf_.empty()) apply_alloc_conf(alloc_conf_, line(), target);
    alloc_conf_.clear();
  }

 private:
  // "model: llama layers=16 hidden=4096 vocab=128256 parameters=4.540B dtype=bfloat16": a script's
  // own summary; two known names at least
  void pairs(std::string_view message) {
    static constexpr NameRow kNames[] = {{"layers", Key::layers},
                                         {"hidden", Key::hidden},
                                         {"hidden_size", Key::hidden},
                                         {"heads", Key::heads},
                                         {"vocab", Key::vocab},
                                         {"vocab_size", Key::vocab},
                                         {"experts", Key::experts},
                                         {"topk", Key::experts_per_token},
                                         {"dtype", Key::dtype, How::dtype},
                                         {"parameters", Key::parameters},
                                         {"params", Key::parameters}};
    std::vector<std::pair<Key, std::string>> found;
    for (const std::string_view word : split(message, ' ')) {
      const auto equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      std::string_view value = word.substr(equals + 1);
      while (!value.empty() && (value.back() == ',' || value.back() == ')')) value.remove_suffix(1);
      for (const NameRow& row : kNames) {
        if (row.name != word.substr(0, equals)) continue;
        if (row.how == How::dtype)
          found.emplace_back(row.key, dtype_name(value));
        else if (row.key == Key::parameters)
          found.emplace_back(row.key, amount(value));
        else if (read_integer(value))
          found.emplace_back(row.key, value);
      }
    }
    if (found.size() < 2) return;
    for (const auto& [key_of, text] : found)
      if (!text.empty()) key(key_of, text);
  }

  // "4.540B", "350M", "8030261248"
  static std::string amount(std::string_view text) {
    double unit = 1;
    if (!text.empty() && (text.back() == 'B' || text.back() == 'b'))
      unit = 1e9;
    else if (!text.empty() && (text.back() == 'M' || text.back() == 'm'))
      unit = 1e6;
    if (unit > 1) text.remove_suffix(1);
    const auto number = read_double(text);
    if (!number || !(*number > 0) || *number * unit > 9e15) return {};
    return std::to_string(static_cast<std::int64_t>(*number * unit + 0.5));
  }

  void version(std::string_view rest) {
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == '.' || rest.front() == ':'))
      rest.remove_prefix(1);
    const std::string_view value = rest.substr(0, rest.find_first_of(" ,\t)"));
    if (!value.empty() && is_digit(value.front())) key(Key::torch_version, value);
  }

  // "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "'PYTORCH_CUDA_ALLOC_CONF':
  // 'max_split_size_mb:512'"; not
  // "... try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation".
  void allocator(std::string_view message) {
    const auto at = message.find("ALLOC_CONF");
    const std::string_view before = message.substr(0, at);
    if (contains(before, "setting ") || contains(before, "ocumentation") ||
        contains(before, "out of memory") || contains(before, "try "))
      return;
    std::string_view rest = message.substr(at + 10);
    while (!rest.empty() && (rest.front() == '=' || rest.front() == ':' || rest.front() == '\'' ||
                             rest.front() == '"' || rest.front() == ' '))
      rest.remove_prefix(1);
    std::string_view value = rest.substr(0, rest.find_first_of(" '\";\t)}"));
    while (!value.empty() && value.back() == ',') value.remove_suffix(1);
    if (value.find(':') == std::string_view::npos) return;
    alloc_conf_ = std::string(value);
    raw("PYTORCH_CUDA_ALLOC_CONF", value);
  }

  std::string alloc_conf_;
};

}  // namespace

void apply_alloc_conf(std::string_view value, std::uint64_t line, Target& target) {
  if (is_none(value)) return;
  target.put(Key::alloc_conf, std::string(value), line);
  const std::string_view flag = after_mark(value, "expandable_segments:");
  if (!flag.empty())
    target.put_text(Key::expandable_segments, flag.substr(0, flag.find_first_of(", ")), line);
}

std::unique_ptr<ConfigReader> make_telling_lines_reader() {
  return std::make_unique<TellingLines>();
}

}  // namespace triage::parsers
