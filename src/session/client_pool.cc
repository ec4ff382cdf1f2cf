#include "session/client_pool.h"

#include <algorithm>
#include <utility>

#include "core/milliseconds.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {

namespace {

transport::ConnectOptions wishes_for(const dissociated::Uri& uri, const transport::Transport& transport,
                                     transport::ConnectOptions wishes, const std::optional<transport::Way>& way) {
  if (way) wishes.ways = wishes.ways & *way;
  if (uri.want_data && !uri.crossdock && transport.reaches_specified_peers()) {
    wishes.specified = transport::SpecifiedServer{
        .want_data = *uri.want_data, .free_data = uri.free_data, .remote_handle = uri.remote_handle};
  }
  return wishes;
}

}  // namespace

ClientPool::ClientPool(const dissociated::Uri& uri, const transport::ConnectOptions& wishes, const std::string& text,
                       ClientOptions options)
    : transport_(options.transports->find(uri.scheme)),
      uri_(uri),
      wishes_(wishes_for(uri, *transport_, wishes, options.way)),
      where_(uri.scheme + ":" + uri.address),
      options_(std::move(options)) {
  if (uri.address.empty()) {
    throw UriError("\"" + excerpt(text) + "\" has no address; use the server's URI (server.uri)");
  }
}

std::shared_ptr<ClientPool> ClientPool::for_streams(bool parts, std::shared_ptr<device::Context> device,
                                                    bool copy_on_write) {
  const transport::Ways ways = transport_->ways() & wishes_.ways;
  transport::ConnectOptions wishes = wishes_;
  wishes.wants_parts = parts && ways.has(transport::Way::kRead);
  if (ways.has(transport::Way::kMap)) {
    wishes.device = std::move(device);
    wishes.keeps_descriptors = copy_on_write;
  }
  if (!wishes.wants_parts && !wishes.device && !wishes.keeps_descriptors) return shared_from_this();
  const std::lock_guard lock(mutex_);
  if (closed_) throw ClosedError("this client of " + where_ + " was closed");
  for (const auto& other : others_) {
    const transport::ConnectOptions& its = other->wishes_;
    if (its.wants_parts == wishes.wants_parts && its.device == wishes.device &&
        its.keeps_descriptors == wishes.keeps_descriptors) {
      return other;
    }
  }
  return others_.emplace_back(std::make_shared<ClientPool>(uri_, wishes, where_, options_));
}

void ClientPool::try_out(const transport::InterruptHook& interrupted) { put_back(connect(interrupted)); }

std::shared_ptr<ClientConnection> ClientPool::take(const transport::InterruptHook& interrupted) {
  while (true) {
    std::shared_ptr<ClientConnection> connection;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) throw ClosedError("this client of " + where_ + " was closed");
      if (idle_.empty()) break;
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    // The server may have been closed meanwhile, and another server started at its address.
    if (connection->still_good()) return connection;
  }
  return connect(interrupted);
}

std::shared_ptr<ClientConnection> ClientPool::connect(const transport::InterruptHook& interrupted) {
  auto made = std::make_shared<ClientConnection>(
      transport_->connect(uri_.address, wishes_, to_ms(options_.timeout), interrupted), where_, weak_from_this());
  const transport::Agreement& agreement = made->transport().agreement();
  if ((uri_.want_data && *uri_.want_data != agreement.want_data) ||
      (uri_.free_data && *uri_.free_data != agreement.free_data)) {
    throw HandshakeError(
        "This URI is from an earlier server at the same address. Use the current one, or leave out everything after "
        "'?'.");
  }
  return made;
}

// By value: the caller's share ends with this call. NOLINTNEXTLINE(performance-unnecessary-value-param)
void ClientPool::put_back(std::shared_ptr<ClientConnection> connection) {
  connection->transport().release_regions();
  connection->transport().acknowledge_all();  // a server that is closed waits for this
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    idle_.push_back(connection);
  }
  connection->flush();
  // Check this after the connection was put into the pool: a batch that is released from now on finds it there.
  if (connection->stuck()) drop(*connection);
}

void ClientPool::drop(const ClientConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(idle_, [&](const auto& idle) { return idle.get() == &connection; });
}

bool ClientPool::drop_ended() {
  std::vector<std::shared_ptr<ClientConnection>> idle;  // looked at, and dropped, without the lock
  std::vector<std::shared_ptr<ClientPool>> others;
  {
    const std::lock_guard lock(mutex_);
    idle.swap(idle_);
    others = others_;
  }
  const auto ended = std::partition(idle.begin(), idle.end(), [](const auto& one) { return one->still_good(); });
  bool any = ended != idle.begin();
  for (const auto& other : others) any |= other->drop_ended();
  const std::lock_guard lock(mutex_);
  if (!closed_) idle_.insert(idle_.end(), idle.begin(), ended);
  return any;
}

void ClientPool::close() {
  std::vector<std::shared_ptr<ClientConnection>> dropped;  // closed without the lock
  std::vector<std::shared_ptr<ClientPool>> others;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(idle_);
    others = others_;
  }
  for (const auto& other : others) other->close();
}

}  // namespace crossdock::session
