// An interpreter of chat templates. A chat template is a program in the language of Jinja 2 (3.1). heed has the part of
// the language that chat templates use.
//
// Programs are untrusted. A program has values and text, no access to files or to the process, and bounded steps and
// bytes. Its output is the output of transformers, with its settings and additions: trim_blocks and lstrip_blocks,
// `break` and `continue`, {% generation %}, tojson, raise_exception, strftime_now. heed refuses a program with other
// features: the parser does, or the run that reaches them.
// docs/decisions/0018-chat-templates.md says why heed has its own interpreter.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace heed::inline v0::jinja {

struct Node;

class Program {
 public:
  /// `tokens`: names of special tokens that a run has as variables, besides those of transformers' classes. Throws
  /// ProgramError for text that is not a program, and for statements that heed does not have.
  explicit Program(std::string_view source, std::span<const std::string> tokens = {});

  /// The output of the program. Throws ProgramError, and its kinds BoundError and RaisedError.
  std::string run(const Dict& variables) const;
  /// Names of variables that the program reads.
  std::set<std::string> reads() const;
  /// Names of variables that the program sets anywhere: by statements, targets of loops, macros and their parameters.
  std::set<std::string> sets() const;

 private:
  std::shared_ptr<const std::vector<Node>> body_;
  size_t size_ = 0;  // bytes
};

}  // namespace heed::inline v0::jinja
