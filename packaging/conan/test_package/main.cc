#include <crossdock/session/client.h>
#include <crossdock/session/server.h>
#include <crossdock/version.h>

#include <iostream>

int main() {
  crossdock::session::Server server;
  crossdock::session::Client client(server.uri());
  std::cout << "crossdock " << crossdock::version() << " serves " << client.list().size() << " tables\n";
}
