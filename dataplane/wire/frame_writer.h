#pragma once

// The writer of build.h's frames, in the header: for a small message its calls cost more than what
// they do, and most of the fields of Headers needn't be put anywhere when the compiler sees both
// sides.

#include <cstring>

#include "base/check.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/layout.h"

namespace uroce {

class FrameWriter {
 public:
  // Writes all headers. `ip_id` is the IPv4 identification (ignored for IPv6).
  // REQUIRES: frame.capacity holds the headers, payload_length, 3 pad bytes and 4 of ICRC.
  FrameWriter(Frame& frame, const FrameTemplate& frame_template, const Headers& headers,
              std::uint32_t payload_length, std::uint16_t ip_id);

  // Copies payload behind what is there and sums it on the way.
  // `following`: bytes behind these that later frames will carry; they are read ahead, which saves
  // a third of the time where the source isn't in the cache. REQUIRES: no more in all than
  // payload_length.
  void append(const std::byte* source, std::size_t length, std::size_t following = 0);

  // Where the next payload bytes go, for a source that can't be read with plain loads; the caller
  // fills `length` bytes, then calls appended(length).
  [[nodiscard]] std::byte* cursor() { return cursor_; }
  void appended(std::size_t length) { cursor_ += length; }

  // Pads to 4 bytes, stores the ICRC, sets frame.length. REQUIRES: payload_length bytes were
  // appended.
  void finish();

 private:
  // Where the payload goes.
  static std::byte* write_headers(Frame& frame, const FrameTemplate& frame_template,
                                  const Headers& headers, std::uint32_t payload_length,
                                  std::uint16_t ip_id);
  // The sum up to there, of which crc_ is a part.
  [[nodiscard]] std::uint32_t sum_to(const std::byte* end) const;

