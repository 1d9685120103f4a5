// Queue pairs: made and brought to a state in one command, because that is what one wants.

#include <arpa/inet.h>
#include <fcntl.h>

#include <cerrno>

#include "apps/console/commands.h"
#include "apps/console/names.h"
#include "base/ipv4_mapped.h"

namespace uroce::console {
namespace {

constexpr std::uint32_t kDepthDefault = 64;
constexpr std::uint32_t kSgeMax = 8;
constexpr std::uint32_t kInlineMax = 128;
constexpr int kHopLimit = 64;

// What the user asked for; verbs take it in three steps.
struct QpOptions {
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t qpn = 0;
  std::uint32_t depth = kDepthDefault;
  bool shared_receive = false;
  bool other_pd = false;
  ibv_qp_state state = IBV_QPS_RTS;
  std::string peer;
  unsigned access = 0;
  ibv_qp_attr attributes{};
};

Result<ibv_qp_type> parse_type(std::string_view name) {
  for (const auto& [type, its_name] :
       {std::pair(IBV_QPT_RC, "RC"), std::pair(IBV_QPT_UC, "UC"), std::pair(IBV_QPT_UD, "UD"),
        std::pair(IBV_QPT_XRC_RECV, "XRC_RECV")}) {
    if (name == its_name) {
      return type;
    }
  }
  return Error{
      EINVAL, std::string("`").append(name) + "` is not a queue pair type: RC, UC, UD or XRC_RECV"};
}

QpOptions read_options(Words& words) {
  QpOptions options;
  options.type = words.parsed("type", "RC", parse_type);
  options.qpn = static_cast<std::uint32_t>(words.number("qpn", 0));
  options.depth = static_cast<std::uint32_t>(words.number("depth", kDepthDefault));
  options.shared_receive = words.flag("srq");
  options.other_pd = words.flag("other_pd");
  options.state = words.parsed("state", "RTS", parse_state);
  options.peer = words.text("peer", "");
  options.access = words.parsed("access", "read+write+atomic", parse_access);
  ibv_qp_attr& attributes = options.attributes;
  attributes.path_mtu = words.parsed("mtu", "1024", [](const std::string& text) {
    const auto bytes = parse_number(text);
    return bytes ? parse_mtu(*bytes) : Result<ibv_mtu>(bytes.error());
  });
  const auto byte = [&](const char* name, std::uint64_t otherwise) {
    return static_cast<std::uint8_t>(words.number(name, otherwise));
  };
  attributes.dest_qp_num = static_cast<std::uint32_t>(words.number("peer_qpn", 1));
  attributes.rq_psn = static_cast<std::uint32_t>(words.number("psn", 0));
  attributes.sq_psn = static_cast<std::uint32_t>(words.number("send_psn", 0));
  attributes.qkey = static_cast<std::uint32_t>(words.number("qkey", 0x1111'1111));
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = byte("rd_atomic", 4);
  attributes.min_rnr_timer = byte("rnr", 12);
  attributes.timeout = byte("timeout", 14);
  attributes.retry_cnt = byte("retry", 7);
  attributes.rnr_retry = byte("rnr_retry", 7);
  return options;
}

// An IPv4 address becomes ::ffff:a.b.c.d, as its GID is.
Result<ibv_gid> parse_gid(const std::string& text) {
  ibv_gid gid{};
  std::string address(text.find(':') == std::string::npos ? "::ffff:" : "");
  address.append(text);
  if (inet_pton(AF_INET6, address.c_str(), gid.raw) != 1) {
    return Error{EINVAL, "peer= takes an IPv4 or IPv6 address, not `" + text + "`"};
  }
  return gid;
}

// A path to the peer from our first address of its family.
Result<ibv_ah_attr> path_to(ibv_context* context, const std::string& peer) {
  const auto gid = parse_gid(peer);
  if (!gid) {
    return gid.error();
  }
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.dgid = *gid;
  path.grh.hop_limit = kHopLimit;
  ibv_gid own{};
  // Index 0 is the link-local address.
  for (std::uint8_t index = 1; ibv_query_gid(context, 1, index, &own) == 0; ++index) {
    if (is_ipv4_mapped(own.raw) == is_ipv4_mapped(gid->raw)) {
      path.grh.sgid_index = index;
      return path;
    }
  }
  return Error{EADDRNOTAVAIL, "the card has no address of the family of " + peer};
}

// A receiving queue pair of a domain of its own, with one shared receive queue.
Status create_xrc(const Objects& objects, const QpOptions& options, Queue* queue) {
  ibv_xrcd_init_attr domain{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  queue->xrcd = ibv_open_xrcd(objects.context(), &domain);
  if (queue->xrcd == nullptr) {
    return verb_error("ibv_open_xrcd", errno);
  }
  ibv_srq_init_attr_ex shared{};
  shared.attr = {.max_wr = options.depth, .max_sge = kSgeMax, .srq_limit = 0};
  shared.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  shared.srq_type = IBV_SRQT_XRC;
  shared.pd = objects.pd(options.other_pd);
  shared.xrcd = queue->xrcd;
  shared.cq = queue->recv_cq;
  queue->srq = ibv_create_srq_ex(objects.context(), &shared);
  if (queue->srq == nullptr) {
    return verb_error("ibv_create_srq_ex", errno);
  }
  if (Status status = objects.choose(options.qpn, 0); !status) {
    return status;
  }
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = queue->xrcd;
  queue->qp = ibv_create_qp_ex(objects.context(), &init);
  return queue->qp != nullptr ? ok() : Status(verb_error("ibv_create_qp_ex", errno));
}

Status create(const Objects& objects, const QpOptions& options, Queue* queue) {
  const int depth = static_cast<int>(options.depth);
  queue->send_cq = ibv_create_cq(objects.context(), depth, nullptr, nullptr, 0);
  queue->recv_cq = ibv_create_cq(objects.context(), depth, nullptr, nullptr, 0);
  if (queue->send_cq == nullptr || queue->recv_cq == nullptr) {
    return verb_error("ibv_create_cq", errno);
  }
  if (options.type == IBV_QPT_XRC_RECV) {
    return create_xrc(objects, options, queue);
  }
  if (options.shared_receive) {
    ibv_srq_init_attr init{};
    init.attr.max_wr = options.depth;
    init.attr.max_sge = kSgeMax;
    queue->srq = ibv_create_srq(objects.pd(options.other_pd), &init);
    if (queue->srq == nullptr) {
      return verb_error("ibv_create_srq", errno);
    }
  }
  ibv_qp_init_attr init{};
  init.qp_type = options.type;
  init.send_cq = queue->send_cq;
  init.recv_cq = queue->recv_cq;
  init.srq = queue->srq;
  init.cap = {.max_send_wr = options.depth,
              .max_recv_wr = options.depth,
              .max_send_sge = kSgeMax,
              .max_recv_sge = kSgeMax,
              .max_inline_data = kInlineMax};
  if (Status status = objects.choose(options.qpn, 0); !status) {
    return status;
  }
  queue->qp = ibv_create_qp(objects.pd(options.other_pd), &init);
  return queue->qp != nullptr ? ok() : Status(verb_error("ibv_create_qp", errno));
}

// The attributes that verbs want for each step, by type.
int init_mask(ibv_qp_type type) {
  return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
         (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

int rtr_mask(ibv_qp_type type) {
  constexpr int kConnected =
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  return type == IBV_QPT_UD   ? IBV_QP_STATE
         : type == IBV_QPT_UC ? kConnected
                              : kConnected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

int rts_mask(ibv_qp_type type) {
  constexpr int kAny = IBV_QP_STATE | IBV_QP_SQ_PSN;
  return type == IBV_QPT_RC
             ? kAny | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
             : kAny;
}

// Through INIT and RTR as far as the requested state.
Status bring_up(const QpOptions& options, ibv_qp* qp) {
  ibv_qp_attr attributes = options.attributes;
  attributes.port_num = 1;
  attributes.qp_access_flags = options.access;
  const std::pair<ibv_qp_state, int> steps[] = {{IBV_QPS_INIT, init_mask(options.type)},
                                                {IBV_QPS_RTR, rtr_mask(options.type)},
                                                {IBV_QPS_RTS, rts_mask(options.type)}};
  for (const auto& [state, mask] : steps) {
    // What only receives has no use for RTS.
    if (options.state < state || (state == IBV_QPS_RTS && options.type == IBV_QPT_XRC_RECV)) {
      break;
    }
    attributes.qp_state = state;
    if (const int code = ibv_modify_qp(qp, &attributes, mask); code != 0) {
      return verb_error(("ibv_modify_qp to " + name_of(state)).c_str(), code);
    }
  }
  return ok();
}

std::string describe(const std::string& name, const Queue& queue) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (const int code = ibv_query_qp(queue.qp, &attributes, IBV_QP_STATE, &init); code != 0) {
    return std::string("error=").append(verb_error("ibv_query_qp", code).message) + "\n";
  }
  std::uint32_t srq = 0;
  const bool named =
      queue.xrcd != nullptr && queue.srq != nullptr && ibv_get_srq_num(queue.srq, &srq) == 0;
  return "qp=" + name + (named ? " srq=" + std::to_string(srq) : "") +
         " qpn=" + std::to_string(queue.qp->qp_num) + " state=" + name_of(attributes.qp_state) +
         " peer_qpn=" + std::to_string(attributes.dest_qp_num) +
         " psn=" + std::to_string(attributes.rq_psn) +
         " send_psn=" + std::to_string(attributes.sq_psn) + "\n";
}

}  // namespace

Result<std::string> make_queue(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  QpOptions options = read_options(words);
  if (Status status = words.check(); !status) {
    return status.error();
  }
  if (name.empty() || objects.queues.contains(name) ||
      objects.queues.size() >= Objects::kObjectsMax || options.state > IBV_QPS_RTS) {
    return Error{EINVAL, "a queue pair needs a new name and a state up to RTS; there may be " +
                             std::to_string(Objects::kObjectsMax) + " of them"};
  }
  if (options.state >= IBV_QPS_RTR) {
    const auto path = path_to(objects.context(), options.peer);
    if (!path) {
      return path.error();
    }
    options.attributes.ah_attr = *path;
  }
  auto queue = std::make_unique<Queue>();
  queue->peer_qpn = options.attributes.dest_qp_num;
  queue->qkey = options.attributes.qkey;
  if (Status status = create(objects, options, queue.get()); !status) {
    return status.error();
  }
  if (Status status = bring_up(options, queue->qp); !status) {
    return status.error();
  }
  if (options.type == IBV_QPT_UD && options.state >= IBV_QPS_RTR) {
    queue->ah = ibv_create_ah(objects.pd(options.other_pd), &options.attributes.ah_attr);
    if (queue->ah == nullptr) {
      return verb_error("ibv_create_ah", errno);
    }
  }
  const std::string answer = describe(name, *queue);
  objects.queues[name] = std::move(queue);
  return answer;
}

Result<std::string> modify_queue(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  const ibv_qp_state state = words.parsed("state", "", parse_state);
  const auto queue = objects.queue(name);
  if (Status status = words.check(); !status || !queue) {
    return !status ? status.error() : queue.error();
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  if (const int code = ibv_modify_qp((*queue)->qp, &attributes, IBV_QP_STATE); code != 0) {
    return verb_error("ibv_modify_qp", code);
  }
  return describe(name, **queue);
}

Result<std::string> show_queue(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  const auto queue = objects.queue(name);
  if (Status status = words.check(); !status || !queue) {
    return !status ? status.error() : queue.error();
  }
  return describe(name, **queue);
}

Result<std::string> destroy_shared_receive_queue(Objects& objects, Words& words) {
  const auto queue = objects.queue(words.next_name());
  if (Status status = words.check(); !status || !queue) {
    return !status ? status.error() : queue.error();
  }
  ibv_srq*& srq = (*queue)->srq;
  const int code = srq == nullptr ? EINVAL : ibv_destroy_srq(srq);
  if (code != 0) {
    return verb_error("ibv_destroy_srq", code);
  }
  srq = nullptr;
  return std::string("destroyed=yes\n");
}

Result<std::string> destroy_queue(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  const auto queue = objects.queue(name);
  if (Status status = words.check(); !status || !queue) {
    return !status ? status.error() : queue.error();
  }
  objects.queues.erase(name);
  return std::string("destroyed=yes\n");
}

}  // namespace uroce::console
