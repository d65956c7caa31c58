// Chat templates as models bring them: programs in the language of Jinja 2 (3.1), as far as such templates use it. They
// are untrusted: a program has values and text, no files and nothing else of the process, and so many steps and bytes.
//
// It is run as transformers runs it: trim_blocks and lstrip_blocks, break and continue, {% generation %}, tojson,
// raise_exception and strftime_now. What Jinja has beyond that is refused where a program comes to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "heed/error.h"

namespace heed::inline v0::jinja {

/// Why a program does not run. One line.
class ProgramError : public Error {
 public:
  using Error::Error;
};
/// What the program itself says against its input (raise_exception).
class RaisedError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

class Value;
struct Arguments;
struct Namespace;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion, each key once
using Function = std::function<Value(const Arguments&)>;

struct Undefined {
  std::string name{};
};

/// What Jinja computes with: copies share lists, dictionaries and texts, which do not change.
class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Data = std::variant<Undefined, std::nullptr_t, bool, int64_t, double, Text, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Function>>;

  Value() = default;
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(List list);  // as the next one, throws ProgramError where values within each other are too many
  Value(Dict dict);
  Value(std::shared_ptr<Namespace> names) : data_(std::move(names)) {}
  Value(Function function) : data_(std::make_shared<const Function>(std::move(function))) {}
  /// A function of an object's.
  Value(Function function, const Value& object) : Value(std::move(function)) { lie_around(object); }
  static Value undefined(std::string name) {
    Value value;
    value.data_ = Undefined{std::move(name)};
    return value;
  }

  const Data& data() const { return data_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* number() const { return std::get_if<double>(&data_); }
  const std::string* text() const {
    const Text* const text = std::get_if<Text>(&data_);
    return text ? text->get() : nullptr;
  }
  const List* list() const {
    const auto* const list = std::get_if<std::shared_ptr<const List>>(&data_);
    return list ? list->get() : nullptr;
  }
  const Dict* dict() const {
    const auto* const dict = std::get_if<std::shared_ptr<const Dict>>(&data_);
    return dict ? dict->get() : nullptr;
  }
  Namespace* names() const {
    const auto* const names = std::get_if<std::shared_ptr<Namespace>>(&data_);
    return names ? names->get() : nullptr;
  }
  const Function* function() const {
    const auto* const function = std::get_if<std::shared_ptr<const Function>>(&data_);
    return function ? function->get() : nullptr;
  }

 private:
  void lie_around(const Value& inner);
  Data data_{};
  int depth_ = 0;  // how many lists and dictionaries are within each other
};

/// What a function is called with.
struct Arguments {
  List positional{};
  Dict named{};
};

/// A dictionary whose entries a program may set.
struct Namespace {
  Dict entries{};
};

/// Null where there is none.
const Value* find(const Dict& dict, std::string_view key);

struct Node;

class Program {
 public:
  /// Throws ProgramError where the text is no program, and for statements that heed does not have.
  explicit Program(std::string_view source);

  /// What it writes. Throws ProgramError, RaisedError.
  std::string run(const Dict& variables) const;
  /// Whether a variable is named in it.
  bool reads(std::string_view variable) const;

 private:
  std::shared_ptr<const std::vector<Node>> body_;
  size_t size_ = 0;  // bytes
};

}  // namespace heed::inline v0::jinja
