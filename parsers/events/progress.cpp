// Completed steps of training loops. Sources of the forms: NVIDIA/Megatron-LM megatron/training/training.py (training_log);
// NVIDIA-NeMo/Megatron-Bridge training/utils/train_utils.py; NVIDIA/NeMo lightning/pytorch/callbacks/progress_printer.py;
// Lightning-AI/pytorch-lightning TQDMProgressBar; deepspeedai/DeepSpeed runtime/engine.py, runtime/pipe/engine.py, utils/timer.py;
// pytorch/torchtitan components/metrics.py; huggingface/transformers trainer_callback.py; verl-project/verl utils/logger;
// AI-Hypercomputer/maxtext metric_logger.py; tqdm/tqdm std.py (format_meter); facebookresearch/fairseq logging/progress_bar.py
// (JsonProgressBar); open-mmlab/mmcv runner/hooks/logger/text.py; keras-team/keras utils/progbar.py.
#include "parsers/base/text.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/events/scan.hpp"

#include <array>
#include <cmath>
#include <string>

namespace triage::parsers {

namespace {

// The number behind a key and a ':' or '=', which may be quoted ('1.23', transformers 5) or wrapped (np.float64(1.2), tensor(1.2)).
std::optional<double> value_of(std::string_view text, std::string_view key) {
  Scan scan(text);
  while (scan.after(key)) {
    const auto before = scan.position() - key.size();
    if (before > 0 && is_word(text[before - 1]) && is_word(key.front())) continue;
    Scan at(scan);
    at.word("'") || at.word("\"");
    at.blanks();
    at.word(":") || at.word("=");
    at.blanks();
    at.word("'") || at.word("\"");
    for (const std::string_view wrap : {"np.float64(", "np.float32(", "np.int64(", "tensor("}) at.word(wrap);
    if (const auto value = at.number()) return value;
  }
  return std::nullopt;
}
std::optional<std::int64_t> integer_of(std::string_view text, std::string_view key) {
  const auto value = value_of(text, key);
  if (!value || !(std::fabs(*value) < 9e15)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

bool bad(const std::optional<double>& value) { return value && !std::isfinite(*value); }

// "iteration        5/      10 | ... | lm loss: 1.2E+01 | ... | number of nan iterations:   0 |"
std::optional<Progress> read_megatron(std::string_view message) {
  if (!contains(message, "elapsed time per iteration")) return std::nullopt;
  Scan scan(message);
  Progress out;
  out.printer = "megatron";
  if (!scan.after("iteration ")) return std::nullopt;
  out.iteration = scan.integer();
  scan.blanks();
  if (!out.iteration || !scan.word("/")) return std::nullopt;
  out.total = scan.integer();
  out.loss = value_of(message, "lm loss");
  if (!out.loss) out.loss = value_of(message, " loss");  // other tasks name theirs; "loss scale" has no number behind the word
  out.grad_norm = value_of(message, "grad norm");
  const auto ms = value_of(message, "elapsed time per iteration (ms)");
  if (ms) out.step_seconds = *ms / 1000;
  const auto nans = integer_of(message, "number of nan iterations");
  out.bad_number = bad(out.loss) || bad(out.grad_norm) || nans.value_or(0) > 0;
  return out;
}

// "Training epoch 0, iteration 3/9 | lr: 1e-05 | global_batch_size: 8 | global_step: 3 | reduced_train_loss: 10.9 | train_step_timing in s: 2.1"
std::optional<Progress> read_nemo(std::string_view message) {
  Scan scan(message);
  if (!scan.after("Training epoch ") || !scan.integer() || !scan.word(", iteration ")) return std::nullopt;
  Progress out;
  out.printer = "nemo";
  out.iteration = scan.integer();
  if (!out.iteration) return std::nullopt;
  if (scan.word("/")) out.total = scan.integer();
  if (const auto step = integer_of(message, "global_step")) out.iteration = step;
  out.loss = value_of(message, "reduced_train_loss");
  out.grad_norm = value_of(message, "grad_norm");
  out.step_seconds = value_of(message, "train_step_timing in s");
  return out;
}

// "[Rank 0] step=10, skipped=0, lr=[5e-05], mom=[...]"; step=0 is printed by the set-up.
std::optional<Progress> read_deepspeed(std::string_view message) {
  Progress out;
  out.printer = "deepspeed";
  if (contains(message, ", skipped=") && contains(message, "lr=")) {
    out.iteration = integer_of(message, "step");
  } else if (contains(message, "RunningAvgSamplesPerSec=")) {
    out.iteration = integer_of(message, "global_step");
  } else if (contains(message, "iter time (s)")) {
    out.iteration = integer_of(message, "steps");
    out.loss = value_of(message, "loss");
    out.step_seconds = value_of(message, "iter time (s)");
  }
  if (!out.iteration || *out.iteration < 1) return std::nullopt;
  return out;
}

// "step:  1  loss:  8.1309  grad_norm:  1.5  memory:  2.50GiB(3.00%)  tps: 1,234  tflops: ..."; "validate step:" is no step.
std::optional<Progress> read_torchtitan(std::string_view message) {
  Scan scan(message);
  if (!scan.after("step:") || !contains(message, "memory:") || !contains(message, "tps:")) return std::nullopt;
  if (contains(message.substr(0, scan.position()), "validate")) return std::nullopt;
  Progress out;
  out.printer = "torchtitan";
  out.iteration = scan.integer();
  out.loss = value_of(message, "loss");
  out.grad_norm = value_of(message, "grad_norm");
  if (!out.iteration) return std::nullopt;
  return out;
}

// "{'loss': 1.3641, 'grad_norm': 0.5, 'learning_rate': 4.8e-08, 'epoch': 0.97}"
std::optional<Progress> read_huggingface(std::string_view message) {
  const auto at = message.find("{'loss': ");
  if (at == std::string_view::npos || (!contains(message, "'epoch': ") && !contains(message, "'learning_rate': "))) return std::nullopt;
  const auto dict = message.substr(at);
  Progress out;
  out.printer = "huggingface";
  out.loss = value_of(dict, "loss");
  out.grad_norm = value_of(dict, "grad_norm");
  out.iteration = integer_of(dict, "step");
  if (!out.loss) return std::nullopt;
  return out;
}

// "step:1 - global_seqlen/min:5 - actor/pg_loss:0.1 - actor/grad_norm:0.2 - timing_s/step:12.3"
std::optional<Progress> read_verl(std::string_view message) {
  Scan scan(message);
  if (!scan.after("step:")) return std::nullopt;
  const auto step = scan.integer();
  if (!step || !scan.word(" - ") || !contains(message, "/")) return std::nullopt;
  Progress out;
  out.printer = "verl";
  out.iteration = step;
  for (const std::string_view key : {"actor/pg_loss", "train/loss", "actor/loss", "critic/vf_loss"})
    if (!out.loss) out.loss = value_of(message, key);
  for (const std::string_view key : {"actor/grad_norm", "train/grad_norm", "critic/grad_norm"})
    if (!out.grad_norm) out.grad_norm = value_of(message, key);
  out.step_seconds = value_of(message, "timing_s/step");
  if (!out.loss && !out.grad_norm && !out.step_seconds && !contains(message, "global_seqlen")) return std::nullopt;
  return out;
}

// "completed step: 3, seconds: 1.234, TFLOP/s/device: 100.0, loss: 10.870"
std::optional<Progress> read_maxtext(std::string_view message) {
  Scan scan(message);
  if (!scan.after("completed step: ")) return std::nullopt;
  Progress out;
  out.printer = "maxtext";
  out.iteration = scan.integer();
  out.step_seconds = value_of(message, "seconds");
  if (!out.iteration || !out.step_seconds) return std::nullopt;
  out.loss = value_of(message, "loss");
  out.grad_norm = value_of(message, "grad_norm");
  return out;
}

// "2021-01-02 10:00:00 | INFO | train_inner | {"epoch": 1, "update": 0.5, "loss": "2.31", "num_updates": "200", "gnorm": "0.9"}"
std::optional<Progress> read_fairseq(std::string_view message) {
  if (!contains(message, "\"num_updates\": ") || !contains(message, "\"loss\": ")) return std::nullopt;
  Progress out;
  out.printer = "fairseq";
  out.iteration = integer_of(message, "num_updates\"");
  if (!out.iteration) return std::nullopt;
  out.loss = value_of(message, "loss\"");
  out.grad_norm = value_of(message, "gnorm\"");
  return out;
}

// "Epoch [1][658/742]\tlr: 5.000e-05, eta: 2:15:01, time: 0.396, memory: 4127, loss_cls: 0.3, loss: 1.15" of mmcv's and mmengine's
// runners: the step counts within its epoch.
std::optional<Progress> read_openmmlab(std::string_view message) {
  Scan scan(message);
  if (!scan.after("Epoch")) return std::nullopt;
  scan.word("(train)");
  scan.blanks();
  if (!scan.word("[")) return std::nullopt;
  scan.blanks();
  const auto epoch = scan.integer();
  if (!epoch || *epoch < 1 || *epoch > 1'000'000 || !scan.word("][")) return std::nullopt;
  scan.blanks();
  const auto step = scan.integer();
  if (!step || !scan.word("/")) return std::nullopt;
  const auto steps = scan.integer();
  if (!steps || *steps < 1 || *steps > 1'000'000'000 || *step > *steps) return std::nullopt;
  Progress out;
  out.printer = "openmmlab";
  out.iteration = (*epoch - 1) * *steps + *step;
  out.loss = value_of(message, "loss");
  out.grad_norm = value_of(message, "grad_norm");
  if (!out.loss) return std::nullopt;
  return out;
}

// "100/100 [==============================] - 332s 3s/step - loss: 0.24 - val_loss: 0.23", "100/100 - 332s - loss: nan - 3s/step": the
// last state of a bar of Keras, one an epoch.
std::optional<Progress> read_keras(std::string_view message) {
  if (!contains(message, " - loss: ") || !contains(message, "s/step")) return std::nullopt;
  Scan scan(message);
  const auto done = scan.integer();
  if (!done || !scan.word("/")) return std::nullopt;
  if (scan.integer() != done) return std::nullopt;
  Progress out;
  out.printer = "keras";
  out.loss = value_of(message, "loss");
  if (!out.loss) return std::nullopt;
  return out;
}

// Is a tqdm bar with this description one of training steps? Nameless bars are Hugging Face's Trainer and plain loops.
bool trains(std::string_view description) {
  const auto text = lower(trim(description));
  static constexpr std::array<std::string_view, 23> kOther{
      "eval", "valid", "test",  "load",   "token",  "map",    "download", "checkpoint", "shard", "generat", "predict", "quantiz",
      "filter", "sav", "sanity", "convert", "cach", "captur", "packing",  "group",      "fetch", "rollout", "infer"};
  for (const auto word : kOther)
    if (contains(text, word)) return false;
  static constexpr std::array<std::string_view, 6> kTraining{"train", "epoch", "step", "iter", "loss", "episode"};
  for (const auto word : kTraining)
    if (contains(text, word)) return true;
  for (const char c : text)
    if (is_alpha(c)) return false;
  return true;
}

// "Epoch 1: : 17it [00:04,  4.36s/it, v_num=d3c7, reduced_train_loss=0.674]": a bar whose total is not known.
std::optional<Progress> read_count(std::string_view message) {
  const auto end = message.rfind("it [");
  if (end == std::string_view::npos || end == 0 || !is_digit(message[end - 1])) return std::nullopt;
  auto start = end;
  while (start > 0 && is_digit(message[start - 1])) --start;
  const auto meter = message.substr(end);
  const bool lightning = contains(meter, "v_num=") || contains(meter, "reduced_train_loss=");
  const auto description = trim(message.substr(0, start));
  if (!contains(meter, "s/it") && !contains(meter, "it/s") && !lightning) return std::nullopt;
  if (!trains(description) || (description.empty() && !lightning)) return std::nullopt;
  Progress out;
  out.iteration = read_integer(message.substr(start, end - start));
  if (!out.iteration || *out.iteration < 1) return std::nullopt;
  out.loss = value_of(meter, "reduced_train_loss");
  out.printer = out.loss ? "nemo" : lightning || contains(description, "Epoch ") ? "lightning" : "tqdm";
  if (!out.loss) out.loss = value_of(meter, "loss");
  out.grad_norm = value_of(meter, "grad_norm");
  return out;
}

// " 3%|▎  | 10/300 [00:01<00:40,  1.2it/s, v_num=0, reduced_train_loss=1.2]". The last bar of the line counts.
std::optional<Progress> read_bar(std::string_view message) {
  const auto percent = message.rfind("%|");
  if (percent == std::string_view::npos) return read_count(message);
  auto start = percent;
  while (start > 0 && (is_digit(message[start - 1]) || message[start - 1] == ' ')) --start;
  auto begin = start;  // of the description: behind the end of what is glued in front
  while (begin > 0 && message[begin - 1] != ']' && message[begin - 1] != '\r' && message[begin - 1] != '\n') --begin;
  if (begin > 0 && message[begin - 1] == ']' && trim(message.substr(begin, start - begin)).starts_with(":"))
    begin = message.rfind('[', begin - 1) == std::string_view::npos ? begin : 0;  // "Train epoch [1/1]:  88%|"
  Scan scan(message);
  scan.move_to(percent + 2);
  scan.until("|");
  if (!scan.word("|")) return std::nullopt;
  const auto done = scan.number();
  if (!done || !scan.word("/")) return std::nullopt;
  const auto total = scan.number();
  scan.blanks();
  if (!total || !scan.word("[") || !(*done >= 1 && *done < 9e15) || !(*total >= 1 && *total < 9e15)) return std::nullopt;
  const auto meter = scan.rest();
  const auto rate = meter.find("it/s"), time = meter.find("s/it");
  const bool lightning = contains(meter, "v_num=") || contains(meter, "reduced_train_loss=");  // NeMo's bar has no rate
  if (rate == std::string_view::npos && time == std::string_view::npos && !lightning) return std::nullopt;
  const auto description = message.substr(begin, start - begin);
  if (!trains(description)) return std::nullopt;
  Progress out;
  out.iteration = static_cast<std::int64_t>(*done);
  out.total = static_cast<std::int64_t>(*total);
  if (time != std::string_view::npos) {
    auto from = time;
    while (from > 0 && (is_digit(meter[from - 1]) || meter[from - 1] == '.')) --from;
    out.step_seconds = read_double(meter.substr(from, time - from));
  } else if (rate != std::string_view::npos) {
    auto from = rate;
    while (from > 0 && (is_digit(meter[from - 1]) || meter[from - 1] == '.')) --from;
    if (const auto per_second = read_double(meter.substr(from, rate - from)); per_second && *per_second > 0) out.step_seconds = 1 / *per_second;
  }
  out.loss = value_of(meter, "reduced_train_loss");
  if (!out.step_seconds) out.step_seconds = value_of(meter, "train_step_timing in s");
  out.printer = out.loss ? "nemo" : lightning || contains(description, "Epoch ") ? "lightning" : "tqdm";
  for (const std::string_view key : {"train_loss", "train_loss_step", "step_loss", "loss"})
    if (!out.loss) out.loss = value_of(meter, key);
  out.grad_norm = value_of(meter, "grad_norm");
  return out;
}

// The integer of "step 4", "step=4", "Step: 4/100", "global_step 4", "iter 4".
std::optional<Progress> step_word(std::string_view text, std::string_view word) {
  Scan scan(text);
  while (scan.after(word)) {
    const auto before = scan.position() - word.size();
    if (before > 0 && is_alnum(text[before - 1])) continue;
    Scan at(scan);
    at.blanks();
    at.word(":") || at.word("=") || at.word("#") || at.word("[");
    at.blanks();
    if (!is_digit(at.peek())) continue;
    Progress out;
    out.iteration = at.integer();
    if (!out.iteration || at.peek() == '.') continue;
    Scan of(at);
    of.blanks();
    if (of.word("/") && is_digit((of.blanks(), of.peek()))) out.total = of.integer(), at = of;
    return out;
  }
  return std::nullopt;
}

// "step 4 loss 1.23", "Epoch 1, Step 100/1000, Loss: 2.345", "iter 3436 step 53: loss 2.9911, iter time: 400ms", "step 3 done"
std::optional<Progress> read_generic(std::string_view message) {
  if (message.size() > 2048) return std::nullopt;  // no hand-written progress line is longer
  const auto text = lower(message);
  for (const std::string_view word : {"valid", "eval", "val_loss", "val loss", "test loss", "error", "warning", "failed"})
    if (contains(text, word)) return std::nullopt;
  std::optional<Progress> out;
  for (const std::string_view word : {"step", "iteration", "iter"})
    if (!out) out = step_word(text, word);
  if (!out) return std::nullopt;
  out->printer = "generic";
  for (const std::string_view key : {"train_loss", "train loss", "lm loss", "avg_loss", "total_loss", "loss"})
    if (!out->loss) out->loss = value_of(text, key);
  for (const std::string_view key : {"grad_norm", "grad norm", "gnorm", "grad-norm"})
    if (!out->grad_norm) out->grad_norm = value_of(text, key);
  const auto end = trim(std::string_view(text));
  if (!out->loss && !end.ends_with(" done") && !end.ends_with(" complete") && !end.ends_with(" completed") && !end.ends_with(" finished"))
    return std::nullopt;
  return out;
}

using Reader = std::optional<Progress> (*)(std::string_view);
constexpr std::array<Reader, 12> kReaders{read_megatron, read_nemo,    read_deepspeed, read_torchtitan, read_huggingface, read_verl,
                                          read_maxtext,  read_fairseq, read_openmmlab, read_keras,      read_bar,         read_generic};

}  // namespace

std::optional<Progress> read_progress(const Record& record) {
  for (const Reader reader : kReaders) {
    auto out = reader(record.message);
    if (!out) continue;
    if (!out->iteration && out->printer == "huggingface") {  // the bar may stand in front of the numbers, or behind them
      if (const auto bar = read_bar(record.message)) out->iteration = bar->iteration, out->total = bar->total;
    }
    out->bad_number = out->bad_number || bad(out->loss) || bad(out->grad_norm);
    out->rank = record.rank;
    out->time = record.time;
    out->line = record.line.number;
    return out;
  }
  return std::nullopt;
}

std::span<const std::string_view> progress_literals() {
  // What all tqdm bars share is the rate at their end, which has five bytes. "memory: " stands for torchtitan's coloured lines.
  static constexpr std::array<std::string_view, 20> kLiterals{
      "elapsed time per iteration", "Training epoch ", ", skipped=",      "RunningAvgSamplesPerSec=", "{'loss': ", "memory: ", "reduced_train_loss",
      "train/loss",                 "timing_s/step",   "completed step: ", "it/s]",                   "s/it]",     "it/s, ",   "s/it, ",
      " loss ",                     " loss:",          " loss=",           " Loss:",                  "] step ",
      "num_updates\": "};
  return kLiterals;
}

}  // namespace triage::parsers
