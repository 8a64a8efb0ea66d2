// Readers of events that stand on several lines (torchrun's failure table, the kernel's oom-killer report, ...), and the
// registry of the parsers that rules name for a single message.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/events/event.hpp"
#include "parsers/records/offer.hpp"
#include "parsers/records/record.hpp"

namespace triage::parsers {

// One per source. Records come in order, from the first one that holds a trigger until the reader has nothing open.
class EventReader {
 public:
  virtual ~EventReader() = default;
  // The name that rules use in `parser:`.
  virtual std::string_view name() const = 0;
  // Literals of which one stands in the first line of the block.
  virtual std::span<const std::string_view> triggers() const = 0;
  virtual Offer offer(const Record& record) = 0;
  virtual bool open() const = 0;
  struct Block {
    Event event;
    std::uint64_t first_line = 0, last_line = 0;  // 1-based, of the source
    bool truncated = false;                       // the input ended or broke off inside the block
  };
  // The block that ended, or what there is of an open one (end of input). Empty if nothing useful was read. Resets the reader.
  virtual std::optional<Block> finish() = 0;
};

// A fresh reader of each kind.
std::vector<std::unique_ptr<EventReader>> make_event_readers();

// Names that a rule may give in `parser:` (single-message parsers and EventReaders).
std::span<const std::string_view> event_parser_names();

// Reads one message (may hold '\n') with the named parser; an EventReader's name reads a block that the message holds, or the one
// line that tells most of it (the kernel's victim, "OOMKilled"). monostate: it is not of that form.
Event read_event(std::string_view parser, std::string_view message);

// One completed training step, or nothing. Any framework. The record's time, if any, is copied.
std::optional<Progress> read_progress(const Record& record);
std::span<const std::string_view> progress_literals();       // every progress line holds one of them

// A memory report of a healthy run.
std::optional<MemoryReport> read_memory_report(const Record& record);
std::span<const std::string_view> memory_report_literals();

}  // namespace triage::parsers
