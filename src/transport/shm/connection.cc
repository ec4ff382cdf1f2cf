#include "connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>

#include "core/amounts.h"
#include "core/milliseconds.h"
#include "device/memfd.h"
#include "device/memory_handle.h"
#include "device/region_address.h"
#include "handshake.h"
#include "ticks.h"

namespace crossdock::transport::shm {

namespace {

constexpr const char* kWhat = "this shm connection";
constexpr int kPacketsPerTurn = 32;
/// After so many bytes of regions that are read to find holes, other connections have their turn.
constexpr std::uint64_t kSearchedPerTurn = 16 << 20;
/// A busy half checks the socket only once in this many messages, and then only if a millisecond has passed.
constexpr std::uint32_t kBusyInterval = 256;

RingView view_of(const RingMemory& own, const RingMemory& peer) {
  return {.own = own.header(),
          .peer = peer.header(),
          .out = own.data(),
          .out_bytes = own.ring_bytes(),
          .in = peer.data(),
          .in_bytes = peer.ring_bytes()};
}

Agreement agreement_of(const Introduction& introduction, const Credentials& user,
                       const std::optional<DeviceName>& device) {
  Agreement agreement = introduction.agreement;
  agreement.device = device;
  agreement.error_messages = introduction.both(kFeatureErrorMessages);
  agreement.counted_leases = introduction.both(kFeatureCountedLeases);
  agreement.cancel = introduction.both(kFeatureCancel);
  agreement.parameters = introduction.both(kFeatureParameters);
  agreement.carrier = "shm";
  agreement.authenticated = true;
  agreement.same_user = user.uid == ::geteuid();
  agreement.privileged = agreement.same_user || user.uid == 0;
  agreement.peer_pid = user.pid;
  agreement.peer_uid = user.uid;
  return agreement;
}

}  // namespace

ShmConnection::ShmConnection(std::shared_ptr<ControlSocket> socket, RingMemory own, RingMemory peer,
                             const Credentials& user, const Introduction& introduction,
                             const std::optional<DeviceName>& device, const ShmOptions& options)
    : socket_(std::move(socket)),
      own_(std::move(own)),
      peer_(std::move(peer)),
      agreement_(agreement_of(introduction, user, device)),
      barrier_(introduction.both(kFeatureBarriers)),
      send_limit_(std::min(options.max_message, introduction.peer_max_message)),
      body_limit_(introduction.peer_max_body),
      max_region_bytes_(options.max_region_bytes),
      // Messages of equals have no frames in memory of another user.
      max_regions_(agreement_.role == ChannelRole::kMessages && !agreement_.same_user ? 0 : options.max_regions),
      accept_files_(options.accept_files),
      retires_at_rest_(introduction.both(kFeatureRetiresAtRest)),
      keeps_(introduction.keeps_descriptors ? device::Region::Descriptor::kKeep : device::Region::Descriptor::kClose),
      where_(agreement_.peer),
      device_(introduction.device),
      writer_(view_of(own_, peer_), barrier_, *this, where_),
      reader_(view_of(own_, peer_), barrier_, *this,
              {.max_message = introduction.max_message, .max_body = options.max_body, .body_memory = pool_}, where_) {
  last_service_ = last_life_check_ = ticks();
}

ShmConnection::~ShmConnection() {
  if (fork_.in_child()) return;  // the parent continues: the child only closes inherited descriptors
  try {
    if (!gone_.load(std::memory_order_relaxed)) writer_.flush();
  } catch (const std::exception&) {
    // The peer has closed the connection or violates the protocol (or there is no memory to report that): the rest
    // can't be delivered.
  }
  own_.header()->state.store(kClosedBit, std::memory_order_release);
  // Wakes a sleeping peer, and ends the connection even if a forked child holds a copy of the descriptor.
  ::shutdown(socket_->get(), SHUT_RDWR);
}

// --- the sending half ---

bool ShmConnection::send_message(std::uint32_t flags, std::uint64_t tag, ByteSpan head, ByteSpan tail) {
  fork_.check(kWhat);
  const bool corked = std::exchange(corked_, false);  // reset even if this throws: it is for this message only
  if (head.size() > send_limit_ || tail.size() > send_limit_ - head.size()) [[unlikely]]
    fail_too_long(head.size(), tail.size());
  const bool sent = writer_.send(flags, tag, head, tail, corked);
  look_at_life(sent);
  return sent;
}

void ShmConnection::fail_too_long(std::size_t head, std::size_t tail) const {
  throw InvalidArgumentError("a message of " + std::to_string(head) + " + " + std::to_string(tail) +
                             " bytes is over the limit of " + std::to_string(send_limit_) + " bytes agreed with " +
                             where_ +
                             "; raise ShmOptions::max_message at both ends, or max_request where the peer listens");
}

bool ShmConnection::send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) {
  fork_.check(kWhat);
  const bool sent = writer_.send_body(tag, parts, std::move(keep), body_limit_);
  look_at_life(sent);
  return sent;
}

