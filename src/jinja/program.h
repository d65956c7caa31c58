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
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace heed::inline v0::jinja {

struct Node;

class Program {
 public:
  /// Throws ProgramError for text that is not a program, and for statements that heed does not have.
  explicit Program(std::string_view source);

  /// The output of the program. Throws ProgramError, and its kinds BoundError and RaisedError.
  std::string run(const Dict& variables) const;
  /// Whether the program names a variable.
  bool reads(std::string_view variable) const;

 private:
  std::shared_ptr<const std::vector<Node>> body_;
  size_t size_ = 0;  // bytes
};

}  // namespace heed::inline v0::jinja
