#pragma once

// Declarations of libibverbs functions newer than Debian 12's headers (44). Newer headers may have
// the same names, so ours are in a namespace, with the symbol given for each. The layouts are those
// of rdma-core 65.

#include <cstddef>
#include <cstdint>

#include "verbs_shim/objects/verbs.h"

namespace uroce::shim {

// enum ibv_mr_init_attr_mask
inline constexpr std::uint64_t kMrHasIova = 1U << 0U;
inline constexpr std::uint64_t kMrHasAddress = 1U << 1U;
inline constexpr std::uint64_t kMrHasDescriptor = 1U << 2U;
inline constexpr std::uint64_t kMrHasOffset = 1U << 3U;
inline constexpr std::uint64_t kMrHasTags = 1U << 4U;
inline constexpr std::uint64_t kMrHasBuffer = 1U << 5U;

// A handle of ibv_alloc_buf; to programs an incomplete type.
struct Buffer;

// struct ibv_mr_init_attr
struct MrInitAttr {
  std::size_t length;
  int access;
  std::uint64_t comp_mask;
  std::uint64_t iova;
  void* address;
  int descriptor;
  std::uint64_t offset;
  void* tags;  // struct ibv_dmah, which we don't support
  Buffer* buffer;
};
static_assert(sizeof(MrInitAttr) == 72);

// A bit of ibv_parent_domain_init_attr.comp_mask: memory may be unprotected on a machine with
// confidential computing.
inline constexpr std::uint32_t kDomainAllowsUnprotected = 1U << 2U;

#pragma GCC visibility push(default)
extern "C" {
ibv_mr* reg_mr_ex(ibv_pd* pd, const MrInitAttr* attr) __asm__("ibv_reg_mr_ex");
int query_port_speed(ibv_context* context, std::uint32_t port,
                     std::uint64_t* speed) __asm__("ibv_query_port_speed");
void* alloc_buf(ibv_pd* pd, std::size_t size, Buffer** buffer) __asm__("ibv_alloc_buf");
void free_buf(Buffer* buffer) __asm__("ibv_free_buf");
int export_buf_dmabuf_fd(Buffer* buffer) __asm__("ibv_export_buf_dmabuf_fd");
ibv_mr* reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* address, std::size_t length,
                   int access) __asm__("ibv_reg_buf_mr");
}
#pragma GCC visibility pop

// Symbols exported in private version nodes (symbols/versioned_names.cc).
const char* wr_opcode_str(int opcode);
// The types as numbered by sysfs and ibv_query_gid_type: 0 for IB and RoCE v1, 1 for v2.
int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type);

}  // namespace uroce::shim
