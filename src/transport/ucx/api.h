#pragma once

#include <ucp/api/ucp.h>

#include <cstdarg>

/// The part of UCX that we call. Its structures have masks of the fields that are set, so code compiled with the
/// headers of one version works with the libraries of later ones.
namespace crossdock::transport::ucx {

/// A handler of UCX's log lines: file, line, function, level, component, format, arguments. Returns kStopLine if no
/// other handler is to see the line.
using LogHandler = int (*)(const char*, unsigned, const char*, int, const void*, const char*, va_list);
constexpr int kStopLine = 0;

// UCX's levels of log lines, those that we tell apart.
constexpr int kLogError = 1;
constexpr int kLogWarning = 2;
constexpr int kLogInfo = 4;

/// F(member, exported name): the functions that ucp.h declares.
#define CROSSDOCK_UCX_FUNCTIONS(F)                              \
  F(get_version, ucp_get_version)                               \
  F(get_version_string, ucp_get_version_string)                 \
  F(status_string, ucs_status_string)                           \
  F(config_read, ucp_config_read)                               \
  F(config_modify, ucp_config_modify)                           \
  F(config_release, ucp_config_release)                         \
  F(init_version, ucp_init_version)                             \
  F(cleanup, ucp_cleanup)                                       \
  F(context_query, ucp_context_query)                           \
  F(worker_create, ucp_worker_create)                           \
  F(worker_destroy, ucp_worker_destroy)                         \
  F(worker_get_efd, ucp_worker_get_efd)                         \
  F(worker_progress, ucp_worker_progress)                       \
  F(worker_query, ucp_worker_query)                             \
  F(worker_arm, ucp_worker_arm)                                 \
  F(worker_signal, ucp_worker_signal)                           \
  F(worker_set_am_recv_handler, ucp_worker_set_am_recv_handler) \
  F(listener_create, ucp_listener_create)                       \
  F(listener_destroy, ucp_listener_destroy)                     \
  F(listener_query, ucp_listener_query)                         \
  F(listener_reject, ucp_listener_reject)                       \
  F(conn_request_query, ucp_conn_request_query)                 \
  F(ep_create, ucp_ep_create)                                   \
  F(ep_flush_nbx, ucp_ep_flush_nbx)                             \
  F(ep_close_nbx, ucp_ep_close_nbx)                             \
  F(am_send_nbx, ucp_am_send_nbx)                               \
  F(am_recv_data_nbx, ucp_am_recv_data_nbx)                     \
  F(am_data_release, ucp_am_data_release)                       \
  F(tag_send_nbx, ucp_tag_send_nbx)                             \
  F(tag_probe_nb, ucp_tag_probe_nb)                             \
  F(tag_msg_recv_nbx, ucp_tag_msg_recv_nbx)                     \
  F(request_free, ucp_request_free)                             \
  F(mem_map, ucp_mem_map)                                       \
  F(mem_unmap, ucp_mem_unmap)                                   \
  F(rkey_pack, ucp_rkey_pack)                                   \
  F(rkey_buffer_release, ucp_rkey_buffer_release)               \
  F(ep_rkey_unpack, ucp_ep_rkey_unpack)                         \
  F(rkey_destroy, ucp_rkey_destroy)                             \
  F(get_nbx, ucp_get_nbx)

/// F(member, exported name, result, parameters): functions that libucs exports and no installed header declares, or
/// only one with UCX's own internals. They are found by way of libucp's handle.
#define CROSSDOCK_UCX_SETTINGS(F)                                                                      \
  F(set_global_option, ucs_global_opts_set_value, ucs_status_t, (const char* name, const char* value)) \
  F(restore_signals, ucs_debug_disable_signals, void, ())                                              \
  F(push_log_handler, ucs_log_push_handler, void, (LogHandler handler))                                \
  F(pop_log_handler, ucs_log_pop_handler, void, ())

/// The functions of one library that was opened.
struct Api {
  // NOLINTBEGIN(bugprone-macro-parentheses): a declaration has none there
#define CROSSDOCK_UCX_MEMBER(member, exported) decltype(&::exported) member = nullptr;
  CROSSDOCK_UCX_FUNCTIONS(CROSSDOCK_UCX_MEMBER)
#undef CROSSDOCK_UCX_MEMBER
#define CROSSDOCK_UCX_MEMBER(member, exported, result, parameters) result(*member) parameters = nullptr;
  CROSSDOCK_UCX_SETTINGS(CROSSDOCK_UCX_MEMBER)
#undef CROSSDOCK_UCX_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
};

/// Returns the parameters of an operation on contiguous memory, whose call-back, which the caller sets, gets
/// `user_data`.
inline ucp_request_param_t memory_params(void* user_data, ucs_memory_type_t memory_type = UCS_MEMORY_TYPE_HOST) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.user_data = user_data;
  params.datatype = ucp_dt_make_contig(1);
  params.memory_type = memory_type;
  return params;
}

}  // namespace crossdock::transport::ucx