  Frame& frame_;
  const bool ipv6_;
  std::byte* const ip_;
  std::byte* cursor_;
  const std::byte* const payload_end_;
  const std::byte* summed_ = nullptr;  // up to where crc_ goes; nullptr: nothing yet
  std::uint32_t crc_ = 0;
};

namespace detail {

// All headers are multiples of 4 bytes, so counting from the IP header gives the same.
inline std::uint32_t pad_count(std::uint32_t payload_length) { return (0U - payload_length) & 3U; }

template <typename Header>
Header& extension(std::byte* bth, const OpcodeInfo& info, Extension which) {
  return layout::view<Header>(bth + info.offset(which));
}

inline void write_bth(layout::Bth& bth, const Headers& headers, std::uint32_t pad) {
  bth.opcode.store(static_cast<std::uint8_t>(headers.opcode));
  bth.flags.store(static_cast<std::uint8_t>((headers.solicited ? layout::kSolicited : 0U) |
                                            (headers.migrated ? layout::kMigReq : 0U) |
                                            (pad << layout::kPadShift)));
  bth.pkey.store(headers.pkey);
  bth.ecn_qpn.store((headers.fecn ? layout::kFecn : 0U) | (headers.becn ? layout::kBecn : 0U) |
                    (headers.dest_qpn & layout::kLow24));
  bth.ack_psn.store((headers.ack_request ? layout::kAckRequest : 0U) |
                    (headers.psn & layout::kLow24));
}

inline void write_reth(layout::RethLayout& layout, const Reth& reth) {
  layout.address.store(reth.address);
  layout.rkey.store(reth.rkey);
  layout.length.store(reth.length);
}

// Any others, and several. By value: a caller whose Headers nobody else can see needn't put them
// into memory for packets that have none of these.
void write_extensions(std::byte* bth, const OpcodeInfo& info, Headers headers);

inline std::uint16_t checksum_of(std::uint32_t sum) {
  sum = (sum & 0xFFFFU) + (sum >> 16U);
  sum = (sum & 0xFFFFU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace detail

// What may be written through is read before: the compiler can't know that the frame is neither the
// template nor the writer.
[[gnu::always_inline]] inline std::byte* FrameWriter::write_headers(
    Frame& frame, const FrameTemplate& frame_template, const Headers& headers,
    std::uint32_t payload_length, std::uint16_t ip_id) {
  using namespace layout;
  using namespace detail;
  const OpcodeInfo& info = opcode_info(headers.opcode);
  const std::uint32_t template_length = frame_template.length_;
  const std::uint32_t checksum_base = frame_template.checksum_base_;
  const std::uint32_t pad = pad_count(payload_length);
  const std::uint32_t udp_length = static_cast<std::uint32_t>(sizeof(Udp)) + info.header_length +
                                   payload_length + pad + kIcrcLength;
  UROCE_CHECK(template_length - sizeof(Udp) + udp_length <= frame.capacity);
  std::byte* const data = frame.data;
  std::byte* const ip_bytes = data + frame_template.ip_offset_;
  std::byte* const bth = data + template_length;
  const bool ipv6 = frame_template.ipv6_;
  // Two sizes known to the compiler instead of a call; what is written too much lies where the BTH
  // and the ICRC come.
  std::memcpy(data, frame_template.bytes_.data(), 48);
  if (template_length > 48) {
    std::memcpy(data + 48, frame_template.bytes_.data() + 48, 24);
  }
  if (ipv6) {
    view<Ipv6>(ip_bytes).payload_length.store(static_cast<std::uint16_t>(udp_length));
  } else {
    auto& ip = view<Ipv4>(ip_bytes);
    const std::uint32_t total = static_cast<std::uint32_t>(sizeof(Ipv4)) + udp_length;
    ip.total_length.store(static_cast<std::uint16_t>(total));
    ip.identification.store(ip_id);
    ip.checksum.store(checksum_of(checksum_base + total + ip_id));
  }
  view<Udp>(bth - sizeof(Udp)).length.store(static_cast<std::uint16_t>(udp_length));
  write_bth(view<Bth>(bth), headers, pad);
  if (info.extensions == static_cast<std::uint16_t>(Extension::kReth)) {  // most WRITEs
    write_reth(extension<RethLayout>(bth, info, Extension::kReth), headers.reth);
  } else if (info.extensions != 0) {
    write_extensions(bth, info, headers);
  }
  return bth + info.header_length;
}

[[gnu::always_inline]] inline FrameWriter::FrameWriter(Frame& frame,
                                                       const FrameTemplate& frame_template,
                                                       const Headers& headers,
                                                       std::uint32_t payload_length,
                                                       std::uint16_t ip_id)
    : frame_(frame),
      ipv6_(frame_template.ipv6_),
      ip_(frame.data + frame_template.ip_offset_),
      cursor_(write_headers(frame, frame_template, headers, payload_length, ip_id)),
      payload_end_(cursor_ + payload_length) {}

inline std::uint32_t FrameWriter::sum_to(const std::byte* end) const {
  if (summed_ == nullptr) {
    return icrc_begin(ip_, ipv6_, static_cast<std::size_t>(end - ip_));
  }
  return summed_ == end ? crc_
                        : crc32_update(crc_, summed_, static_cast<std::size_t>(end - summed_));
}

[[gnu::always_inline]] inline void FrameWriter::finish() {
  std::byte* end = cursor_;
  UROCE_CHECK(end == payload_end_);
  constexpr std::uint32_t kZeroes = 0;  // what is too much lies where the ICRC comes
  std::memcpy(end, &kZeroes, sizeof(kZeroes));
  end += detail::pad_count(static_cast<std::uint32_t>(end - ip_));
  const std::uint32_t icrc = frame_.icrc_left_out ? 0 : icrc_end(sum_to(end));
  std::memcpy(end, &icrc, sizeof(icrc));
  end += sizeof(icrc);
  frame_.length = static_cast<std::uint32_t>(end - frame_.data);
}

}  // namespace uroce
