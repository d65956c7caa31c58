#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "heed/io.h"
#include "io/json.h"

namespace heed::inline v0 {

struct ConfigReader::State {
  nlohmann::json object = nlohmann::json::object();
  std::string where;
  std::set<std::string> asked;

  const nlohmann::json* find(const std::string& key) {
    asked.insert(key);
    const auto it = object.find(key);
    return it == object.end() ? nullptr : &*it;
  }
  [[noreturn]] void missing(const std::string& key, const std::string& permitted) const {
    throw FormatError(where + ": " + in_quotes(key) + " is missing; it must be " + permitted);
  }
  [[noreturn]] void wrong(const std::string& key, const nlohmann::json& value, const std::string& permitted) const {
    std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (text.size() > 80) text = text.substr(0, 80) + "...";
    throw FormatError(where + ": " + in_quotes(key) + " is " + text + "; it must be " + permitted);
  }
};

namespace {

std::string shown(double value) { return nlohmann::json(value).dump(); }

/// Edits (insert, delete, replace) between two words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

ConfigReader::ConfigReader(std::string_view json, std::string where) : state_(new State{{}, std::move(where), {}}) {
  state_->object = parse_json(json, state_->where);
  if (!state_->object.is_object()) throw FormatError(state_->where + ": not a JSON object; it must start with {");
}

ConfigReader::ConfigReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ConfigReader::~ConfigReader() = default;
ConfigReader::ConfigReader(ConfigReader&&) noexcept = default;
ConfigReader& ConfigReader::operator=(ConfigReader&&) noexcept = default;

bool ConfigReader::has(std::string_view key) const { return state_->object.contains(std::string(key)); }

int64_t ConfigReader::integer(const std::string& key, int64_t lowest, int64_t highest,
                              std::optional<int64_t> fallback) {
  const std::string permitted = "a whole number in " + std::to_string(lowest) + ".." + std::to_string(highest);
  const nlohmann::json* value = state_->find(key);
  if (!value) return fallback ? *fallback : (state_->missing(key, permitted), 0);
  if (!value->is_number_integer()) state_->wrong(key, *value, permitted);
  // An unsigned value above int64's range would turn negative in get<int64_t>().
  const bool too_large = value->is_number_unsigned() &&
                         value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (too_large || value->get<int64_t>() < lowest || value->get<int64_t>() > highest)
    state_->wrong(key, *value, permitted);
  return value->get<int64_t>();
}

double ConfigReader::number(const std::string& key, double lowest, double highest, std::optional<double> fallback) {
  const std::string permitted = "a number in " + shown(lowest) + ".." + shown(highest);
  const nlohmann::json* value = state_->find(key);
  if (!value) return fallback ? *fallback : (state_->missing(key, permitted), 0);
  if (!value->is_number()) state_->wrong(key, *value, permitted);
  const auto number = value->get<double>();
  if (!(number >= lowest && number <= highest)) state_->wrong(key, *value, permitted);
  return number;
}

bool ConfigReader::boolean(const std::string& key, std::optional<bool> fallback) {
  const nlohmann::json* value = state_->find(key);
  if (!value) return fallback ? *fallback : (state_->missing(key, "true or false"), false);
  if (!value->is_boolean()) state_->wrong(key, *value, "true or false");
  return value->get<bool>();
}

std::string ConfigReader::string(const std::string& key, std::optional<std::string> fallback) {
  const nlohmann::json* value = state_->find(key);
  if (!value) return fallback ? *fallback : (state_->missing(key, "a string"), std::string());
  if (!value->is_string()) state_->wrong(key, *value, "a string");
  return value->get<std::string>();
}

std::string ConfigReader::one_of(const std::string& key, const std::vector<std::string>& permitted,
                                 std::optional<std::string> fallback) {
  std::string list;
  for (size_t i = 0; i < permitted.size(); ++i)
    list += (i == 0 ? "" : i + 1 == permitted.size() ? " or " : ", ") + in_quotes(permitted[i]);
  const nlohmann::json* value = state_->find(key);
  if (!value) return fallback ? *fallback : (state_->missing(key, list), std::string());
  if (!value->is_string() || std::find(permitted.begin(), permitted.end(), *value) == permitted.end())
    state_->wrong(key, *value, list);
  return value->get<std::string>();
}

ConfigReader ConfigReader::object(const std::string& key) {
  const nlohmann::json* value = state_->find(key);
  if (!value) state_->missing(key, "an object");
  if (!value->is_object()) state_->wrong(key, *value, "an object");
  return ConfigReader(std::unique_ptr<State>(new State{*value, state_->where + ": in " + in_quotes(key), {}}));
}

void ConfigReader::finish() const {
  for (const auto& [key, value] : state_->object.items()) {
    if (state_->asked.contains(key)) continue;
    std::string message = state_->where + ": unknown key " + in_quotes(key);
    const auto shortened = std::string_view(key).substr(0, 100);
    const auto nearest = std::min_element(
        state_->asked.begin(), state_->asked.end(),
        [&](const std::string& a, const std::string& b) { return distance(shortened, a) < distance(shortened, b); });
    if (nearest != state_->asked.end()) message += "; the nearest known key is " + in_quotes(*nearest);
    throw FormatError(message);
  }
}

struct ConfigWriter::State {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
};

ConfigWriter::ConfigWriter() : state_(std::make_unique<State>()) {}
ConfigWriter::~ConfigWriter() = default;

ConfigWriter& ConfigWriter::set_integer(std::string_view key, int64_t value) {
  state_->object[std::string(key)] = value;
  return *this;
}

ConfigWriter& ConfigWriter::set_boolean(std::string_view key, bool value) {
  state_->object[std::string(key)] = value;
  return *this;
}

ConfigWriter& ConfigWriter::set(std::string_view key, double value) {
  if (!std::isfinite(value))
    throw FormatError("config: " + in_quotes(key) + " is not finite; JSON has finite numbers only");
  state_->object[std::string(key)] = value;
  return *this;
}

ConfigWriter& ConfigWriter::set(std::string_view key, std::string_view value) {
  state_->object[std::string(key)] = value;
  return *this;
}

ConfigWriter& ConfigWriter::set(std::string_view key, const ConfigWriter& object) {
  state_->object[std::string(key)] = object.state_->object;
  return *this;
}

std::string ConfigWriter::text() const {
  try {
    return state_->object.dump(2) + "\n";
  } catch (const nlohmann::json::exception& error) {
    throw FormatError("config: a string is not UTF-8: " + json_reason(error));
  }
}

}  // namespace heed::inline v0
