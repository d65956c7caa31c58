// The scopes of names while a program is parsed. Jinja (3.1.6, idtracking.py) decides which names a scope sets before
// it runs the program. heed looks names up during the run. The parser refuses programs where this makes a difference:
// those that read a name which a run has from the beginning, such as bos_token, in a loop or macro and set it after
// that.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace heed::inline v0::jinja {

/// All functions take the line of the name, for the message, and throw ProgramError.
class NameScopes {
 public:
  /// `given`: names that a run has besides those that every run has.
  explicit NameScopes(std::span<const std::string> given);

  void enter() { scopes_.emplace_back(); }
  void leave() { scopes_.pop_back(); }
  /// Replaces the innermost scope by a new one.
  void renew() { scopes_.back() = {}; }
  bool is_outermost() const { return scopes_.size() == 1; }

  /// Begin and end of an `if` in the innermost scope.
  void enter_branches() { ++scopes_.back().branches; }
  void leave_branches() { --scopes_.back().branches; }

  /// The program reads a name.
  void read(const std::string& name, size_t line);
  /// The program sets a name. In Jinja, a name that a scope sets is undefined before, also in inner scopes, unless the
  /// scope reads it first or sets it in a branch.
  void set(const std::string& name, size_t line);
  /// The target of a loop, or a parameter.
  void declare(const std::string& name, size_t line);

 private:
  // Records that the innermost scope has the name, with the value of the enclosing scope.
  void use(const std::string& name);

  // One scope. `seen` and `known` have only names of given_.
  struct Names {
    int branches = 0;               // open `if` statements of the scope
    std::set<std::string> seen{};   // names read in the scope, or in an inner one
    std::set<std::string> known{};  // names that the scope reads or sets
  };
  std::set<std::string> given_;  // names that a run has before the program sets any
  std::vector<Names> scopes_{1};
};

}  // namespace heed::inline v0::jinja
