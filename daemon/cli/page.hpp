// Labelled, wrapped lines of text for a terminal.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/cli/view.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon {

class Page {
 public:
  static constexpr std::size_t kLabel = 11;      // columns of the labels at the left

  explicit Page(const TextStyle& style) : style_(style) {}

  void head(const std::string& text) { out_ += bold() + parsers::visible(text) + plain() + "\n"; }
  // label, then the text wrapped under itself.
  void row(const std::string& label, const std::string& text) {
    std::string left = "  " + label;
    left.resize(std::max(left.size(), kLabel + 2), ' ');
    wrap(dim() + left + plain(), std::string(kLabel + 2, ' '), text);
  }
  void under(const std::string& text) { wrap(std::string(kLabel + 2, ' '), std::string(kLabel + 2, ' '), text); }
  void strong(const std::string& label, const std::string& text) {
    std::string left = "  " + label;
    left.resize(std::max(left.size(), kLabel + 2), ' ');
    wrap(left + bold(), std::string(kLabel + 2, ' '), text);
    out_.insert(out_.size() - 1, plain());
  }
  void line(const std::string& text) { out_ += parsers::visible(text) + "\n"; }
  void blank() { out_ += "\n"; }
  std::string take() { return std::move(out_); }

 private:
  std::string bold() const { return style_.colour ? "\x1b[1m" : ""; }
  std::string dim() const { return style_.colour ? "\x1b[2m" : ""; }
  std::string plain() const { return style_.colour ? "\x1b[0m" : ""; }

  // Summaries, reasons and fixes hold words of the log: every text is made harmless here, whatever the caller did.
  void wrap(const std::string& first, const std::string& indent, const std::string& raw) {
    const std::string text = parsers::visible(raw);
    const std::size_t room = style_.width > indent.size() + 20 ? style_.width - indent.size() : 20;
    std::string_view rest = text;
    out_ += first;
    for (;;) {
      if (rest.size() <= room) break;
      std::size_t at = rest.rfind(' ', room);
      if (at == std::string_view::npos || at == 0) at = rest.find(' ');   // a word that is too long stays whole: it can be copied
      if (at == std::string_view::npos) break;
      out_ += std::string(rest.substr(0, at)) + "\n" + indent;
      rest.remove_prefix(at + 1);
    }
    out_ += std::string(rest) + "\n";
  }

  const TextStyle& style_;
  std::string out_;
};

}  // namespace triage::daemon
