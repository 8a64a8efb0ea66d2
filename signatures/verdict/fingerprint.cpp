#include "signatures/verdict/fingerprint.hpp"

#include <cstdint>

#include "parsers/base/text.hpp"
#include "signatures/verdict/item.hpp"

namespace triage::signatures {
namespace {

using std::string_view;

// FNV-1a, 64 bit (http://www.isthe.com/chongo/tech/comp/fnv/). Parts are separated, so that ("ab","c") differs from ("a","bc").
class Hash {
 public:
  void add(string_view part) {
    for (char c : part) byte(static_cast<unsigned char>(c));
    byte(0);
  }
  void add(std::uint64_t number) { add(std::to_string(number)); }
  std::string hex() const {
    std::string out(16, '0');
    for (int i = 0; i < 16; ++i) out[static_cast<std::size_t>(i)] = "0123456789abcdef"[(value_ >> (60 - 4 * i)) & 15];
    return out;
  }

 private:
  void byte(unsigned char c) {
    value_ ^= c;
    value_ *= 1099511628211ULL;
  }
  std::uint64_t value_ = 14695981039346656037ULL;
};

bool hex_digit(char c) { return parsers::is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool path_char(char c) { return parsers::is_alnum(c) || c == '/' || c == '_' || c == '-' || c == '.' || c == '<' || c == '>'; }

// The innermost function that is not PyTorch's own.
string_view own_function(const Finding& f) {
  if (!f.traceback) return {};
  for (std::size_t i = f.traceback->frames.size(); i-- > 0;) {
    const auto& frame = f.traceback->frames[i];
    if (frame.file.find("/torch/") == std::string::npos && !frame.function.empty()) return frame.function;
  }
  return {};
}

}  // namespace

std::string normalised(string_view message) {
  std::string out;
  const auto at_word = [&](std::size_t i) { return i == 0 || (!parsers::is_alnum(message[i - 1]) && message[i - 1] != '_'); };
  for (std::size_t i = 0; i < message.size() && out.size() < 200;) {
    const char c = message[i];
    if (c == '\n') break;
    if (c == '0' && i + 1 < message.size() && (message[i + 1] == 'x' || message[i + 1] == 'X')) {
      i += 2;
      while (i < message.size() && hex_digit(message[i])) ++i;
      out += '@';
    } else if (c == '/' && at_word(i)) {
      while (i < message.size() && path_char(message[i])) ++i;
      out += '/';
    } else if (c == '\'' && at_word(i)) {
      const auto end = message.find('\'', i + 1);
      if (end == string_view::npos || end - i > 80) {
        ++i;
        continue;
      }
      i = end + 1;
      out += '\'';
    } else if (parsers::is_digit(c)) {
      while (i < message.size() && (parsers::is_digit(message[i]) || message[i] == '.' || message[i] == ',')) ++i;
      if (out.empty() || out.back() != '#') out += '#';
    } else if (parsers::is_space(c)) {
      if (!out.empty() && out.back() != ' ') out += ' ';
      ++i;
    } else {
      out += parsers::to_lower(c);
      ++i;
    }
  }
  return out;
}

std::string fingerprint_of(const Finding& root, string_view kind, const std::vector<std::string>& frameworks) {
  Hash hash;
  hash.add(kind);
  hash.add(exception_name(root));
  hash.add(own_function(root));
  // The figures, processes and units of an out-of-memory message are of one moment, not of the cause.
  const string_view words = words_of(root);
  const auto tried = words.find(" Tried to allocate");
  hash.add(normalised(tried == string_view::npos ? words : words.substr(0, tried)));
  hash.add(frameworks.empty() ? string_view() : string_view(frameworks.front()));
  return "v1:" + hash.hex();
}

std::string diagnosis_id(const Diagnosis& d) {
  Hash hash;
  hash.add(d.fingerprint);
  const auto slash = d.root.source.rfind('/');
  hash.add(slash == std::string::npos ? string_view(d.root.source) : string_view(d.root.source).substr(slash + 1));
  hash.add(d.root.line);
  hash.add(d.root.offset);
  hash.add(d.root.text);
  hash.add(d.job);
  hash.add(static_cast<std::uint64_t>(d.attempt));
  return hash.hex();
}

}  // namespace triage::signatures