void ShmConnection::look_at_life(bool sent) {
  if (++sends_ % kBusyInterval == 0 || !sent || gone_.load(std::memory_order_relaxed)) check_peer_lives(false);
}

/// Throws ConnectionError if the peer has died without closing the connection. Asks the kernel only once in a while,
/// except with `at_once`.
void ShmConnection::check_peer_lives(bool at_once) {
  const std::uint64_t now = ticks();
  if (!gone_.load(std::memory_order_relaxed) && (at_once || now - last_life_check_ >= kAboutAMillisecond)) {
    last_life_check_ = now;
    if (peer_has_gone(socket_->get())) gone_.store(true, std::memory_order_release);
  }
  if (gone_.load(std::memory_order_relaxed)) throw ConnectionError(where_ + " is gone: it has exited or was killed");
}

bool ShmConnection::flush() {
  fork_.check(kWhat);
  return writer_.flush();
}

std::size_t ShmConnection::in_flight() {
  fork_.check(kWhat);
  writer_.flush();
  return writer_.in_flight();
}

bool ShmConnection::below_window(std::size_t window) {
  fork_.check(kWhat);
  if (window == 0) throw InvalidArgumentError("a window must be at least 1 message");
  writer_.flush();
  const bool below = writer_.below_window(window);
  if (!below) check_peer_lives(false);
  return below;
}

void ShmConnection::ring() noexcept {
  const std::array<std::byte, 1> packet = {std::byte{kDoorbell}};
  try {
    // If the socket is full, it wakes the peer already.
    if (send_packet(socket_->get(), packet, {}, where_) == Sent::kGone) gone_.store(true, std::memory_order_release);
  } catch (const std::exception&) {
    // If the doorbell fails, the socket has failed. The receiving half then fails too, and reports the error.
  }
}

Ways ShmConnection::ways_of(const device::Region& region) const {
  if (region.kind() == device::RegionKind::kRecycled && !agreement_.same_user) {
    return agreement_.ways & (Way::kRead | Way::kMessage);  // its memory is used again, for this user alone
  }
  if (region.kind() != device::RegionKind::kDevice) return Connection::ways_of(region);
  const bool opens = agreement_.same_user && agreement_.device && agreement_.device == name_of(region.context());
  return opens ? agreement_.ways & Way::kMap : Ways{};
}

std::optional<std::uint64_t> ShmConnection::announce(std::uint16_t number,
                                                     const std::shared_ptr<const device::Region>& given) {
  fork_.check(kWhat);
  const device::Region& region = *given;
  if (region.kind() == device::RegionKind::kDevice) {
    if (!ways_of(region).has(Way::kMap)) {
      throw UnsupportedError("region " + std::to_string(number) + " is " + "memory of " +
                             device::to_string(region.context()->device()) + ", which " + where_ + " can't open");
    }
    const device::MemoryHandle handle = region.context()->export_memory(region.memory());
    const DeviceRegionPacket packet{number, region.size(), handle.offset, *agreement_.device, handle.opaque};
    if (!send_control(encode(packet), handle.descriptor.get())) return std::nullopt;
    return device::make_address(number, 0);
  }
  if (region.descriptor() < 0) {
    throw InvalidArgumentError("region " + std::to_string(number) + " for " + where_ +
                               " has no descriptor: only the process that made a region can announce it");
  }
  if (!agreement_.same_user && region.kind() != device::RegionKind::kFrozen) {
    throw PermissionError("region " + std::to_string(number) + " is a file or recycled memory, but " + where_ +
                          " runs as user " + std::to_string(agreement_.peer_uid) +
                          ": another user can only be given frozen memory; serve a snapshot");
  }
  const std::vector<std::byte> packet = encode(RegionPacket{number, region.kind(), region.size(), region.stamp()});
  if (!send_control(packet, region.descriptor())) return std::nullopt;
  return device::make_address(number, 0);
}

bool ShmConnection::retire(std::uint16_t number) {
  fork_.check(kWhat);
  return writer_.retire(number);
}

