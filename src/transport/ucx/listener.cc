#include "listener.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::transport::ucx {
namespace {

constexpr int kListenerTurns = 16;  // of one progress()

}  // namespace

UcxListener::UcxListener(std::shared_ptr<const UcxContext> context, const SocketAddress& address)
    : worker_(std::move(context)), address_(address) {
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = {.addr = address.get(), .addrlen = address.size};
  params.conn_handler.arg = this;
  params.conn_handler.cb = [](ucp_conn_request_h request, void* arg) {
    UcxListener& listener = *static_cast<UcxListener*>(arg);
    try {
      if (listener.requests_.size() < kMaxRequests) return listener.requests_.push_back(request);
    } catch (...) {  // no memory for another client either
    }
    listener.worker_.api().listener_reject(listener.listener_, request);
  };
  const std::string where = to_uri("ucx", address);
  const ucs_status_t status = worker_.api().listener_create(worker_.get(), &params, &listener_);
  switch (status) {
    case UCS_OK: break;
    case UCS_ERR_BUSY:
      throw ConnectionError("can't listen at " + where +
                            ": another process listens there; use port 0 to get a free port");
    case UCS_ERR_INVALID_ADDR: throw ConnectionError("can't listen at " + where + ": this machine has no such address");
    default: worker_.library().fail(status, "listening at " + where);
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (worker_.api().listener_query(listener_, &attributes) == UCS_OK) address_.storage = attributes.sockaddr;
}

UcxListener::~UcxListener() {
  if (worker_.library().in_child()) return;
  while (!requests_.empty()) worker_.api().listener_reject(listener_, take());
  worker_.api().listener_destroy(listener_);
}

void UcxListener::progress() {
  worker_.library().check_fork();
  for (int turn = 0; turn < kListenerTurns && worker_.progress(); ++turn) {
  }
}

SocketAddress UcxListener::client() const {
  worker_.library().check_fork();
  ucp_conn_request_attr_t attributes{};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  worker_.library().check(worker_.api().conn_request_query(requests_.front(), &attributes),
                          "asking for a client's address");
  SocketAddress client;
  client.storage = attributes.client_address;
  client.size = client.storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return client;
}

std::unique_ptr<Endpoint> UcxListener::accept(std::shared_ptr<Worker> worker) {
  worker_.library().check_fork();
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = take();
  const std::string doing = "accepting " + worker->where();
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(worker), params, doing));
}

void UcxListener::reject() {
  worker_.library().check_fork();
  worker_.api().listener_reject(listener_, take());
}

ucp_conn_request_h UcxListener::take() {
  const ucp_conn_request_h request = requests_.front();
  requests_.pop_front();
  return request;
}

bool UcxListener::arm() {
  worker_.library().check_fork();
  return worker_.arm();
}

std::unique_ptr<UcxListener> listen_at(UcxContexts& contexts, const std::string& address) {
  HostPort at = parse_address("ucx", address);
  if (at.host == "*") at.host = "0.0.0.0";
  std::optional<Error> first;
  for (const SocketAddress& candidate : resolve("ucx", at)) {
    try {
      return std::make_unique<UcxListener>(contexts.for_local(candidate), candidate);
    } catch (const Error& error) {
      if (!first) first = error;
    }
  }
  throw_error(first->code(), first->what(), first->system_errno());
}

}  // namespace crossdock::transport::ucx
