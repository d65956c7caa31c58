// An interpreter of chat templates: programs in the language of Jinja 2 (3.1), as far as such templates use it. They
// are untrusted. A program has values and text, no access to files or to the process, and bounded steps and bytes.
//
// A program writes what transformers makes of it (trim_blocks and lstrip_blocks, break and continue, {% generation %},
// tojson, raise_exception, strftime_now), or is refused, by the parser or where a run reaches what heed does not have.
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
struct OnceRead;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion, each key once
using Function = std::function<Value(const Arguments&)>;

/// The kinds of lists that Python tells apart. A view is what the methods of dictionaries give.
enum class Sequence : uint8_t { list, tuple, range, view };

/// A value that Jinja computes with. Copies share lists, dictionaries and texts, which do not change.
class Value {
 public:
  using Undefined = std::monostate;
  using Text = std::shared_ptr<const std::string>;
  using Data = std::variant<Undefined, std::nullptr_t, bool, int64_t, double, Text, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Function>,
                            std::shared_ptr<OnceRead>>;

  Value() = default;
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  /// As the next two, throws ProgramError for values nested too deeply.
  Value(List list, Sequence sequence = Sequence::list);
  Value(Dict dict);
  Value(OnceRead generator);
  Value(std::shared_ptr<Namespace> names) : data_(std::move(names)) {}
  Value(Function function) : data_(std::make_shared<const Function>(std::move(function))) {}

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
  Sequence sequence() const { return sequence_; }  // of a list
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
  OnceRead* generator() const {
    const auto* const generator = std::get_if<std::shared_ptr<OnceRead>>(&data_);
    return generator ? generator->get() : nullptr;
  }

 private:
  void lie_around(const Value& inner);
  Data data_{};
  Sequence sequence_ = Sequence::list;
  int depth_ = 0;  // nested lists, dictionaries and generators
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

/// The items that a filter such as `map` gives. A program may go through them once.
struct OnceRead {
  List items{};
  bool used = false;
};

/// Null where there is none.
const Value* find(const Dict& dict, std::string_view key);

/// Text without white space, or without the given characters, at its left or right end, as Python's str.strip().
std::string_view stripped(std::string_view text, bool left, bool right, const std::string* characters = nullptr);

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