bool ShmConnection::send_control(ByteSpan packet, int fd) {
  if (writer_.peer_closed()) throw ConnectionError(where_ + " has closed the connection");
  socket_full_.store(false, std::memory_order_relaxed);
  socket_room_hint_.store(false, std::memory_order_relaxed);
  const std::array<int, 1> all = {fd};
  const std::span<const int> fds = fd < 0 ? std::span<const int>() : std::span<const int>(all);
  Sent sent = send_packet(socket_->get(), packet, fds, where_);
  if (sent == Sent::kFull) {
    // Asks the peer to ring once it has read, then tries again, because the peer may have read in the meantime.
    socket_full_.store(true, std::memory_order_seq_cst);
    writer_.ask_for_room();
    barrier_.heavy();
    sent = send_packet(socket_->get(), packet, fds, where_);
    if (sent == Sent::kSent) socket_full_.store(false, std::memory_order_relaxed);
  }
  if (sent == Sent::kGone) {
    gone_.store(true, std::memory_order_release);
    check_peer_lives(true);
  }
  return sent == Sent::kSent;
}

// --- the receiving half ---

/// Runs `receive`. An error that it throws is thrown again by every later call: a connection that failed doesn't
/// recover.
template <typename F>
auto ShmConnection::remember_failure(F receive) -> decltype(receive()) {
  if (failure_) throw_error(failure_->first, failure_->second);
  try {
    return receive();
  } catch (const InterruptedError&) {
    throw;  // nothing failed
  } catch (const Error& error) {
    failure_.emplace(error.code(), error.what());
    throw;
  }
}

std::optional<Incoming> ShmConnection::receive() {
  fork_.check(kWhat);
  return remember_failure([this] { return take(); });
}

std::optional<Incoming> ShmConnection::take() {
  // The hint has been reported once. The sender that found the socket full either tries again now or no longer needs
  // to.
  if (socket_room_hint_.load(std::memory_order_relaxed)) {
    socket_room_hint_.store(false, std::memory_order_relaxed);
    socket_full_.store(false, std::memory_order_relaxed);
  }
  if (writer_.pending()) push_pending();
  if ((sleep_epoch_ & 1) != 0) wake();
  if (service_due_ || (++receives_ % kBusyInterval == 0 && ticks() - last_service_ >= kAboutAMillisecond)) service();
  std::optional<Incoming> message = reader_.receive();
  if (!early_.empty()) [[unlikely]]
    check_early();
  if (message) return message;
  if (!gone_.load(std::memory_order_relaxed) && !writer_.peer_closed()) {
    if (ticks() - last_service_ < kAboutAMillisecond) return message;
    service();
    if (!gone_.load(std::memory_order_relaxed)) return message;
  }
  // The peer has ended the connection; messages that it wrote before are still delivered, also if they are long.
  message = reader_.receive();
  if (!message && !reader_.has_data()) throw_end();
  return message;
}

void ShmConnection::throw_end() const {
  std::string what = where_;
  what += writer_.peer_closed() ? " has closed the connection" : " is gone: it has exited or was killed";
  if (reader_.in_message()) what += ", in the middle of a message";
  throw ConnectionError(what);
}

/// Sends pending data for the sending half. If the peer has ended the connection, that isn't reported here, but after
/// its last message.
void ShmConnection::push_pending() {
  try {
    if (!gone_.load(std::memory_order_relaxed)) writer_.flush();
  } catch (const ConnectionError&) {
    return;
  }
}

/// Reads the control socket, a bounded number of packets.
void ShmConnection::service() {
  service_due_ = false;
  last_service_ = ticks();
  const std::uint64_t searched = device::memfd::bytes_searched();
  for (int packets = 0;; ++packets) {
    if (packets == kPacketsPerTurn || device::memfd::bytes_searched() - searched >= kSearchedPerTurn) {
      service_due_ = true;
      break;
    }
    Packet packet;
    const Received received = max_regions_ == 0 ? receive_plain_packet(socket_->get(), &packet, where_)
                                                : receive_packet(socket_->get(), &packet, where_);
    if (received == Received::kEnd) gone_.store(true, std::memory_order_release);
    if (received != Received::kPacket) {
      if (packets == 0) return;
      break;
    }
    handle(packet);
  }
  last_service_ = ticks();  // handling may have taken longer than the interval
  reader_.answer_request(true);
}

