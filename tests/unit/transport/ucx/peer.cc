// Another process: the server of one client, until it is killed or the client is gone.
//   ucx_peer take    takes what comes
//   ucx_peer echo    returns each tagged message
//   ucx_peer bodies  sends bodies of 64 MiB without end, and takes what comes
//   ucx_peer reads   answers each request for bytes of its memory, whatever its address: with 64 MiB
// In every other mode, it makes no progress any more after a control message.
// Prints its port.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "crossdock/core/error.h"
#include "support.h"
#include "transport/ucx/control.h"

namespace crossdock::transport::ucx_test {
namespace {

void serve(std::string_view mode) {
  UcxContexts contexts(UcxOptions{});
  const auto listener = listen_at(contexts, "");
  std::printf("%d\n", port_of(listener->address()));
  std::fflush(stdout);
  if (!run_until({}, listener.get(), [&] { return listener->requests() > 0; })) return;
  End server;
  server.worker = std::make_shared<Worker>(contexts.for_local(listener->address()), kLimits, "the client");
  server.endpoint = listener->accept(server.worker);
  server.endpoint->send_control(as_bytes("accepted"));
  const auto body =
      std::make_shared<const std::vector<std::byte>>(pattern(mode == "bodies" || mode == "reads" ? 64 << 20 : 0));
  const std::array<ByteSpan, 2> parts = {ByteSpan(*body).first(body->size() / 2),
                                         ByteSpan(*body).subspan(body->size() / 2)};
  run_until(
      {server.worker.get()}, listener.get(),
      [&] {
        if (mode == "bodies" && server.worker->sends() < 2) server.endpoint->send_body(1, parts, body);
        while (const auto message = server.worker->take()) {
          ReadRequest request;
          if (mode == "reads" && decode(message->bytes, &request)) {
            server.endpoint->send_answer(request.id, parts, body);
            continue;
          }
          if (message->kind == MessageKind::kControl) return ::pause() == 0;
          if (mode == "echo" && message->kind == MessageKind::kTagged) {
            const std::array<ByteSpan, 1> echoed = {message->bytes};
            server.endpoint->send_body(message->tag, echoed, message->owner);
          }
        }
        return server.endpoint->failure().has_value();
      },
      120'000);
}

}  // namespace
}  // namespace crossdock::transport::ucx_test

int main(int argc, char** argv) {
  try {
    if (argc == 2) crossdock::transport::ucx_test::serve(argv[1]);
    return 0;
  } catch (const crossdock::Error& error) {
    std::fprintf(stderr, "ucx_peer: %s\n", error.what());
    return 1;
  }
}
