// A reader of one printed dict, JSON object or dataclass repr that may go over many lines. The
// derived class says where it starts and what its names mean; this class follows the brackets and
// bounds what it keeps.
#pragma once

#include <string_view>

#include "parsers/config/block_text.hpp"
#include "parsers/config/config_reader.hpp"
#include "parsers/config/python_literal.hpp"
#include "parsers/config/target.hpp"

namespace triage::parsers {

class DictReader : public ConfigReader {
 public:
  Offer offer(const Record& record) final;
  bool open() const final { return open_; }
  void finish(std::string_view file, RunConfig& config) final;

 protected:
  // The offset in `message` at which the value starts (its bracket, or the type's name before it);
  // npos: the message opens none. A value that starts with the next line: message.size().
  virtual std::size_t start_of(std::string_view message) = 0;
  // Can this line be part of the value?
  virtual bool fits(std::string_view line) const { return literal_shaped(line); }
  // What was read, lines numbered; at least one setting.
  virtual void apply(const FlatSettings& settings, Target& target) = 0;
  // A message that starts another value of this kind in the same stream.
  virtual bool starts_again(std::string_view message) {
    return start_of(message) != std::string_view::npos;
  }

 private:
  void reset();
  bool open_ = false;
  std::size_t foreign_ = 0;
  Stream stream_;
  BlockText text_;
  BracketCounter brackets_;
};

}  // namespace triage::parsers
