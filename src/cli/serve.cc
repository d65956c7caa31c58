// heed serve: a model behind HTTP.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/load_options.h"
#include "cli/paths.h"
#include "heed/error.h"
#include "heed/http_server.h"
#include "heed/served_model.h"

namespace heed::cli {
namespace {

struct ServeArguments {
  std::string model;
  LoadOptions load{};
  HttpServerOptions server;
};

int signal_pipe[2] = {-1, -1};
volatile std::sig_atomic_t caught_signal = 0;

/// Ends the server when a signal comes; a second one ends the process as ever.
class SignalWatch {
 public:
  explicit SignalWatch(HttpServer& server) {
    if (::pipe(signal_pipe) != 0) throw IoError(std::string("serve: no pipe: ") + std::strerror(errno));
    watcher_ = std::thread([&server] {
      char told = 0;
      while (::read(signal_pipe[0], &told, 1) < 0 && errno == EINTR) continue;
      server.stop();
    });
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      caught_signal = signal;
      tell();
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
  }
  ~SignalWatch() {
    tell();
    watcher_.join();
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  static void tell() {
    const int before = errno;
    [[maybe_unused]] const ssize_t written = ::write(signal_pipe[1], "", 1);
    errno = before;
  }

  std::thread watcher_;
};

// A connection is an open file, and shells allow few.
void allow_open_files(int64_t connections) {
  constexpr rlim_t kOthers = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(static_cast<rlim_t>(connections) + kOthers, limit.rlim_max);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void serve(const ServeArguments& a) {
  allow_open_files(a.server.connections);
  const std::string directory = find_model(a.model);
  const ServedModel model(directory, a.load);
  HttpServer server(model.routes(), a.server);
  {
    const SignalWatch watch(server);
    std::cout << server.address() << '\n';
    finish_output();
    note("serving " + directory + "; Ctrl-C ends it");
    server.run();
  }
  if (caught_signal != 0) throw ExitStatus{128 + caught_signal};
}

}  // namespace

void add_serve(CLI::App& program) {
  const auto a = std::make_shared<ServeArguments>();
  CLI::App* command = program.add_subcommand("serve", "Answer over HTTP: translate, generate, embed, attend");
  command->description(
      "Answer over HTTP: translate, generate, embed, attend\n\n"
      "Prints an address, whose page shows the attention of a text that is typed there. POST of JSON to translate,\n"
      "generate, embed and attend below the address gives JSON (docs/serving.md). Who does not know the address gets\n"
      "nothing: it has a random part. One request is answered at a time, and others wait. Ctrl-C ends it.");
  command->add_option("-m,--model", a->model, "Directory of the model [HEED_MODEL, else the bundled one]")
      ->type_name("DIR");
  add_load_options(*command, a->load);
  command
      ->add_option("--host", a->server.host,
                   "Name or address to listen on; 0.0.0.0 for all that the machine has, without encryption")
      ->type_name("NAME")
      ->check(not_empty())
      ->capture_default_str();
  command->add_option("--port", a->server.port, "Port to listen on [a free one]")->check(CLI::Range(0, 65535));
  command->add_option("--waiting", a->server.waiting, "Requests that may wait; more are told to come back")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--time-limit", a->server.seconds, "Seconds that a request is worked on at most")
      ->check(finite_number())
      ->check(in_range(0.001, 86400))
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  heed serve\n"
      "  heed serve --model my-writer --port 8080");
  command->callback([a] { serve(*a); });
}

}  // namespace heed::cli
