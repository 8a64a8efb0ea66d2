#include "signatures/memory/stage_split.hpp"

#include "parsers/base/text.hpp"

namespace triage::signatures::memory {

using parsers::Error;
using parsers::ErrorCode;

namespace {

constexpr std::size_t kLayoutText = 1 << 16;  // of a layout string when unrolled

std::string number(Count n) { return std::to_string(n); }

// Hands layers out in the order of the chunks: chunk 0 of all stages, then chunk 1, ...
void number_layers(std::vector<Stage>& stages, const std::vector<std::vector<Count>>& counts) {
  Count next = 0;
  for (std::size_t chunk = 0; !stages.empty() && chunk < stages[0].chunks.size(); ++chunk)
    for (std::size_t stage = 0; stage < stages.size(); ++stage)
      for (Count i = 0; i < counts[stage][chunk]; ++i)
        stages[stage].chunks[chunk].layers.push_back(next++);
}

// First (ab)*n, then x*n. Empty: too long or malformed.
std::optional<std::string> unroll(std::string_view text) {
  std::string plain, once;
  for (const char c : text)
    if (c != ',' && c != ' ' && c != '\'' && c != '"') plain += c;
  const auto times = [](std::string_view& rest) -> std::optional<std::int64_t> {
    if (rest.empty() || rest.front() != '*') return 1;
    rest.remove_prefix(1);
    const auto n = parsers::take_integer(rest);
    return n && *n <= 4096 ? n : std::nullopt;
  };
  std::string_view rest = plain;
  while (!rest.empty()) {
    std::string_view group = rest.substr(0, 1);
    std::int64_t n = 1;
    if (rest.front() == '(') {
      const auto end = rest.find(')');
      if (end == std::string_view::npos || end < 2) return std::nullopt;
      group = rest.substr(1, end - 1);
      rest.remove_prefix(end + 1);
      const auto given = times(rest);
      if (!given) return std::nullopt;
      n = *given;
    } else {
      rest.remove_prefix(1);
    }
    if (once.size() + group.size() * static_cast<std::size_t>(n) > kLayoutText) return std::nullopt;
    for (std::int64_t i = 0; i < n; ++i) once += group;
  }
  std::string out;
  rest = once;
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    const auto n = times(rest);
    if (!n || out.size() + static_cast<std::size_t>(*n) > kLayoutText) return std::nullopt;
    out.append(static_cast<std::size_t>(*n), c);
  }
  return out;
}

}  // namespace

parsers::Result<std::vector<Stage>> split_layers(const SplitRules& r) {
  std::vector<Stage> stages(static_cast<std::size_t>(r.pipeline));
  std::vector<std::vector<Count>> counts(static_cast<std::size_t>(r.pipeline));
  Count middle = 0;
  const bool uneven = r.first_stage || r.last_stage;
  if (uneven) {
    const Count left = r.layers - r.first_stage.value_or(0) - r.last_stage.value_or(0);
    const Count among = r.pipeline - (r.first_stage ? 1 : 0) - (r.last_stage ? 1 : 0);
    if (left < 0 || (among > 0 && left % among != 0) || (among <= 0 && left != 0))
      return Error(ErrorCode::conflict,
                   number(left) + " layers are left for " + number(among) +
                       " stages between the first and the last: they do not divide");
    middle = among > 0 ? left / among : 0;
  } else {
    const Count all = r.layers + (r.count_embedding ? 1 : 0) + (r.count_loss ? 1 : 0);
    if (all % r.pipeline != 0)
      return Error(ErrorCode::conflict,
                   number(all) + (r.count_embedding || r.count_loss
                                      ? " layers (embedding or loss counted)"
                                      : " layers") +
                       " are not divisible by pipeline parallel " + number(r.pipeline));
    middle = all / r.pipeline;
  }
  for (Count s = 0; s < r.pipeline; ++s) {
    Stage& stage = stages[static_cast<std::size_t>(s)];
    Count own = middle;
    if (s == 0 && r.first_stage) own = *r.first_stage;
    if (s == r.pipeline - 1 && r.last_stage) own = *r.last_stage;
    if (own % r.virtual_pipeline != 0)
      return Error(ErrorCode::conflict, number(own) + " layers of a stage are not divisible by " +
                                            number(r.virtual_pipeline) + " virtual stages");
    for (Count v = 0; v < r.virtual_pipeline; ++v) {
      StageChunk chunk;
      Count layers = own / r.virtual_pipeline;
      chunk.embedding = s == 0 && v == 0;
      chunk.loss = s == r.pipeline - 1 && v == r.virtual_pipeline - 1;
      if (chunk.embedding && r.count_embedding && !uneven) --layers;
      if (chunk.loss && r.count_loss && !uneven) --layers;
      if (layers < 0)
        return Error(ErrorCode::conflict, "a stage would have less than no layer");
      if (chunk.loss) chunk.mtp_layers = r.mtp_layers;
      counts[static_cast<std::size_t>(s)].push_back(layers);
      stage.chunks.push_back(std::move(chunk));
    }
  }
  number_layers(stages, counts);
  return stages;
}

parsers::Result<std::vector<Stage>> read_stage_layout(std::string_view text, Count pipeline,
                                                      Count layers) {
  const auto plain = unroll(text);
  if (!plain)
    return Error(ErrorCode::syntax, "the pipeline layout '" + std::string(text.substr(0, 120)) +
                                        "' is not one of Megatron's");
  std::vector<StageChunk> flat(1);
  std::vector<Count> held(1, 0);
  for (const char c : *plain) {
    switch (c) {
      case 'E': flat.back().embedding = true; break;
      case 'L': flat.back().loss = true; break;
      case 'm': ++flat.back().mtp_layers; break;
      case 't': ++held.back(); break;
      case '|': flat.emplace_back(), held.push_back(0); break;
      default:
        return Error(ErrorCode::syntax, std::string("the pipeline layout has an unknown letter '") +
                                            c + "'");
    }
  }
  const Count chunks = static_cast<Count>(flat.size());
  if (chunks % pipeline != 0)
    return Error(ErrorCode::conflict, "the pipeline layout has " + number(chunks) +
                                          " stages, not a multiple of pipeline parallel " +
                                          number(pipeline));
  Count sum = 0;
  for (const Count n : held) sum += n;
  if (sum != layers)
    return Error(ErrorCode::conflict, "the pipeline layout has " + number(sum) + " layers, the model " +
                                          number(layers));
  std::vector<Stage> stages(static_cast<std::size_t>(pipeline));
  std::vector<std::vector<Count>> counts(static_cast<std::size_t>(pipeline));
  for (Count i = 0; i < chunks; ++i) {
    const auto stage = static_cast<std::size_t>(i % pipeline);
    stages[stage].chunks.push_back(std::move(flat[static_cast<std::size_t>(i)]));
    counts[stage].push_back(held[static_cast<std::size_t>(i)]);
  }
  number_layers(stages, counts);
  return stages;
}

}  // namespace triage::signatures::memory
