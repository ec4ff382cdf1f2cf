#include <vector>

#include "dissociated/sender.h"
#include "fuzz.h"
#include "simulation/plain_ledger.h"
#include "support/freed.h"

/// A server lends and a client frees as the bytes say: what each message frees, and which is an error, is what the
/// plain ledger says.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  using dissociated::RemoteBuffer;
  constexpr std::uint64_t kWantData = 1;
  constexpr std::uint64_t kFreeData = 2;
  constexpr std::uint64_t kStepsPerCount = 32;
  fuzz::Input input(fuzz::bytes(data, size));
  const auto rule =
      input.number<std::uint8_t>() % 2 == 0 ? dissociated::FreeRule::kCounted : dissociated::FreeRule::kAsSpecified;
  dissociated::Sender sender(
      kWantData, kFreeData,
      {.error_messages = true, .counted_leases = rule == dissociated::FreeRule::kCounted, .cancel = true});
  simulation::PlainLedger plain(rule);
  std::vector<dissociated::Freed> freed;
  std::vector<std::uint64_t> expected;
  std::uint64_t steps = 0;
  while (!input.empty()) {
    freed.clear();
    expected.clear();
    switch (input.number<std::uint8_t>() % 4) {
      case 0: {  // a body is sent
        const std::uint64_t holder = input.number<std::uint8_t>();
        std::vector<RemoteBuffer> body(1 + holder / 4 % 4);
        for (RemoteBuffer& buffer : body) {
          // Few addresses, so that they come again.
          buffer.address = std::uint64_t{input.number<std::uint8_t>()} % 16 * 64;
          buffer.length = std::uint64_t{input.number<std::uint8_t>()} % 4;
          plain.lend(buffer, holder % 4);
        }
        sender.leases().lend(body, holder % 4);
        break;
      }
      case 1: {  // a free_data message, of any size
        const ByteSpan body = input.take(input.number<std::uint8_t>() % 64);
        bool error = body.size() % 8 != 0;
        for (std::size_t at = 0; !error && at < body.size(); at += 8) {
          error = !plain.free(load_le<std::uint64_t>(body.data() + at), &expected);
        }
        try {
          sender.on_tagged(kFreeData, body, &freed);
          while (sender.freeing()) sender.free_more(&freed);
          fuzz::require(!error);
        } catch (const ProtocolError&) {
          fuzz::require(error);
        }
        fuzz::require(holders(freed) == expected);
        break;
      }
      case 2: {  // one address of those that are sent
        const std::uint64_t address = std::uint64_t{input.number<std::uint8_t>()} % 16 * 64;
        const bool error = !plain.free(address, &expected);
        try {
          sender.on_tagged(kFreeData, std::as_bytes(std::span(&address, 1)), &freed);
          while (sender.freeing()) sender.free_more(&freed);
          fuzz::require(!error);
        } catch (const ProtocolError&) {
          fuzz::require(error);
        }
        fuzz::require(holders(freed) == expected);
        break;
      }
      default:  // a stream begins, or the one under way ends
        if (!sender.streaming()) {
          sender.on_tagged(kWantData, {}, &freed);
        } else {
          sender.end_of_stream();
          plain.stream_ended();
        }
    }
    // The plain ledger counts its leases one by one: asked after each step, that would be most of the time.
    if (++steps % kStepsPerCount == 0 || input.empty()) {
      fuzz::require(sender.leases().outstanding() == plain.outstanding());
      fuzz::require(sender.leases().outstanding_bytes() == plain.outstanding_bytes());
    }
  }
  return 0;
}
