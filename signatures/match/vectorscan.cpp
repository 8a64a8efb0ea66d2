#include "signatures/match/vectorscan.hpp"

#ifdef TRIAGE_HAVE_VECTORSCAN
#include <hs.h>
#endif

namespace triage::signatures {

#ifdef TRIAGE_HAVE_VECTORSCAN

namespace {

int on_match(unsigned number, unsigned long long, unsigned long long end, unsigned, void* context) noexcept {
  static_cast<std::vector<LiteralHit>*>(context)->push_back({static_cast<std::size_t>(end) - 1, number});
  return 0;
}

}  // namespace

Vectorscan::Scratch::~Scratch() { hs_free_scratch(static_cast<hs_scratch_t*>(scratch_)); }
Vectorscan::~Vectorscan() { hs_free_database(static_cast<hs_database_t*>(database_)); }

std::unique_ptr<const Vectorscan> Vectorscan::compile(const std::vector<Literal>& literals, const std::vector<std::uint32_t>& numbers) {
  if (literals.empty() || hs_valid_platform() != HS_SUCCESS) return nullptr;
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  std::vector<unsigned> flags;
  for (const Literal& literal : literals) {
    texts.push_back(literal.text.data());
    sizes.push_back(literal.text.size());
    flags.push_back(literal.caseless ? HS_FLAG_CASELESS : 0);
  }
  hs_database_t* database = nullptr;
  hs_compile_error_t* fault = nullptr;
  const hs_error_t code = hs_compile_lit_multi(texts.data(), flags.data(), numbers.data(), sizes.data(), static_cast<unsigned>(texts.size()), HS_MODE_BLOCK,
                                               nullptr, &database, &fault);
  hs_free_compile_error(fault);
  if (code != HS_SUCCESS) return nullptr;
  return std::unique_ptr<const Vectorscan>(new Vectorscan(database));
}

bool Vectorscan::prepare(Scratch& scratch) const {
  auto* made = static_cast<hs_scratch_t*>(scratch.scratch_);
  const bool good = hs_alloc_scratch(static_cast<const hs_database_t*>(database_), &made) == HS_SUCCESS;
  scratch.scratch_ = made;
  return good;
}

bool Vectorscan::scan(std::string_view block, Scratch& scratch, std::vector<LiteralHit>& out) const {
  if (block.size() > 0xffff'ffffu) return false;
  return hs_scan(static_cast<const hs_database_t*>(database_), block.data(), static_cast<unsigned>(block.size()), 0,
                 static_cast<hs_scratch_t*>(scratch.scratch_), on_match, &out) == HS_SUCCESS;
}

#else

Vectorscan::Scratch::~Scratch() = default;
Vectorscan::~Vectorscan() = default;
std::unique_ptr<const Vectorscan> Vectorscan::compile(const std::vector<Literal>&, const std::vector<std::uint32_t>&) { return nullptr; }
bool Vectorscan::prepare(Scratch&) const { return false; }
bool Vectorscan::scan(std::string_view, Scratch&, std::vector<LiteralHit>&) const { return false; }

#endif

}  // namespace triage::signatures
