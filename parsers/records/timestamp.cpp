#include "parsers/records/timestamp.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

using std::chrono::microseconds;

// A checked cursor over the text; every take_* leaves the position where it was when it fails.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  std::size_t position() const { return at_; }
  void back_to(std::size_t position) { at_ = position; }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  bool take_any(std::string_view set, char* taken = nullptr) {
    if (at_ >= text_.size() || set.find(text_[at_]) == std::string_view::npos) return false;
    if (taken) *taken = text_[at_];
    ++at_;
    return true;
  }
  // `least` to `most` digits.
  std::optional<int> digits(int least, int most) {
    int value = 0, count = 0;
    while (count < most && is_digit(peek(static_cast<std::size_t>(count)))) {
      value = value * 10 + (peek(static_cast<std::size_t>(count)) - '0');
      ++count;
    }
    if (count < least) return std::nullopt;
    at_ += static_cast<std::size_t>(count);
    return value;
  }
  // Index + 1 of the three-letter name that stands here.
  std::optional<int> name(std::string_view names) {
    if (at_ + 3 > text_.size()) return std::nullopt;
    for (std::size_t i = 0; i + 3 <= names.size(); i += 3)
      if (text_.substr(at_, 3) == names.substr(i, 3)) {
        at_ += 3;
        return static_cast<int>(i / 3) + 1;
      }
    return std::nullopt;
  }
  bool blanks() {
    const std::size_t before = at_;
    while (peek() == ' ' && at_ < text_.size()) ++at_;
    return at_ > before;
  }
  bool word(std::string_view w) {
    if (!text_.substr(at_).starts_with(w)) return false;
    at_ += w.size();
    return true;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
constexpr std::string_view kDays = "MonTueWedThuFriSatSun";

struct Date { int year = 0, month = 0, day = 0; };

std::optional<std::chrono::sys_days> days_of(Date date) {
  if (date.year < 1970 || date.year > 2262 || date.month < 1 || date.day < 1) return std::nullopt;
  const std::chrono::year_month_day ymd{std::chrono::year(date.year), std::chrono::month(static_cast<unsigned>(date.month)),
                                        std::chrono::day(static_cast<unsigned>(date.day))};
  if (!ymd.ok()) return std::nullopt;
  return std::chrono::sys_days(ymd);
}

// HH:MM:SS with any fraction behind '.' or ','. Microseconds since midnight.
std::optional<microseconds> time_of_day(Cursor& in, bool fraction_needed = false) {
  const std::size_t start = in.position();
  const auto fail = [&] { in.back_to(start); return std::nullopt; };
  const auto hour = in.digits(1, 2);
  if (!hour || !in.take(':')) return fail();
  const auto minute = in.digits(2, 2);
  if (!minute || !in.take(':')) return fail();
  const auto second = in.digits(2, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60 || is_digit(in.peek())) return fail();
  std::int64_t micro = 0;
  bool fraction = false;
  if ((in.peek() == '.' || in.peek() == ',') && is_digit(in.peek(1))) {
    in.take_any(".,");
    std::int64_t scale = 100'000;
    fraction = true;
    while (const auto digit = in.digits(1, 1)) {
      micro += *digit * scale;
      scale /= 10;
    }
  }
  if (fraction_needed && !fraction) return fail();
  return microseconds(((*hour * 60LL + *minute) * 60 + *second) * 1'000'000 + micro);
}

// Z, +08:00, +0800, -07, or nothing. What has to be taken off the clock to get UTC.
microseconds zone(Cursor& in, bool blank_allowed) {
  const std::size_t start = in.position();
  if (in.take('Z')) {
    if (!is_alnum(in.peek())) return microseconds(0);
    in.back_to(start);
    return microseconds(0);
  }
  if (blank_allowed) in.take(' ');
  for (std::string_view name : {"UTC", "GMT"})
    if (in.word(name)) {
      if (!is_alnum(in.peek())) return microseconds(0);
      in.back_to(start);
      return microseconds(0);
    }
  char sign = 0;
  if (!in.take_any("+-", &sign)) {
    in.back_to(start);
    return microseconds(0);
  }
  const auto hours = in.digits(2, 2);
  const bool colon = hours && in.take(':');
  const auto minutes = hours ? in.digits(2, 2) : std::nullopt;
  // A bare "-07" is a zone only directly behind the clock; " -12" is text.
  if (!hours || *hours > 14 || (colon && !minutes) || (blank_allowed && !minutes) || is_digit(in.peek())) {
    in.back_to(start);
    return microseconds(0);
  }
  const std::int64_t total = (*hours * 60LL + minutes.value_or(0)) * 60'000'000;
  return microseconds(sign == '-' ? -total : total);
}

std::optional<StampMatch> made(const Cursor& in, std::optional<std::chrono::sys_days> days, std::optional<microseconds> day_time,
                               microseconds offset) {
  if (!days || !day_time) return std::nullopt;
  return StampMatch{TimePoint(std::chrono::sys_days(*days)) + *day_time - offset, in.position()};
}

// 2024-01-01 ... , 2024/01/01 ..., 20230603 ...
std::optional<StampMatch> year_first(Cursor in) {
  const auto year = in.digits(4, 4);
  if (!year) return std::nullopt;
  char separator = 0;
  in.take_any("-/.", &separator);
  const auto month = separator == 0 ? in.digits(2, 2) : in.digits(1, 2);
  if (!month || (separator != 0 && !in.take(separator))) return std::nullopt;
  const auto day = separator == 0 ? in.digits(2, 2) : in.digits(1, 2);
  char between = 0;
  if (!day || !in.take_any("T _-t", &between)) return std::nullopt;
  if (between == ' ') in.blanks();
  const auto time = time_of_day(in);
  const microseconds offset = zone(in, between == ' ');
  return made(in, days_of({*year, *month, *day}), time, offset);
}

// glog: [level]MMDD HH:MM:SS.ffffff; c10 leaves out the zero before the month.
std::optional<StampMatch> month_day_packed(Cursor in, int default_year, bool level_letter) {
  if (level_letter && !in.take_any("IWEFDVCT")) return std::nullopt;
  const std::size_t start = in.position();
  std::size_t count = 0;
  while (count < 9 && is_digit(in.peek(count))) ++count;
  Date date{default_year, 0, 0};
  if (count == 8 && level_letter) {
    date.year = in.digits(4, 4).value_or(0);
  } else if (count != 4 && !(count == 3 && level_letter)) {
    in.back_to(start);
    return std::nullopt;
  }
  const int month_digits = count == 3 ? 1 : 2;
  date.month = in.digits(month_digits, month_digits).value_or(0);
  date.day = in.digits(2, 2).value_or(0);
  if (!in.take(' ')) return std::nullopt;
  const auto time = time_of_day(in, true);
  return made(in, days_of(date), time, microseconds(0));
}

// [Tue[,]] Jun  3 22:45:01[.fff] [UTC] [2025] | Tue, 03 Jun 2025 22:45:01 GMT | Tue 2025-06-03 22:45:01 UTC
std::optional<StampMatch> month_name(Cursor in, std::string_view text, int default_year) {
  const bool weekday = in.name(kDays).has_value();
  if (weekday) {
    in.take(',');
    if (!in.blanks()) return std::nullopt;
  }
  if (weekday && is_digit(in.peek()) && is_digit(in.peek(2))) {
    const std::size_t start = in.position();
    auto inner = year_first(Cursor(text.substr(start)));
    if (inner) inner->length += start;
    return inner;
  }
  Date date{default_year, 0, 0};
  if (weekday && is_digit(in.peek())) {
    date.day = in.digits(1, 2).value_or(0);
    in.take_any(" -");
    date.month = in.name(kMonths).value_or(0);
    in.take_any(" -");
    date.year = in.digits(4, 4).value_or(0);
    if (!in.blanks()) return std::nullopt;
    const auto time = time_of_day(in);
    const microseconds offset = zone(in, true);
    return made(in, days_of(date), time, offset);
  }
  date.month = in.name(kMonths).value_or(0);
  if (date.month == 0 || !in.blanks()) return std::nullopt;
  date.day = in.digits(1, 2).value_or(0);
  in.take(',');
  if (!in.blanks()) return std::nullopt;
  // Jun 3 2025 22:45:01 (Cisco, slurm) or Jun 3 22:45:01.
  if (is_digit(in.peek(0)) && is_digit(in.peek(3)) && in.peek(4) == ' ') {
    date.year = in.digits(4, 4).value_or(0);
    in.blanks();
  }
  const auto time = time_of_day(in);
  if (!time) return std::nullopt;
  // An optional zone word (up to five capitals) and the year.
  std::size_t end = in.position();
  if (in.take(' ')) {
    std::size_t letters = 0;
    while (letters < 6 && in.peek(letters) >= 'A' && in.peek(letters) <= 'Z') ++letters;
    if (letters >= 3 && letters <= 5 && in.peek(letters) == ' ') in.back_to(in.position() + letters + 1);
    const auto year = in.digits(4, 4);
    if (year && *year >= 1970 && *year < 2263 && !is_alnum(in.peek()) && weekday) {
      date.year = *year;
      end = in.position();
    }
  }
  in.back_to(end);
  return made(in, days_of(date), time, microseconds(0));
}

// NN/NN/NNNN, NN/NN/NN, NN/Mon/NNNN.
std::optional<StampMatch> slashed(Cursor in, int default_year) {
  const auto first = in.digits(1, 2);
  if (!first || !in.take('/')) return std::nullopt;
  std::optional<std::chrono::sys_days> days;
  if (const auto month = in.name(kMonths)) {
    if (!in.take('/')) return std::nullopt;
    const auto year = in.digits(4, 4);
    if (year) days = days_of({*year, *month, *first});
  } else {
    const auto second = in.digits(1, 2);
    if (!second || !in.take('/')) return std::nullopt;
    const std::size_t before = in.position();
    const auto third = in.digits(2, 4);
    if (!third) return std::nullopt;
    if (in.position() - before == 4) {
      days = days_of({*third, *first, *second});
      if (!days) days = days_of({*third, *second, *first});
    } else {
      const std::array<Date, 3> readings = {Date{2000 + *third, *first, *second}, Date{2000 + *first, *second, *third},
                                            Date{2000 + *third, *second, *first}};
      int best = 1 << 30;
      for (const Date& date : readings) {
        const auto possible = days_of(date);
        const int distance = std::abs(date.year - default_year);
        if (possible && distance < best) {
          best = distance;
          days = possible;
        }
      }
    }
  }
  char between = 0;
  if (!in.take_any(" :-T,", &between)) return std::nullopt;
  in.blanks();
  auto time = time_of_day(in);
  if (!time) return std::nullopt;
  const std::size_t end = in.position();
  const std::int64_t hour = time->count() / 3'600'000'000LL;
  if (in.take(' ') && (in.peek() == 'A' || in.peek() == 'P') && in.peek(1) == 'M' && !is_alnum(in.peek(2)) && hour >= 1 && hour <= 12) {
    const bool afternoon = in.peek() == 'P';
    in.word(afternoon ? "PM" : "AM");
    *time += std::chrono::hours((afternoon ? 12 : 0) - (hour == 12 ? 12 : 0));
    return made(in, days, time, microseconds(0));
  }
  in.back_to(end);
  const microseconds offset = zone(in, true);
  return made(in, days, time, offset);
}

// MM-DD HH:MM:SS
std::optional<StampMatch> month_day_dash(Cursor in, int default_year) {
  const auto month = in.digits(2, 2);
  if (!month || !in.take('-')) return std::nullopt;
  const auto day = in.digits(2, 2);
  if (!day || !in.take(' ')) return std::nullopt;
  const auto time = time_of_day(in);
  return made(in, days_of({default_year, *month, *day}), time, microseconds(0));
}

}  // namespace

