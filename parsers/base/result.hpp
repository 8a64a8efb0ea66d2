// Result<T>: a value or an Error, for every failure that input, files, network or limits can cause.
// Exceptions never leave parsers or signatures; an Error never stands for a mistake of ours.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/base/place.hpp"

namespace triage::parsers {

enum class ErrorCode { io, syntax, limit, unsupported, not_found, conflict, unavailable, internal };

// What went wrong, in one sentence; where; why; what to do. Rendered by error_text.hpp only.
class [[nodiscard]] Error {
 public:
  // Of each text limits::kErrorBytes are kept.
  Error(ErrorCode code, std::string message) : code_(code), message_(short_text(std::move(message))) {}

  Error&& at(Place place) && { place_ = std::move(place); return std::move(*this); }
  Error&& because(std::string reason) && { reason_ = short_text(std::move(reason)); return std::move(*this); }
  Error&& help(std::string text) && { help_ = short_text(std::move(text)); return std::move(*this); }
  // Adds what was being done, outermost last.
  Error&& context(std::string doing) && { context_.push_back(short_text(std::move(doing))); return std::move(*this); }

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::optional<Place>& place() const { return place_; }
  const std::string& reason() const { return reason_; }
  const std::string& help_text() const { return help_; }
  const std::vector<std::string>& contexts() const { return context_; }

 private:
  static std::string short_text(std::string text) { return text.size() <= limits::kErrorBytes ? std::move(text) : text.substr(0, limits::kErrorBytes); }

  ErrorCode code_;
  std::string message_;
  std::optional<Place> place_;
  std::string reason_;
  std::string help_;
  std::vector<std::string> context_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}       // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}   // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<std::monostate>;
inline Status done() { return std::monostate{}; }

}  // namespace triage::parsers

#define TRIAGE_CAT2(a, b) a##b
#define TRIAGE_CAT(a, b) TRIAGE_CAT2(a, b)
// TRIAGE_TRY(auto x, expression): x is the value, or the function returns the error.
#define TRIAGE_TRY(decl, expression)                                        \
  auto TRIAGE_CAT(triage_result_, __LINE__) = (expression);                 \
  if (!TRIAGE_CAT(triage_result_, __LINE__).ok())                           \
    return std::move(TRIAGE_CAT(triage_result_, __LINE__)).error();         \
  decl = std::move(TRIAGE_CAT(triage_result_, __LINE__)).value()
// TRIAGE_CHECK(expression): the function returns the error, if there is one.
#define TRIAGE_CHECK(expression)                                            \
  do {                                                                      \
    auto triage_status = (expression);                                      \
    if (!triage_status.ok()) return std::move(triage_status).error();       \
  } while (false)
