#include "jinja/globals.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "jinja/arguments.h"

namespace heed::inline v0::jinja {
namespace {

Value range(const Arguments& given, Budget& budget) {
  expect_places(given, 1, 3, "range");
  const std::optional<int64_t> first = whole_argument(given, 0, "start"), second = whole_argument(given, 1, "stop");
  const int64_t by = whole_argument(given, 2, "step").value_or(1);
  const int64_t start = second ? *first : 0, stop = second.value_or(*first);
  constexpr int64_t kLargest = int64_t{1} << 40, kMostItems = 100'000;  // the second is the limit of Jinja's sandbox
  for (const int64_t part : {start, stop, by})
    if (part > kLargest || part < -kLargest || by == 0) fail("these arguments of 'range'");
  List all;
  for (int64_t i = start; by > 0 ? i < stop : i > stop; i += by) {
    budget.step();
    if (std::ssize(all) == kMostItems) fail("a range of more than " + std::to_string(kMostItems) + " items");
    all.emplace_back(i);
  }
  return budget.made(std::move(all), Sequence::range);
}

// The local time by a format of strftime().
std::string time_now(const std::string& format) {
  constexpr size_t kLongest = 200;
  if (format.size() > kLongest) fail("a form of a date that is too long");
  constexpr std::string_view kKnown = "aAbBdHIjmMpSyY%";
  for (size_t i = 0; (i = format.find('%', i)) != format.npos; i += 2)
    if (i + 1 == format.size() || kKnown.find(format[i + 1]) == kKnown.npos)
      fail("heed does not have this form of a date");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 16 * kLongest> text;
  return {text.data(), std::strftime(text.data(), text.size(), format.c_str(), &local)};
}

}  // namespace

void add_globals(Budget& budget, std::vector<std::shared_ptr<Namespace>>& namespaces, Variables* to) {
  const auto add = [&](const char* name, Function function) { (*to)[name] = std::move(function); };
  add("namespace", [&budget, &namespaces](const Arguments& given) -> Value {
    const bool hidden =
        std::any_of(given.named.begin(), given.named.end(), [](const auto& e) { return e.first.starts_with('_'); });
    if (!given.positional.empty() || hidden) fail("heed does not have these arguments of 'namespace'");
    budget.charge(Budget::kOverhead + given.named.size() * sizeof(Dict::value_type));
    namespaces.push_back(std::make_shared<Namespace>(Namespace{given.named}));
    return namespaces.back();
  });
  add("dict", [&budget](const Arguments& given) -> Value {
    if (!given.positional.empty()) fail("heed does not have these arguments of 'dict'");
    return budget.made(given.named);
  });
  add("range", [&budget](const Arguments& given) { return range(given, budget); });
  add("raise_exception", [](const Arguments& given) -> Value {
    expect_arguments(given, {"message"}, "raise_exception");
    throw RaisedError(needed_text(given, 0, "message"));
  });
  add("strftime_now", [&budget](const Arguments& given) {
    expect_arguments(given, {"format"}, "strftime_now");
    return budget.made(time_now(needed_text(given, 0, "format")));
  });
}

}  // namespace heed::inline v0::jinja