void ShmConnection::handle(Packet& packet) {
  if (packet.left_in_queue) {
    throw ProtocolError(where_ + " passed descriptors, but this end accepts none (ShmOptions::max_regions is 0)");
  }
  if (packet.descriptors_cut) {
    throw ResourceError(where_ +
                        " passed a descriptor that was lost on the way: this process has too many descriptors open; "
                        "raise its limit (ulimit -n)");
  }
  const auto type = packet.size > 0 ? load_le<std::uint8_t>(packet.bytes.data()) : std::uint8_t{0};
  // Some drivers' handles have a descriptor.
  const bool fits = type == kDeviceRegion ? packet.descriptors <= 1 : packet.descriptors == (type == kRegion ? 1 : 0);
  if (packet.too_long || !fits) {
    throw ProtocolError(where_ + " sent a control packet of type " + std::to_string(type) + " with " +
                        std::to_string(packet.descriptors) + " descriptors, or with too many bytes");
  }
  if (type == kDoorbell && packet.size == 1) {
    if (socket_full_.load(std::memory_order_seq_cst)) socket_room_hint_.store(true, std::memory_order_seq_cst);
  } else if (type == kRegion) {
    adopt_region(packet);
  } else if (type == kDeviceRegion) {
    adopt_device_region(packet);
  } else {
    throw ProtocolError(where_ + " sent an invalid control packet, of type " + std::to_string(type) + " and " +
                        std::to_string(packet.size) + " bytes");
  }
}

void ShmConnection::adopt_region(Packet& packet) {
  RegionPacket announced;
  if (!decode(packet.content(), &announced)) {
    throw ProtocolError(where_ + " announced a region in a malformed packet of " + std::to_string(packet.size) +
                        " bytes");
  }
  const std::string name = "region " + std::to_string(announced.number) + " of " + where_;
  if (announced.kind == device::RegionKind::kFile && !accept_files_) {
    throw ProtocolError(name + " is a file, but ShmOptions::accept_files is off");
  }
  if (announced.kind != device::RegionKind::kFrozen && !agreement_.same_user) {
    throw ProtocolError(name + " is a file or recycled memory of user " + std::to_string(agreement_.peer_uid) +
                        ", which is another user: from another user only frozen memory is accepted");
  }
  check_budget(announced.size, name);
  add_region(announced.number, device::Region::adopt(std::move(packet.fds[0].unchecked()), announced.kind,
                                                     announced.size, announced.stamp, name, keeps_));
}

/// Opens a region of a device's memory, on the device that this client has named.
void ShmConnection::adopt_device_region(Packet& packet) {
  DeviceRegionPacket announced;
  if (!decode(packet.content(), &announced)) {
    throw ProtocolError(where_ + " announced a device's region in a malformed packet of " +
                        std::to_string(packet.size) + " bytes");
  }
  const std::string name = "region " + std::to_string(announced.number) + " of " + where_;
  if (!agreement_.same_user || !device_ || agreement_.device != announced.device) {
    throw ProtocolError(name + " is memory of a device that this end didn't ask for");
  }
  check_budget(announced.size, name);
  device::MemoryHandle handle{.driver = announced.device.driver,
                              .opaque = std::move(announced.opaque),
                              .descriptor = std::move(packet.fds[0].unchecked()),
                              .offset = announced.offset,
                              .size = announced.size};
  device::Buffer memory = device_->import_memory(std::move(handle), name);
  add_region(announced.number, device::Region::of_device(device_, std::move(memory)));
}

void ShmConnection::check_budget(std::uint64_t size, const std::string& name) const {
  const std::uint64_t mapped = budget_->bytes.load(std::memory_order_relaxed);
  if (budget_->count.load(std::memory_order_relaxed) < max_regions_ && mapped <= max_region_bytes_ &&
      size <= max_region_bytes_ - mapped) {
    return;
  }
  throw ProtocolError(name + " of " + std::to_string(size) + " bytes is over this end's limit of " +
                      std::to_string(max_region_bytes_) + " bytes in " + std::to_string(max_regions_) +
                      " regions (ShmOptions::max_region_bytes, max_regions), which includes the regions of batches "
                      "that are still held");
}

void ShmConnection::add_region(std::uint16_t number, std::shared_ptr<const device::Region> memory) {
  const std::uint64_t size = memory->size();
  auto region =
      std::make_shared<const PeerRegion>(device::make_address(number, 0), size, on_budget(std::move(memory)), number);
  if (regions_.in_use(number)) {
    early_.push_back({number, reader_.peer_written(), std::move(region)});
    check_early();
  } else {
    regions_.put(number, std::move(region));
  }
}

