// One thread reads two streams at the same time, each in a coroutine: ./coroutines URI
//
// table_server prints the URI. Any other server of a table "weather" will do as well.
#include <crossdock/session/await.h>
#include <crossdock/crossdock.hpp>

#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <utility>

#include "event_loop.h"

namespace xd = crossdock;

namespace {

Task count_rows(xd::session::Client& client, EventLoop& loop, std::string name, std::int64_t* rows) {
  const auto reader = client.get(name);
  const auto wait = [&loop](int descriptor, std::function<void()> ready) {
    return loop.when_readable(descriptor, std::move(ready));
  };
  while (const auto batch = co_await xd::session::next(*reader, wait)) *rows += batch->num_rows;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: coroutines URI, where table_server prints the URI\n";
    return 2;
  }
  try {
    xd::session::Client client(argv[1]);
    EventLoop loop;
    std::int64_t first = 0;
    std::int64_t second = 0;
    const Task one = count_rows(client, loop, "weather", &first);
    const Task other = count_rows(client, loop, "weather", &second);
    loop.run();
    one.get();
    other.get();
    std::cout << first << " rows, and " << second << " rows\n";
    return 0;
  } catch (const xd::Error& error) {
    std::cerr << xd::error_name(error.code()) << ": " << error.what() << '\n';
    return 1;
  }
}
