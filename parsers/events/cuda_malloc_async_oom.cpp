// The out-of-memory text of PyTorch's cudaMallocAsync backend: six lines.
// Source: pytorch/pytorch c10/cuda/CUDAMallocAsyncAllocator.cpp.
#include "parsers/base/text.hpp"
#include "parsers/events/block_readers.hpp"
#include "parsers/events/scan.hpp"
#include "parsers/events/stream.hpp"

#include <array>

namespace triage::parsers {

namespace {

constexpr std::size_t kForeignLines = 256;  // of other streams inside the block
constexpr std::string_view kHead = "would exceed allowed memory. (out of memory)";

class CudaMallocAsyncOom final : public EventReader {
 public:
  std::string_view name() const override { return "cuda_malloc_async_oom"; }
  std::span<const std::string_view> triggers() const override {
    static constexpr std::array<std::string_view, 1> kTriggers{kHead};
    return kTriggers;
  }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const auto message = record.message;
    if (!open_) {
      if (!contains(message, kHead)) return Offer::not_mine;
      open_ = true;
      stream_.open(record);
      first_ = last_ = record.line.number;
      event_.backend = "cuda";
      event_.format = "cuda-malloc-async";
      Scan scan(message);
      if (scan.after("Allocation on device ")) event_.device = narrow(scan.integer());
      return Offer::taken;
    }
    if (!stream_.holds(record)) return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine;
    if (!read(trim(message))) return Offer::ended_before;
    last_ = record.line.number;
    return complete_ ? Offer::finished : Offer::taken;
  }

  std::optional<Block> finish() override {
    std::optional<Block> block;
    if (open_) {
      event_.truncated = !event_.free || !event_.allocated || !event_.tried;
      if (event_.capacity && event_.free && event_.allocated && *event_.allocated > *event_.capacity - *event_.free + tolerance_) {
        event_.sums_agree = false;
        event_.sums_note = "allocated is more than the device's limit minus free";
      }
      block = Block{event_, first_, last_, event_.truncated};
    }
    *this = CudaMallocAsyncOom();
    return block;
  }

 private:
  bool read(std::string_view line) {
    if (line.starts_with("PyTorch limit")) return limit_follows_ = true;
    if (line.starts_with(":") && limit_follows_) return complete_ = take(event_.limit, line);
    if (line.starts_with("Currently allocated")) return take(event_.allocated, line);
    if (line.starts_with("Requested")) return take(event_.tried, line);
    if (line.starts_with("Device limit")) return take(event_.capacity, line);
    if (line.starts_with("Free (according to")) return take(event_.free, line);
    return false;
  }
  bool take(std::optional<Bytes>& to, std::string_view line) {
    Scan scan(line);
    if (!scan.after(":")) return false;
    const auto size = scan.quantity();
    if (!size) return false;
    if (!size->meaningless) to = size->bytes, tolerance_ += size->error;
    return true;
  }

  OutOfMemory event_;
  Stream stream_;
  Bytes tolerance_;
  std::uint64_t first_ = 0, last_ = 0;
  std::size_t foreign_ = 0;
  bool open_ = false, limit_follows_ = false, complete_ = false;
};

}  // namespace

std::unique_ptr<EventReader> make_cuda_malloc_async_reader() { return std::make_unique<CudaMallocAsyncOom>(); }

}  // namespace triage::parsers