std::optional<StampMatch> read_timestamp(std::string_view text, int default_year) {
  if (text.size() < 14) return std::nullopt;
  const Cursor in(text);
  const char c = text[0];
  if (is_digit(c)) {
    std::size_t digits = 1;
    while (digits < 9 && is_digit(in.peek(digits))) ++digits;
    const char next = in.peek(digits);
    if (digits <= 2 && next == '/') return slashed(in, default_year);
    if (digits == 2 && next == '-') return month_day_dash(in, default_year);
    if (digits == 4 && next == ' ') return month_day_packed(in, default_year, false);
    if (digits == 4 || digits == 8) return year_first(in);
    return std::nullopt;
  }
  if (c >= 'A' && c <= 'Z') {
    if (is_digit(text[1])) return month_day_packed(in, default_year, true);
    return month_name(in, text, default_year);
  }
  return std::nullopt;
}

std::size_t clock_length(std::string_view text) {
  Cursor in(text);
  if (!is_digit(in.peek()) || !is_digit(in.peek(1)) || !time_of_day(in)) return 0;
  return is_alnum(in.peek()) || in.peek() == ':' ? 0 : in.position();
}

std::optional<TimePoint> read_epoch(std::string_view number) {
  const std::size_t point = number.find('.');
  const auto whole = read_integer(number.substr(0, point));
  if (!whole || *whole <= 0) return std::nullopt;
  if (*whole >= 1'000'000'000 && *whole < 10'000'000'000) {
    double fraction = 0;
    if (point != std::string_view::npos) fraction = read_double(number.substr(point)).value_or(0);
    return TimePoint(microseconds(*whole * 1'000'000 + static_cast<std::int64_t>(fraction * 1e6 + 0.5)));
  }
  if (*whole >= 1'000'000'000'000 && *whole < 10'000'000'000'000) return TimePoint(microseconds(*whole * 1000));
  if (*whole >= 1'000'000'000'000'000 && *whole < 10'000'000'000'000'000) return TimePoint(microseconds(*whole));
  if (*whole >= 1'000'000'000'000'000'000) return TimePoint(microseconds(*whole / 1000));
  return std::nullopt;
}

}  // namespace triage::parsers
