#include "worker_handle.h"

#include <utility>

#include "core/blocked_signals.h"

namespace crossdock::transport::ucx {

WorkerHandle::WorkerHandle(std::shared_ptr<const UcxContext> context) : context_(std::move(context)) {
  library().check_fork();
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  const BlockedSignals blocked;  // for threads that UCX may start
  library().check(api().worker_create(context_->get(), &params, &worker_), "making a worker");
  try {
    library().check(api().worker_get_efd(worker_, &descriptor_), "making a descriptor to wait on");
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
    library().check(api().worker_query(worker_, &attributes), "asking a worker for its limits");
    max_header_ = attributes.max_am_header;
  } catch (...) {
    api().worker_destroy(worker_);
    throw;
  }
}

WorkerHandle::~WorkerHandle() {
  if (!library().in_child()) api().worker_destroy(worker_);
}

void WorkerHandle::handle_messages(unsigned id, ucp_am_recv_callback_t callback, void* arg) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = callback;
  param.arg = arg;
  library().check(api().worker_set_am_recv_handler(worker_, &param), "setting a message handler");
}

bool WorkerHandle::arm() {
  const ucs_status_t status = api().worker_arm(worker_);
  if (status == UCS_ERR_BUSY) return false;
  library().check(status, "preparing to wait");
  return true;
}

}  // namespace crossdock::transport::ucx
