// The JSON object that a request carries, by its keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heed::inline v0 {

/// All throw UsageError, which names the key, where a value is not what it must be. What is asked for is known:
/// expect_no_others() refuses the rest.
class RequestFields {
 public:
  /// Refuses what is no JSON, no object, nested deeper than 8 levels, or has a key twice.
  explicit RequestFields(const std::string& body);
  ~RequestFields();

  std::string text(const char* key);  // must be there, as with texts()
  std::string text_or(const char* key, const std::string& absent);
  std::vector<std::string> texts(const char* key, size_t most);
  std::vector<std::string> texts_or_none(const char* key, size_t most);
  std::optional<int64_t> whole(const char* key, int64_t least, int64_t most);  // nothing where absent, as with number()
  int64_t whole_or(const char* key, int64_t absent, int64_t least, int64_t most);
  std::optional<uint64_t> seed(const char* key);
  std::optional<double> number(const char* key);
  std::optional<bool> flag(const char* key);
  bool flag_or(const char* key, bool absent);
  void expect_no_others() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::inline v0
