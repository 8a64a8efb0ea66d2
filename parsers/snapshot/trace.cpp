#include "parsers/snapshot/trace.hpp"

#include <array>
#include <cstring>

namespace triage::parsers {

// What both sides of the coding know from the events before: the last event, and for addresses what stood there last. A block is named
// three times (alloc, free_requested, free_completed), so its size and stack seldom need writing again.
struct TraceCodec {
  struct Known {
    std::uint64_t address = 0;
    std::int64_t size = -1;
    StackId stack = 0;
    std::uint32_t setting = 0;
  };
  static constexpr std::size_t kSlots = 1U << 15;

  std::uint64_t address = 0;
  std::int64_t time_us = 0;
  std::uint32_t setting = 0;
  std::vector<Known> known = std::vector<Known>(kSlots);

  Known& slot(std::uint64_t of) { return known[((of >> 9) * 0x9e3779b97f4a7c15ULL) >> 49]; }
};

namespace {

// Byte 0 of an event: the action in the low 4 bits, and
constexpr std::uint8_t kSameAddress = 0x10;   // as the event before
constexpr std::uint8_t kKnownSize = 0x20;     // size as known of the address
constexpr std::uint8_t kKnownStack = 0x40;    // stack as known of the address
constexpr std::uint8_t kSameSetting = 0x80;   // as the event before

std::uint64_t zigzag(std::uint64_t difference) { return (difference << 1) ^ (0 - (difference >> 63)); }
std::uint64_t unzigzag(std::uint64_t code) { return (code >> 1) ^ (0 - (code & 1)); }

std::uint8_t* put_varint(std::uint8_t* to, std::uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<std::uint8_t>(value);
  return to;
}

std::uint64_t get_varint(const std::uint8_t*& from) {
  std::uint64_t value = *from++;
  if (value < 0x80) return value;
  value &= 0x7f;
  for (unsigned shift = 7;; shift += 7) {
    const std::uint8_t byte = *from++;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

// Addresses are multiples of 512 with this allocator; others are written whole behind the code 1.
std::uint8_t* put_address(std::uint8_t* to, std::uint64_t difference) {
  if ((difference & 511) == 0) return put_varint(to, zigzag(static_cast<std::uint64_t>(static_cast<std::int64_t>(difference) >> 9)) << 1);
  *to++ = 1;
  return put_varint(to, difference);
}
std::uint64_t get_address(const std::uint8_t*& from) {
  const std::uint64_t code = get_varint(from);
  return code == 1 ? get_varint(from) : unzigzag(code >> 1) << 9;
}

constexpr std::array<std::string_view, 10> kNames = {"alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
                                                     "segment_map", "segment_unmap",  "snapshot",       "oom",           "other"};

}  // namespace

std::string_view trace_action_name(TraceAction action) { return kNames[static_cast<std::size_t>(action)]; }

AllocatorTrace::AllocatorTrace() = default;
AllocatorTrace::~AllocatorTrace() = default;
AllocatorTrace::AllocatorTrace(AllocatorTrace&&) noexcept = default;
AllocatorTrace& AllocatorTrace::operator=(AllocatorTrace&&) noexcept = default;

std::uint32_t AllocatorTrace::setting_of(const TraceEvent& event) {
  const Setting setting{event.stream, event.pool, event.compile_context, event.user_metadata};
  if (codec_->setting < settings_.size() && settings_[codec_->setting] == setting) return codec_->setting;
  const auto hash_of = [](const Setting& s) {
    std::uint64_t hash = s.stream * 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ static_cast<std::uint64_t>(s.pool.first * 31 + s.pool.second)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (std::uint64_t{s.compile_context} << 32 | s.user_metadata)) * 0x94d049bb133111ebULL;
    return static_cast<std::size_t>(hash ^ (hash >> 29));
  };
  if (settings_.size() * 2 >= setting_slots_.size()) {
    std::vector<std::uint32_t> larger(setting_slots_.empty() ? 64 : setting_slots_.size() * 2, 0);
    for (std::uint32_t i = 0; i < settings_.size(); ++i) {
      std::size_t at = hash_of(settings_[i]) & (larger.size() - 1);
      while (larger[at]) at = (at + 1) & (larger.size() - 1);
      larger[at] = i + 1;
    }
    setting_slots_ = std::move(larger);
  }
  std::size_t at = hash_of(setting) & (setting_slots_.size() - 1);
  while (setting_slots_[at]) {
    if (settings_[setting_slots_[at] - 1] == setting) return setting_slots_[at] - 1;
    at = (at + 1) & (setting_slots_.size() - 1);
  }
  settings_.push_back(setting);
  setting_slots_[at] = static_cast<std::uint32_t>(settings_.size());
  return static_cast<std::uint32_t>(settings_.size() - 1);
}

void AllocatorTrace::append(const TraceEvent& event) {
  if (!codec_) codec_ = std::make_unique<TraceCodec>();
  if (chunks_.empty() || chunk_sizes_.back() + kEventBytes > kChunkBytes) {
    chunks_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(kChunkBytes));
    chunk_sizes_.push_back(0);
  }
  TraceCodec& codec = *codec_;
  const std::uint32_t setting = setting_of(event);
  std::uint8_t* const begin = chunks_.back().get() + chunk_sizes_.back();
  std::uint8_t* to = begin + 1;
  std::uint8_t head = static_cast<std::uint8_t>(event.action);
  TraceCodec::Known& known = codec.slot(event.address);
  const bool here = known.address == event.address;
  if (event.address == codec.address) head |= kSameAddress;
  else to = put_address(to, event.address - codec.address);
  if (here && known.size == event.size) head |= kKnownSize;
  else to = put_varint(to, static_cast<std::uint64_t>(event.size));
  if (here && known.stack == event.stack) head |= kKnownStack;
  else to = put_varint(to, event.stack);
  if (setting == codec.setting) head |= kSameSetting;
  else to = put_varint(to, setting);
  to = put_varint(to, zigzag(static_cast<std::uint64_t>(event.time_us) - static_cast<std::uint64_t>(codec.time_us)));
  *begin = head;
  chunk_sizes_.back() += static_cast<std::uint32_t>(to - begin);
  codec.address = event.address;
  codec.time_us = event.time_us;
  codec.setting = setting;
  // free_requested often has no stack, and free_completed again that of the allocation: it stays known.
  const StackId stack = event.stack || !here ? event.stack : known.stack;
  known = TraceCodec::Known{event.address, event.size, stack, setting};
  ++count_;
}

void AllocatorTrace::finish() {
  codec_.reset();
  setting_slots_ = {};
}

std::size_t AllocatorTrace::memory_bytes() const {
  return chunks_.size() * kChunkBytes + settings_.capacity() * sizeof(Setting) + setting_slots_.capacity() * sizeof(std::uint32_t);
}

AllocatorTrace::Cursor::Cursor(const AllocatorTrace& trace) : trace_(&trace), codec_(std::make_unique<TraceCodec>()), left_(trace.count_) {}
AllocatorTrace::Cursor::~Cursor() = default;
AllocatorTrace::Cursor::Cursor(Cursor&&) noexcept = default;

bool AllocatorTrace::Cursor::next(TraceEvent& event) {
  if (left_ == 0) return false;
  --left_;
  if (at_ == trace_->chunk_sizes_[chunk_]) {
    ++chunk_;
    at_ = 0;
  }
  TraceCodec& codec = *codec_;
  const std::uint8_t* const begin = trace_->chunks_[chunk_].get() + at_;
  const std::uint8_t* from = begin + 1;
  const std::uint8_t head = *begin;
  event.action = static_cast<TraceAction>(head & 0x0f);
  event.address = head & kSameAddress ? codec.address : codec.address + get_address(from);
  TraceCodec::Known& known = codec.slot(event.address);
  const bool here = known.address == event.address;
  event.size = head & kKnownSize ? known.size : static_cast<std::int64_t>(get_varint(from));
  event.stack = head & kKnownStack ? known.stack : static_cast<StackId>(get_varint(from));
  const std::uint32_t setting = head & kSameSetting ? codec.setting : static_cast<std::uint32_t>(get_varint(from));
  event.time_us = static_cast<std::int64_t>(static_cast<std::uint64_t>(codec.time_us) + unzigzag(get_varint(from)));
  const Setting& s = trace_->settings_[setting];
  event.stream = s.stream;
  event.pool = s.pool;
  event.compile_context = s.compile_context;
  event.user_metadata = s.user_metadata;
  at_ += static_cast<std::size_t>(from - begin);
  codec.address = event.address;
  codec.time_us = event.time_us;
  codec.setting = setting;
  const StackId stack = event.stack || !here ? event.stack : known.stack;
  known = TraceCodec::Known{event.address, event.size, stack, setting};
  return true;
}

}  // namespace triage::parsers
