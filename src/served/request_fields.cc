#include "served/request_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "heed/error.h"
#include "heed/text.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::json;

constexpr size_t kDeepest = 8;

// A value in few letters, for messages.
std::string shown(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

// The parser's own words, without its error number.
std::string reason(const Json::exception& error) {
  const std::string_view text = error.what();
  const size_t end = text.find("] ");
  return std::string(text.starts_with('[') && end != text.npos ? text.substr(end + 2) : text).substr(0, 200);
}

// Goes over a request and refuses what the parser takes. The parser's own callback is not for this: with one, it looks
// through all members of the parent at the end of each object.
class Checks : public Json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (!keys_.back().insert(name).second) throw UsageError("the request has the key " + shown(name) + " twice");
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    throw UsageError("the request is not JSON: " + sanitize_utf8(reason(error)));
  }

 private:
  bool open() {
    if (keys_.size() == kDeepest)
      throw UsageError("the request is nested deeper than " + std::to_string(kDeepest) + " levels");
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;  // of each object and list that is open
};

Json parsed(const std::string& body) {
  if (const size_t at = body.find('\0'); at != body.npos)  // the parser would take it for the end
    throw UsageError("the request is not JSON: byte " + std::to_string(at) + " is 0");
  Checks checks;
  Json::sax_parse(body, &checks);
  return Json::parse(body);
}

}  // namespace

struct RequestFields::State {
  Json object = Json::object();
  std::vector<std::string> known{};

  // The value of a key; null where it is absent.
  const Json* find(const char* key) {
    known.emplace_back(key);
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  const Json& at(const char* key, const char* what) {
    if (const Json* const value = find(key)) return *value;
    throw UsageError(std::string(key) + " is missing: " + what);
  }
};

namespace {

[[noreturn]] void refuse(const std::string& key, const Json& value, const std::string& what) {
  throw UsageError(key + " is " + shown(value) + "; it must be " + what);
}

std::string text_of(const char* key, const Json& value) {
  if (!value.is_string()) refuse(key, value, "a string");
  return value.get<std::string>();
}

std::vector<std::string> texts_of(const char* key, const Json& value, size_t most) {
  if (!value.is_array()) refuse(key, value, "a list of strings");
  if (value.size() > most)
    throw UsageError(std::string(key) + " has " + std::to_string(value.size()) + " strings; at most " +
                     std::to_string(most) + " are taken at once");
  std::vector<std::string> texts;
  for (const Json& one : value)
    texts.push_back(text_of((key + ("[" + std::to_string(texts.size()) + "]")).c_str(), one));
  return texts;
}

}  // namespace

RequestFields::RequestFields(const std::string& body) : state_(new State{parsed(body)}) {
  if (!state_->object.is_object())
    throw UsageError("the request is " + shown(state_->object) + "; send an object, {...}");
}

RequestFields::~RequestFields() = default;

std::string RequestFields::text(const char* key) { return text_of(key, state_->at(key, "a string")); }

std::string RequestFields::text_or(const char* key, const std::string& absent) {
  const Json* const value = state_->find(key);
  return value ? text_of(key, *value) : absent;
}

std::vector<std::string> RequestFields::texts(const char* key, size_t most) {
  return texts_of(key, state_->at(key, "a list of strings"), most);
}

std::vector<std::string> RequestFields::texts_or_none(const char* key, size_t most) {
  const Json* const value = state_->find(key);
  return value ? texts_of(key, *value, most) : std::vector<std::string>();
}

int64_t RequestFields::whole_or(const char* key, int64_t absent, int64_t least, int64_t most) {
  return whole(key, least, most).value_or(absent);
}

std::optional<int64_t> RequestFields::whole(const char* key, int64_t least, int64_t most) {
  const Json* const value = state_->find(key);
  if (!value) return {};
  const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                                : value->is_number_integer();
  if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most)
    refuse(key, *value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value->get<int64_t>();
}

std::optional<uint64_t> RequestFields::seed(const char* key) {
  const Json* const value = state_->find(key);
  if (value && !value->is_number_unsigned()) refuse(key, *value, "a whole number from 0 to 2^64 - 1");
  return value ? std::optional(value->get<uint64_t>()) : std::nullopt;
}

std::optional<double> RequestFields::number(const char* key) {
  const Json* const value = state_->find(key);
  if (value && !value->is_number()) refuse(key, *value, "a number");
  return value ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<bool> RequestFields::flag(const char* key) {
  const Json* const value = state_->find(key);
  if (value && !value->is_boolean()) refuse(key, *value, "true or false");
  return value ? std::optional(value->get<bool>()) : std::nullopt;
}

bool RequestFields::flag_or(const char* key, bool absent) { return flag(key).value_or(absent); }

void RequestFields::expect_no_others() const {
  for (const auto& [key, value] : state_->object.items())
    if (std::find(state_->known.begin(), state_->known.end(), key) == state_->known.end()) {
      std::string listed;
      for (const std::string& name : state_->known) listed += (listed.empty() ? "" : ", ") + name;
      const std::string hint = did_you_mean(key, state_->known);
      throw UsageError("unknown key " + shown(key) + (hint.empty() ? "; there are " + listed : hint));
    }
}

}  // namespace heed::inline v0