/// Counts a region until its last owner is dropped: batches share it, and may hold it after its retirement.
std::shared_ptr<const device::Region> ShmConnection::on_budget(std::shared_ptr<const device::Region> region) const {
  budget_->bytes.fetch_add(region->size(), std::memory_order_relaxed);
  budget_->count.fetch_add(1, std::memory_order_relaxed);
  const device::Region* plain = region.get();
  return {plain, [held = std::move(region), budget = budget_](const device::Region* at) mutable {
            const std::uint64_t size = at->size();
            held.reset();
            budget->bytes.fetch_sub(size, std::memory_order_relaxed);
            budget->count.fetch_sub(1, std::memory_order_relaxed);
          }};
}

void ShmConnection::retired(std::uint64_t number) {
  const auto region = static_cast<std::uint16_t>(number);
  if (region != number || !regions_.remove(region)) {
    throw ProtocolError(where_ + " retired region " + std::to_string(number) + ", which isn't in use");
  }
  const auto next = std::find_if(early_.begin(), early_.end(), [&](const Early& e) { return e.number == region; });
  if (next == early_.end()) return;
  regions_.put(region, std::move(next->region));
  early_.erase(next);
}

/// Checks a region that arrived under a number that was in use. This is valid only if the peer's data written until
/// then contains the retirement of the number.
void ShmConnection::check_early() const {
  if (early_.empty() || reader_.taken() < early_.front().position) return;
  throw ProtocolError("region " + std::to_string(early_.front().number) + " of " + where_ +
                      " was announced again while it is in use");
}

std::shared_ptr<const PeerRegion> ShmConnection::peer_region(std::uint64_t address, int timeout_ms,
                                                             const InterruptHook& interrupted) {
  fork_.check(kWhat);
  const std::uint16_t number = device::address_region(address);
  if (const auto& known = regions_.find(number)) return known;
  return remember_failure([&]() -> std::shared_ptr<const PeerRegion> {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
    for (;;) {
      service();
      if (const auto& found = regions_.find(number)) return found;
      if (service_due_ && Clock::now() < deadline) continue;
      if (gone_.load(std::memory_order_relaxed)) {
        throw ConnectionError(where_ + " has disconnected, and region " + std::to_string(number) + " never arrived");
      }
      if (interrupted && interrupted()) {
        throw InterruptedError("waiting for region " + std::to_string(number) + " of " + where_ + " was interrupted");
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        throw ProtocolError(where_ + " used region " + std::to_string(number) + " but didn't announce it within " +
                            in_seconds(std::chrono::milliseconds(timeout_ms)));
      }
      pollfd ask{socket_->get(), POLLIN, 0};
      ::poll(&ask, 1, static_cast<int>(interrupted ? std::min<std::int64_t>(left, kHookInterval.count()) : left));
    }
  });
}

bool ShmConnection::knows_region(std::uint64_t address) {
  fork_.check(kWhat);
  const std::uint16_t number = device::address_region(address);
  if (regions_.find(number)) return true;
  return remember_failure([&] {
    service();
    return regions_.find(number) != nullptr || gone_.load(std::memory_order_relaxed);
  });
}

// --- waiting ---

bool ShmConnection::readable() const {
  fork_.check(kWhat);
  return failure_.has_value() || gone_.load(std::memory_order_relaxed) || reader_.has_data() || writer_.peer_closed() ||
         writer_.room_came() || socket_room_hint_.load(std::memory_order_relaxed);
}

bool ShmConnection::prepare_sleep() {
  fork_.check(kWhat);
  if ((sleep_epoch_ & 1) != 0) leave_sleep();
  if (writer_.pending()) push_pending();
  writer_.set_asleep(true);
  ++sleep_epoch_;
  own_.header()->state.store(sleep_epoch_, std::memory_order_seq_cst);
  if (writer_.wants_room()) writer_.ask_for_room();
  barrier_.heavy();
  const auto socket_has_room = [this] {
    pollfd ask{socket_->get(), POLLOUT, 0};
    return socket_full_.load(std::memory_order_seq_cst) && ::poll(&ask, 1, 0) > 0;
  };
  if (readable()) {
    leave_sleep();
    return false;
  }
  if (socket_has_room()) {
    socket_full_.store(false, std::memory_order_seq_cst);  // reported once, as in take()
    leave_sleep();
    return false;
  }
  return true;
}

void ShmConnection::wake() {
  fork_.check(kWhat);
  leave_sleep();
  service_due_ = true;
}

void ShmConnection::leave_sleep() noexcept {
  if ((sleep_epoch_ & 1) == 0) return;
  ++sleep_epoch_;
  own_.header()->state.store(sleep_epoch_, std::memory_order_relaxed);
  writer_.set_asleep(false);
}

}  // namespace crossdock::transport::shm
