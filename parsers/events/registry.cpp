#include "parsers/base/text.hpp"
#include "parsers/events/block_readers.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/events/message_parsers.hpp"

#include <array>
#include <utility>

namespace triage::parsers {

namespace {

struct MessageParser {
  std::string_view name;
  Event (*read)(std::string_view);
};
constexpr std::array<MessageParser, 10> kParsers{{
    {"torch_oom", read_torch_oom}, {"cupy_oom", read_cupy_oom}, {"jax_oom", read_jax_oom}, {"tf_oom", read_tf_oom},
    {"triton_resources", read_triton_resources}, {"nccl_alloc", read_nccl_alloc}, {"collective_timeout", read_collective_timeout},
    {"process_exit", read_process_exit}, {"xid", read_xid}, {"oom_kill", read_oom_kill},
}};
constexpr std::array<std::string_view, 15> kNames{
    "torch_oom", "cupy_oom", "jax_oom", "tf_oom", "triton_resources", "nccl_alloc", "collective_timeout", "process_exit", "xid", "oom_kill",
    "elastic_table", "oom_kill_report", "cuda_malloc_async_oom", "k8s_describe", "coredumpctl"};

// A block reader over the lines of one message, for rules that name it: a message may hold the whole block.
Event read_block(std::string_view name, std::string_view message) {
  for (const auto& reader : make_event_readers()) {
    if (reader->name() != name) continue;
    Record record;
    for (const auto line : split(message, '\n')) {
      ++record.line.number;
      record.message = record.line.text = line;
      const auto offer = reader->offer(record);
      if (offer == Offer::finished || offer == Offer::ended_before) break;
    }
    if (auto block = reader->finish()) return std::move(block->event);
  }
  return {};
}

}  // namespace

std::vector<std::unique_ptr<EventReader>> make_event_readers() {
  std::vector<std::unique_ptr<EventReader>> readers;
  readers.push_back(make_elastic_table_reader());
  readers.push_back(make_oom_kill_report_reader());
  readers.push_back(make_cuda_malloc_async_reader());
  readers.push_back(make_k8s_describe_reader());
  readers.push_back(make_coredumpctl_reader());
  return readers;
}

std::span<const std::string_view> event_parser_names() { return kNames; }

Event read_event(std::string_view parser, std::string_view message) {
  for (const auto& entry : kParsers)
    if (entry.name == parser) return entry.read(message);
  if (auto event = read_block(parser, message); event.index() != 0) return event;
  if (parser == "oom_kill_report") return read_oom_kill(message);
  if (parser == "k8s_describe") return read_container_end(message);
  return {};
}

}  // namespace triage::parsers
