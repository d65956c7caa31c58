// The values that a program computes with, as Python has them: kinds, truth, numbers, text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
/// The run exceeds its steps or bytes.
class BoundError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};
/// The program itself refuses its input, by raise_exception.
class RaisedError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// Throws ProgramError.
[[noreturn]] void fail(const std::string& what);

class Value;
struct Arguments;
struct Namespace;
struct OnceRead;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion, each key once
using Function = std::function<Value(const Arguments&)>;

/// The kinds of lists that Python distinguishes. The methods of dictionaries return views.
enum class Sequence : uint8_t { list, tuple, range, view };

/// A value. Copies share lists, dictionaries and texts, which do not change.
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
  /// This and the next two constructors throw ProgramError for values nested too deeply.
  Value(List list, Sequence sequence = Sequence::list);
  Value(Dict dict);
  Value(OnceRead generator);
  Value(std::shared_ptr<Namespace> names) : data_(std::move(names)) {}
  Value(Function function) : data_(std::make_shared<const Function>(std::move(function))) {}

  const Data& data() const { return data_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }

  // Null for a value of another kind.
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
  void count_depth(const Value& inner);
  Data data_{};
  Sequence sequence_ = Sequence::list;
  int depth_ = 0;  // nested lists, dictionaries and generators
};

/// The arguments of a function, method, filter or test.
struct Arguments {
  List positional{};
  Dict named{};
};

/// A dictionary whose entries a program can set.
struct Namespace {
  Dict entries{};
};

/// The result of a filter such as `map`. Python returns a generator, whose items can be read once.
struct OnceRead {
  List items{};
  bool used = false;
};

/// The entry of a key, or null.
const Value* find(const Dict& dict, std::string_view key);

/// The kind of a value in the words of error messages: "a text".
std::string kind_of(const Value& value);

bool is_true(const Value& value);

/// An integer, or a boolean as 0 or 1.
std::optional<int64_t> whole(const Value& value);
bool is_number(const Value& value);
/// Any number. Throws ProgramError for integers that a double does not hold exactly.
std::optional<double> numeric(const Value& value);

/// Python's str(). Throws ProgramError for lists, dictionaries, namespaces, functions and generators.
std::string text_of(const Value& value);

/// Bytes that a variable takes, approximately.
size_t size_of(const Value& value);

}  // namespace heed::inline v0::jinja
