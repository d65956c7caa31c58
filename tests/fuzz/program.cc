// What the program reads beside files of models: options, and requests of heed serve.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/flags.h"
#include "fuzz/fuzz.h"
#include "heed/error.h"
#include "heed/head_changes.h"
#include "heed/http_server.h"
#include "recipe/config_file.h"
#include "serve/request_head.h"
#include "served/request_fields.h"

namespace heed::fuzz {
namespace {

// ------------------------------------------------------------------------------------------------- options in files

// What is read is written and read again as the same.
void run_toml(const std::string& bytes) {
  std::string again;
  const std::vector<ConfigEntry> entries = parse_config(bytes, "r.toml");
  for (const ConfigEntry& entry : entries)
    again += toml_line(entry.name, entry.values, /*list=*/true, /*quoted=*/true) + "\n";
  const std::vector<ConfigEntry> same = parse_config(again, "r.toml");
  expect(same.size() == entries.size(), "options that are written are read again");
  for (size_t i = 0; i < same.size(); ++i)
    expect(same[i].name == entries[i].name && same[i].values == entries[i].values, "options are read as written");
}
std::vector<std::string> toml_examples() {
  return {"# a recipe\npairs = [\"../data/*.tsv\", 'x']\nseed = 1\ndropout = 0.1\npre-norm = false\n",
          "a = \"\"\"\none \\\n  two\"\"\"\nb = '''x'''\nc = 0xFF\nd = 1_000\ne = -1.5e-3\nf = [ # why\n 1,\n]\n",
          "a = \"\\u00e9\\t\\\"\"\n[table]\na.b = 1\n"};
}

// ---------------------------------------------------------------------------------------------------- command lines

// Words, one a line, with which no command is run.
void run_options(const std::string& bytes) {
  static CLI::App* const program = [] {
    auto made = std::make_unique<CLI::App>("fuzz", "heed");
    for (void (*add)(CLI::App&) :
         {cli::add_train, cli::add_prepare, cli::add_translate, cli::add_generate, cli::add_score, cli::add_embed,
          cli::add_classify, cli::add_fill, cli::add_serve, cli::add_attend, cli::add_inspect, cli::add_tokenize,
          cli::add_logits, cli::add_attention, cli::add_bench, cli::add_export, cli::add_average})
      add(*made);
    made->require_subcommand(1);
    made->parse_complete_callback([] { throw CLI::Success(); });  // before any command runs
    return made.release();
  }();
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= bytes.size();) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    words.insert(words.begin(), bytes.substr(begin, end - begin));  // CLI11 takes them from the end
    begin = end + 1;
  }
  std::string message = bytes;
  try {
    program->parse(words);
  } catch (const CLI::ParseError& e) {
    message = e.what();
  }
  for (CLI::App* command : program->get_subcommands()) cli::with_flags(message, *command);
  try {
    read_heads_off(bytes);
  } catch (const Error&) {
  }
  read_head_changes(bytes);
}
std::vector<std::string> options_examples() {
  return {"train\n--pairs\nx.tsv\n--columns=2,1\n--model\nm\n--dropout\n0.1\n--max-minutes=5",
          "translate\n-m\nm\n--beam\n5\nHola.",
          "generate\n--temperature=0.5\n--top-k\n4\n--seed=7\n--\n-x",
          "attention\n--q\nq.npy\n--window=3,4\n--causal",
          "attend\n--head\n2\n--layer=1\n--without\n2.1,3.4\nla",
          "2.1=0.5,3.4=uniform",
          "bench\n--json\nx\n--seconds=.1"};
}

// --------------------------------------------------------------------------------------------------------- requests

void run_head(const std::string& bytes) {
  const RequestHead head = read_request_head(bytes);
  expect(head.status == 0 || head.status == 400 || head.status == 414 || head.status == 431,
         "a head has a known status");
  expect((head.status == 0) == head.error.empty(), "a refusal says why");
  if (head.status != 0) return;
  expect(head.kept.size() <= bytes.size() && head.kept.ends_with("\r\n\r\n"), "a head that is kept is one");
  const RequestHead again = read_request_head(head.kept);
  expect(again.status == 0 && again.kept == head.kept, "a head that is kept is kept");
}

