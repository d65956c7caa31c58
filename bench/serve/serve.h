// One JSON line in, one out: how the compare.py of each benchmark asks long-lived processes for their times.
// turn.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace heed::bench {

/// Raised for what an implementation does not offer; becomes {"unsupported": reason}.
struct Unsupported {
  std::string reason;
};

using Call = std::function<void()>;
/// What a request asks to be timed; fields that are not of the protocol are the program's own.
using Prepare = std::function<Call(const nlohmann::json& request)>;
using Answer = std::function<nlohmann::json(const nlohmann::json& request)>;

/// Answers requests from standard input until it ends:
///   {"op": "hello"}                  -> {"name": ..., "version": ...}
///   {"op": "run", "seconds": s, ...} -> {"seconds": [of each repetition], "variant": ...}
///   {"op": "peak"}                   -> {"flops": a second, of all threads}
///   {"op": "bandwidth", "bytes": n}  -> {"bytes": a second}
///   {"op": "memory", ...}            -> {"bytes": held by one call beyond inputs and outputs,
///                                        "allocations": calls of operator new in it}
///   {"op": NAME, ...}                -> what more[NAME] answers
/// The tensors of a request are made once and kept until another request comes.
int serve(const std::string& name, const std::string& version, const Prepare& prepare,
          const std::map<std::string, Answer>& more = {});

}  // namespace heed::bench
