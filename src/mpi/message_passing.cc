// libheed_messages: the only file that knows MPI, through its C interface.
#include "mpi/message_passing.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

namespace heed::inline v0 {
namespace {

// Counts are int: longer messages go in pieces, which both sides cut alike.
constexpr int64_t kPiece = int64_t{1} << 30;

MPI_Comm g_comm = MPI_COMM_NULL;  // apart from other messages of the program
bool g_began = false;             // MPI, here
char g_error[MPI_MAX_ERROR_STRING + 1] = "";
char g_library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";

bool ok(int code) {
  if (code == MPI_SUCCESS) return true;
  int length = 0;
  MPI_Error_string(code, g_error, &length);
  return false;
}

bool refuse(const char* reason) {
  std::strcpy(g_error, reason);
  return false;
}

struct Request {
  std::vector<MPI_Request> pieces;
  int64_t bytes = 0;  // of the pieces that have ended
};

/// move(data, count, request) for each piece.
template <class Move>
void* in_pieces(int64_t bytes, Move&& move) {
  auto* const request = new (std::nothrow) Request;
  if (!request) return nullptr;
  for (int64_t at = 0; at == 0 || at < bytes; at += kPiece) {
    MPI_Request piece = MPI_REQUEST_NULL;
    if (!ok(move(at, static_cast<int>(std::min(bytes - at, kPiece)), &piece))) {
      delete request;
      return nullptr;
    }
    request->pieces.push_back(piece);
  }
  return request;
}

void* send(const void* data, int64_t bytes, int to, int tag) {
  return in_pieces(bytes, [&](int64_t at, int count, MPI_Request* piece) {
    return MPI_Isend(static_cast<const char*>(data) + at, count, MPI_BYTE, to, tag, g_comm, piece);
  });
}

void* receive(void* data, int64_t bytes, int from, int tag) {
  return in_pieces(bytes, [&](int64_t at, int count, MPI_Request* piece) {
    return MPI_Irecv(static_cast<char*>(data) + at, count, MPI_BYTE, from, tag, g_comm, piece);
  });
}

MessageProgress test(void* opaque, int64_t* bytes) {
  auto* const request = static_cast<Request*>(opaque);
  while (!request->pieces.empty()) {
    int done = 0, count = 0;
    MPI_Status status;
    if (!ok(MPI_Test(&request->pieces.front(), &done, &status))) return delete request, MessageProgress::failed;
    if (!done) return MessageProgress::none;
    MPI_Get_count(&status, MPI_BYTE, &count);
    request->bytes += count;
    request->pieces.erase(request->pieces.begin());
  }
  *bytes = request->bytes;
  delete request;
  return MessageProgress::done;
}

void cancel(void* opaque) {
  auto* const request = static_cast<Request*>(opaque);
  for (MPI_Request& piece : request->pieces) {
    if (MPI_Cancel(&piece) != MPI_SUCCESS) continue;
    // Not MPI_Wait: what is half there from a rank that is gone never ends.
    const double begin = MPI_Wtime();
    for (int done = 0; !done && MPI_Wtime() - begin < 1;) MPI_Test(&piece, &done, MPI_STATUS_IGNORE);
  }
  delete request;
}

MessageProgress probe(int tag, int* from, int64_t* bytes) {
  int there = 0, count = 0;
  MPI_Status status;
  if (!ok(MPI_Iprobe(MPI_ANY_SOURCE, tag, g_comm, &there, &status))) return MessageProgress::failed;
  if (!there) return MessageProgress::none;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *from = status.MPI_SOURCE;
  *bytes = count;
  return MessageProgress::done;
}

const char* error() { return g_error; }

void end() {
  MPI_Comm_free(&g_comm);
  if (g_began) MPI_Finalize();
}

bool start() {
  int runs = 0, over = 0, threads = 0;
  MPI_Initialized(&runs);
  MPI_Finalized(&over);
  if (over) return refuse("MPI has ended in this process; connect once");
  if (!runs) {
    if (!ok(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads))) return false;
    g_began = true;
  }
  return ok(MPI_Comm_dup(MPI_COMM_WORLD, &g_comm)) && ok(MPI_Comm_set_errhandler(g_comm, MPI_ERRORS_RETURN));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const MessagePassing* heed_message_passing_1(const char** reason) {
  static MessagePassing functions{0, 0, g_library, false, send, receive, test, cancel, probe, error, end};
  *reason = g_error;
  if (g_comm != MPI_COMM_NULL) {
    refuse("this process is connected; end that communicator first");
    return nullptr;
  }
  if (!start()) return nullptr;
  int length = 0, threads = 0;
  // A program that has begun MPI may be in it while we are.
  MPI_Query_thread(&threads);
  functions.from_any_thread = threads >= (g_began ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(g_comm, &functions.rank);
  MPI_Comm_size(g_comm, &functions.size);
  MPI_Get_library_version(g_library, &length);
  *std::find_if(g_library, g_library + length, [](char c) { return c == ',' || c == '\n'; }) = '\0';
  std::replace(g_library, g_library + length, '\t', ' ');
  return &functions;
}

}  // namespace heed::inline v0
