#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "fuzz.h"
#include "support/peer_links.h"

/// A peer sends what the bytes say: control messages, bodies, announcements. Whatever it is, this end stays as it
/// should: no more than the window is kept, frames lie in memory that was announced, and all memory that was lent is
/// either returned or never used again.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  using namespace crossdock::peers;
  constexpr std::uint64_t kMemory = 8192;
  // Made once: a pool costs system calls. Every input leaves it as it was.
  static const testing::PeerHub hub;
  static const auto theirs = hub.pool->allocate(kMemory);
  static const auto lease = hub.pool->lend(theirs.get(), kMemory);
  fuzz::Input input(fuzz::bytes(data, size));

  auto [here, there] = testing::peer_connections(64);
  PeerOptions options;
  options.share_from = 256;
  options.window_messages = 4;
  options.window_bytes = 4096;
  options.max_frames = 64;
  const auto link = hub.link(std::move(here), options);
  if (input.number<std::uint8_t>() % 4 != 0) {
    there->send(wire::encode(wire::Open{
                    .window_messages = 2, .max_frames = 8, .window_bytes = 4096, .max_body = 4096, .max_regions = 4}),
                {});
  }
  std::vector<Message> held;
  std::uint64_t base = 0;
  std::uint64_t taken = 0;
  const auto turn = [&] {
    while (link->turn()) {
    }
  };
  while (!input.empty() && !link->over()) {
    try {
      switch (input.number<std::uint8_t>() % 8) {
        case 0: there->send(input.take(input.number<std::uint8_t>()), {}); break;
        case 1: {
          const ByteSpan body = input.take(input.number<std::uint16_t>() % 4096);
          there->send_body(wire::kMessageTag, std::array{body}, nullptr);
          break;
        }
        case 2: {  // a body whose table is right but for its numbers
          std::vector<wire::FrameEntry> frames(input.number<std::uint8_t>() % 4);
          for (wire::FrameEntry& frame : frames) {
            frame.size = input.number<std::uint16_t>();
            frame.address = base == 0 ? 0 : base + input.number<std::uint16_t>();
            frame.region = input.number<std::uint8_t>() % 3;
          }
          there->send_body(wire::kMessageTag, std::array{ByteSpan(wire::encode_start(frames, {}))}, nullptr);
          break;
        }
        case 3:
          if (base == 0) base = there->announce(0, lease->region).value_or(0);
          break;
        case 4: {  // this end's user sends
          static const std::vector<std::byte> bytes(1024, std::byte{1});
          const std::size_t length = input.number<std::uint16_t>() % bytes.size();
          if (link->open()) link->send(std::array{OutgoingFrame{bytes.data(), length, nullptr}}, {}, [](auto) {});
          break;
        }
        case 5:
          while (auto message = link->try_recv()) {
            ++taken;
            for (const Frame& frame : message->frames()) {
              if (!frame.mapped) continue;
              // Reads the last byte: it must be there.
              fuzz::require(frame.size > 0 && frame.size <= lease->region->size());
              [[maybe_unused]] volatile std::byte last = frame.data[frame.size - 1];
            }
            held.push_back(*std::move(message));
          }
          break;
        case 6:
          if (!held.empty()) held.pop_back();
          break;
        default: hub.run_copies();
      }
    } catch (const Error&) {
      // An end that has ended says so.
    }
    turn();
    while (there->receive()) {
    }
    fuzz::require(link->stats().received - taken <= options.window_messages);
  }
  held.clear();
  if (!link->over()) link->fail(std::make_exception_ptr(ClosedError("the input is over")));
  link->forget();
  link->abort();
  hub.run_copies();
  fuzz::require(link->stats().regions_with_peer == 0 && link->stats().regions_of_peer == 0);
  return 0;
}
