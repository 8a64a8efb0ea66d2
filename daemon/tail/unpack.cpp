#include "daemon/tail/unpack.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/tail/archive.hpp"
#include "daemon/tail/gzip_source.hpp"
#include "daemon/tail/zstd_source.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

namespace limits = parsers::limits;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

// What all layers of one input share.
struct Unpacking {
  std::string name;                      // of the input
  Tell tell;
  std::uint64_t packed = 0;              // bytes: its size, or what was read of it
  std::uint64_t unpacked = 0;
  std::size_t faults = 0;
  bool over = false;                     // it gave more than an input may

  void fault(Error error, Weight weight) {
    if (faults++ < limits::kToldFaults) tell(std::move(error), weight);
  }
  bool may_give(std::size_t bytes) {
    unpacked += bytes;
    if (unpacked <= limits::kUnpackedBytes || unpacked / limits::kUnpackedRatio <= packed) return true;
    if (!std::exchange(over, true))
      tell(Error(ErrorCode::limit, "the packed file gives more than " + std::to_string(limits::kUnpackedRatio) + " bytes for each of its own")
               .at(Place{name, {}, {}, {}, {}})
               .because("that is how files are made that fill a disk; " + std::to_string(unpacked) + " bytes were read")
               .help("if it is a log after all, unpack it before the pipe: zcat (or zstdcat) FILE | triage scan -"),
           Weight::loss);
    return false;
  }
};

// Counts what the outermost layer reads.
class Counted final : public ByteSource {
 public:
  Counted(std::unique_ptr<ByteSource> inner, std::uint64_t& count) : inner_(std::move(inner)), count_(count) {}
  Result<std::size_t> read(std::span<char> room) override {
    TRIAGE_TRY(const std::size_t count, inner_->read(room));
    if (inner_->seekable_size() == 0) count_ += count;
    return count;
  }
  std::uint64_t seekable_size() const override { return inner_->seekable_size(); }
  bool seek(std::uint64_t offset) override { return inner_->seek(offset); }

 private:
  std::unique_ptr<ByteSource> inner_;
  std::uint64_t& count_;
};

// Ends where the input has given more than it may.
class Bounded final : public ByteSource {
 public:
  Bounded(std::unique_ptr<ByteSource> inner, Unpacking& all) : inner_(std::move(inner)), all_(all) {}
  Result<std::size_t> read(std::span<char> room) override {
    if (all_.over) return std::size_t{0};
    TRIAGE_TRY(const std::size_t count, inner_->read(room));
    return all_.may_give(count) ? count : std::size_t{0};
  }

 private:
  std::unique_ptr<ByteSource> inner_;
  Unpacking& all_;
};

// The depth is bounded by limits::kPackedLayers.
void walk(std::unique_ptr<PeekedSource> stream, const std::string& name, int layers, Unpacking& all, const Visit& visit) {
  std::size_t below = 0;                 // faults of the decoders made here
  const Tell tell_below = [&](Error error, Weight weight) {
    ++below;
    all.fault(std::move(error), weight);
  };
  const Tell tell = [&all](Error error, Weight weight) { all.fault(std::move(error), weight); };
  bool decoding = false;
  for (;; ++layers) {
    const std::string_view head = stream->peek(kPackedHead);
    if (!looks_packed(head)) return visit(name, *stream);
    if (layers == limits::kPackedLayers)
      return tell(Error(ErrorCode::limit, "a file is packed more than " + std::to_string(layers) + " times and was not scanned")
                      .at(Place{name, {}, {}, {}, {}})
                      .help("unpack it and give the folder: packed files in a folder are read"),
                  Weight::loss);
    std::unique_ptr<ByteSource> decoded;
    if (looks_gzip(head))
      decoded = std::make_unique<GzipSource>(std::move(stream), name, tell_below);
    else if (looks_zstd(head))
      decoded = std::make_unique<ZstdSource>(std::move(stream), name, tell_below);
    else
      break;
    decoding = true;
    stream = std::make_unique<PeekedSource>(std::make_unique<Bounded>(std::move(decoded), all));
  }
  const ArchiveKind kind = archive_kind(stream->peek(kPackedHead));
  const auto quiet = [&] { return below > 0 || all.over; };
  const bool whole = for_each_archive_member(*stream, kind, name, tell, quiet, [&](const std::string& member, std::unique_ptr<ByteSource> bytes) {
    auto inner = std::make_unique<PeekedSource>(std::make_unique<Bounded>(std::move(bytes), all));
    walk(std::move(inner), member.empty() ? name : name + "!" + member, layers + 1, all, visit);
  });
  if (!whole || !decoding) return;
  // Up to the end of the layers below, where their checksum stands.
  for (std::vector<char> room(1 << 16);;) {
    auto count = stream->read(room);
    if (!count.ok()) return tell(std::move(count).error(), Weight::loss);
    if (*count == 0) return;
  }
}

}  // namespace

bool looks_packed(std::string_view head) { return looks_gzip(head) || looks_zstd(head) || archive_kind(head) != ArchiveKind::none; }

void for_each_stream(std::unique_ptr<ByteSource> input, const std::string& name, const Tell& tell, const Visit& visit) {
  Unpacking all{name, tell, input->seekable_size()};
  walk(std::make_unique<PeekedSource>(std::make_unique<Counted>(std::move(input), all.packed)), name, 0, all, visit);
  if (all.faults > limits::kToldFaults)
    tell(Error(ErrorCode::syntax, std::to_string(all.faults - limits::kToldFaults) + " more faults of the packed file are not listed").at(Place{name, {}, {}, {}, {}}), Weight::loss);
}

}  // namespace triage::daemon
