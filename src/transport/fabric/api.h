#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/// The part of libfabric that we call. Its headers reach everything else through tables of functions in the objects.
namespace crossdock::transport::fabric {

/// F(member, exported name, version): the functions that the library exports. The versions are those of libfabric 1.17:
/// later libraries have them as well, and later versions append to the structures.
#define CROSSDOCK_FABRIC_FUNCTIONS(F)     \
  F(getinfo, fi_getinfo, "FABRIC_1.3")    \
  F(freeinfo, fi_freeinfo, "FABRIC_1.3")  \
  F(dupinfo, fi_dupinfo, "FABRIC_1.3")    \
  F(open_fabric, fi_fabric, "FABRIC_1.1") \
  F(strerror, fi_strerror, "FABRIC_1.0")  \
  F(version, fi_version, "FABRIC_1.0")

/// The functions of one library that was opened.
struct Api {
  // NOLINTBEGIN(bugprone-macro-parentheses): a declaration has none there
#define CROSSDOCK_FABRIC_MEMBER(member, exported, version) decltype(&::exported) member = nullptr;
  CROSSDOCK_FABRIC_FUNCTIONS(CROSSDOCK_FABRIC_MEMBER)
#undef CROSSDOCK_FABRIC_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
};

}  // namespace crossdock::transport::fabric
