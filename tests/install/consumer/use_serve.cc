// A server that listens: that opens libheed_http from the prefix heed was installed to, where heed was built with one.
#include <heed/error.h>
#include <heed/http_server.h>

#include <cstdio>

int main() {
  const heed::HttpRoute hello{.method = "GET", .answer = [](heed::HttpCall&) { return std::string("{}"); }};
  try {
    const heed::HttpServer server({hello});
    std::printf("serve %s\n", server.address().substr(0, 17).c_str());
    return server.address().starts_with("http://127.0.0.1:") ? 0 : 1;
  } catch (const heed::UsageError& e) {
    std::printf("%s\n", e.what());
  }
  return 0;
}
