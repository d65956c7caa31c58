#include "load/translations.h"

#include <cstring>
#include <string>
#include <type_traits>

namespace heed::inline v0 {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& to) : to_(to) {}
  template <class T>
  void number(T value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    to_.insert(to_.end(), bytes, bytes + sizeof value);
  }
  void text(const std::string& value) {
    number(value.size());
    const auto* const bytes = reinterpret_cast<const std::byte*>(value.data());
    to_.insert(to_.end(), bytes, bytes + value.size());
  }

 private:
  std::vector<std::byte>& to_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte>& from) : from_(from) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<size_t>();
    return {reinterpret_cast<const char*>(take(size)), size};
  }

 private:
  const std::byte* take(size_t size) {
    const std::span<const std::byte> front = from_.first(size);
    from_ = from_.subspan(size);
    return front.data();
  }
  std::span<const std::byte>& from_;
};

}  // namespace

void append_bytes(const std::vector<Translation>& translations, std::vector<std::byte>& to) {
  Writer out(to);
  out.number(translations.size());
  for (const Translation& t : translations) {
    out.text(t.text);
    out.number(t.score);
    out.number(t.log_probability);
    out.number(t.tokens.size());
    for (const auto& [piece, log_probability] : t.tokens) {
      out.text(piece);
      out.number(log_probability);
    }
    out.number(t.alignment.size());
    for (const auto& [source, target] : t.alignment) {
      out.number(source);
      out.number(target);
    }
  }
}

std::vector<Translation> take_translations(std::span<const std::byte>& from) {
  Reader in(from);
  std::vector<Translation> translations(in.number<size_t>());
  for (Translation& t : translations) {
    t.text = in.text();
    t.score = in.number<double>();
    t.log_probability = in.number<double>();
    t.tokens.resize(in.number<size_t>());
    for (auto& [piece, log_probability] : t.tokens) {
      piece = in.text();
      log_probability = in.number<float>();
    }
    t.alignment.resize(in.number<size_t>());
    for (auto& [source, target] : t.alignment) {
      source = in.number<int64_t>();
      target = in.number<int64_t>();
    }
  }
  return translations;
}

}  // namespace heed::inline v0
