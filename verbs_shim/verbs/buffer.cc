// Buffers that the device allocates, and regions by a list of attributes (rdma-core 59 to 65). With
// confidential computing a card can only access memory allocated for it; the daemon can access any
// page, so a buffer is ordinary program memory.

#include <sys/mman.h>

#include <cerrno>

#include "base/page.h"
#include "verbs_shim/objects/newer_verbs.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {

struct Buffer {
  ibv_pd* pd;  // the domain that may register it
  std::byte* memory;
  std::size_t size;    // as requested by the program
  std::size_t mapped;  // whole pages
};

namespace {

// Whether the range is in the buffer.
bool holds(const Buffer& buffer, const void* address, std::size_t length) {
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer.memory);
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  return first >= begin && first - begin <= buffer.size && length <= buffer.size - (first - begin);
}

// Checks the attributes: the location must be given in exactly one way. 0 or an errno value.
int check(const ibv_pd* pd, const MrInitAttr& attr) {
  constexpr std::uint64_t kKnown =
      kMrHasIova | kMrHasAddress | kMrHasDescriptor | kMrHasOffset | kMrHasTags | kMrHasBuffer;
  const bool file = (attr.comp_mask & kMrHasDescriptor) != 0;
  const bool address = (attr.comp_mask & kMrHasAddress) != 0;
  const bool offset = (attr.comp_mask & kMrHasOffset) != 0;
  const bool buffer = (attr.comp_mask & kMrHasBuffer) != 0;
  if ((attr.comp_mask & ~kKnown) != 0) {
    return refuse("ibv_reg_mr_ex", EOPNOTSUPP, "unsupported attribute");
  }
  if ((attr.comp_mask & kMrHasTags) != 0) {
    return refuse("ibv_reg_mr_ex", EOPNOTSUPP, "steering tags (TPH hints) aren't supported");
  }
  if (file == address || file != offset || (buffer && !address)) {
    return refuse("ibv_reg_mr_ex", EINVAL,
                  "memory is named by its address, or by a descriptor with an offset");
  }
  if (buffer && (attr.buffer == nullptr || attr.buffer->pd != pd ||
                 !holds(*attr.buffer, attr.address, attr.length))) {
    return refuse("ibv_reg_mr_ex", EINVAL,
                  "the range isn't within a buffer of this protection domain");
  }
  return 0;
}

}  // namespace

extern "C" {

void* alloc_buf(ibv_pd* pd, std::size_t size, Buffer** buffer) {
  const std::size_t mapped = page_ceil(size);
  if (mapped == 0 || mapped < size) {
    refuse("ibv_alloc_buf", size == 0 ? EINVAL : ENOMEM, "can't allocate memory of that size");
    return nullptr;
  }
  auto made = make<Buffer>();
  if (made == nullptr) {
    return nullptr;
  }
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    refuse("ibv_alloc_buf", errno, "the system has no more memory");
    return nullptr;
  }
  *made = {.pd = pd, .memory = static_cast<std::byte*>(memory), .size = size, .mapped = mapped};
  *buffer = made.release();
  return memory;
}

void free_buf(Buffer* buffer) {
  if (buffer != nullptr) {
    munmap(buffer->memory, buffer->mapped);
    delete buffer;
  }
}

// Fails as for memory that isn't a dmabuf.
int export_buf_dmabuf_fd(Buffer* buffer) {
  (void)buffer;
  refuse("ibv_export_buf_dmabuf_fd", ENODATA, "the buffer is the program's own memory, no dmabuf");
  return -1;
}

ibv_mr* reg_mr_ex(ibv_pd* pd, const MrInitAttr* attr) {
  if (check(pd, *attr) != 0) {
    return nullptr;
  }
  const bool has_iova = (attr->comp_mask & kMrHasIova) != 0;
  if ((attr->comp_mask & kMrHasDescriptor) != 0) {
    return ibv_reg_dmabuf_mr(pd, attr->offset, attr->length, has_iova ? attr->iova : attr->offset,
                             attr->descriptor, attr->access);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(attr->address);
  return ibv_reg_mr_iova2(pd, attr->address, attr->length, has_iova ? attr->iova : address,
                          static_cast<unsigned>(attr->access));
}

ibv_mr* reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* address, std::size_t length, int access) {
  MrInitAttr attr{};
  attr.length = length;
  attr.access = access;
  attr.comp_mask = kMrHasAddress | kMrHasBuffer;
  attr.address = address;
  attr.buffer = buffer;
  return reg_mr_ex(pd, &attr);
}
}

}  // namespace uroce::shim