// A request's fields, of every kind.
std::string answer(HttpCall& call) {
  RequestFields fields(call.request().body);
  std::string text = fields.text("text");
  for (const std::string& one : fields.texts_or_none("texts", 100)) text += one;
  text += std::to_string(fields.whole_or("beam", 5, 1, 64)) + std::to_string(fields.seed("seed").value_or(0)) +
          std::to_string(fields.number("temperature").value_or(1)) + std::to_string(fields.flag_or("split", true)) +
          std::to_string(fields.whole("top_k", 0, 100).value_or(0)) +
          std::to_string(fields.flag("sample").value_or(true));
  description_of(read_group_changes(fields.text_or("change", "")));
  fields.expect_no_others();
  call.put("piece\n");
  return text;
}

// A server that runs until the program ends. Its threads are joined then: the leak checker runs next, and can crash if
// a thread ends meanwhile.
class RunningServer {
 public:
  RunningServer()
      : server_({{"GET", "", "text/plain", [](HttpCall& call) { return call.request().languages; }},
                 {"POST", "x", "application/json", answer}},
                {.seconds = 2, .body_bytes = 1 << 16, .receive_seconds = 2, .connections = 4}),
        thread_([this] { server_.run(); }) {}
  ~RunningServer() {
    server_.stop();
    thread_.join();
  }
  const std::string& address() const { return server_.address(); }

 private:
  HttpServer server_;
  std::thread thread_;
};

// All of a request, to a server that runs. TOKEN stands for the random part of its address.
void run_request(const std::string& bytes) {
  static const RunningServer server;
  static const std::string token =
      server.address().substr(server.address().rfind('/', server.address().size() - 2) + 1, 32);
  static const int port = std::stoi(server.address().substr(server.address().rfind(':') + 1));
  run_head(bytes.substr(0, std::min(bytes.find("\r\n\r\n"), bytes.size()) + 4));

  std::string request = bytes;
  if (const size_t at = request.find("TOKEN"); at != request.npos) request.replace(at, 5, token);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{.sin_family = AF_INET,
                 .sin_port = htons(static_cast<uint16_t>(port)),
                 .sin_addr = {htonl(INADDR_LOOPBACK)},
                 .sin_zero = {}};
  expect(::connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "the server listens");
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t more = ::send(client, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) break;
    sent += static_cast<size_t>(more);
  }
  ::shutdown(client, SHUT_WR);
  std::string answered(1 << 16, '\0');
  size_t size = 0;
  for (ssize_t got;
       size < answered.size() && (got = ::recv(client, answered.data() + size, answered.size() - size, 0)) > 0;)
    size += static_cast<size_t>(got);
  ::close(client);
  answered.resize(size);
  expect(answered.empty() || answered.starts_with("HTTP/1.1 "), "an answer is one of HTTP/1.1");
}
std::vector<std::string> request_examples() {
  const std::string
      host = "Host: localhost\r\n",
      json = "Content-Type: application/json\r\n",
      body = R"({"text":"a","texts":["b"],"beam":3,"seed":7,"change":"Cross:2.1=0,3.4=uniform;Encoder:1.2=own"})";
  const auto post = [&](const std::string& content, const std::string& more) {
    return "POST /TOKEN/x HTTP/1.1\r\n" + host + json + more + "Content-Length: " + std::to_string(content.size()) +
           "\r\n\r\n" + content;
  };
  return {"GET /TOKEN/?text=El+perro HTTP/1.1\r\n" + host + "Accept-Language: es\r\nRange: bytes=0-3\r\n\r\n",
          "HEAD /TOKEN/ HTTP/1.0\r\n\r\n",
          post(body, ""),
          post(body, "Expect: 100-continue\r\n"),
          post("{}", "Transfer-Encoding: chunked\r\n"),
          "GET / HTTP/1.1\r\nHost: [::1]:80\r\nAccept-Encoding: gzip\r\n\r\n",
          "OPTIONS * HTTP/1.1\r\n" + host + "\r\n"};
}

constexpr Format kFormats[] = {{"toml", run_toml, toml_examples},
                               {"options", run_options, options_examples},
                               {"request_head", run_head, request_examples},
                               {"request", run_request, request_examples}};

}  // namespace

std::span<const Format> program_formats() { return kFormats; }

}  // namespace heed::fuzz
