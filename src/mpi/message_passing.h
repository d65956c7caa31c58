// What libheed_messages gives: messages over MPI, as plain functions, so that nothing of C++ crosses and heed needs no
// MPI to start.
#pragma once

#include <cstdint>

namespace heed::inline v0 {

enum class MessageProgress : uint8_t { none, done, failed };

struct MessagePassing {
  int rank, size;
  const char* library;   // "Open MPI v4.1.4"
  bool from_any_thread;  // one at a time; else from the one that connected
  /// Begin to move bytes, which stay where they are until test() has not answered none; null when that fails.
  void* (*send)(const void* data, int64_t bytes, int to, int tag);
  void* (*receive)(void* data, int64_t bytes, int from, int tag);
  /// How far a request is; then it is gone, unless none. `bytes` of what was received.
  MessageProgress (*test)(void* request, int64_t* bytes);
  /// Gives a receive up that has not ended: its memory is no longer written to. The request is gone.
  void (*cancel)(void* request);
  /// A message with `tag` that waits to be received, from anybody.
  MessageProgress (*probe)(int tag, int* from, int64_t* bytes);
  /// What the last failure was.
  const char* (*error)();
  /// Ends MPI if heed began it.
  void (*end)();
};

/// Starts MPI where it does not run. Null, with the reason in `error`, when that fails. Change the number with the
/// struct above: a stale library is then refused.
using MessagePassingFunction = const MessagePassing* (*)(const char** error);
inline constexpr const char* kMessagePassingSymbol = "heed_message_passing_1";
inline constexpr const char* kMessagesLibrary = "libheed_messages.so.1";

}  // namespace heed::inline v0
