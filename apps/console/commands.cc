#include "apps/console/commands.h"

#include <algorithm>
#include <array>

namespace uroce::console {
namespace {

constexpr std::array kCommands = {
    Command{"region",
            "NAME length=N [key=K] [iova=X] [access=local+read+write+atomic] [seed=S] [other_pd]",
            make_region},
    Command{"remove", "REGION: deregisters it; its memory stays to be looked at", remove_region},
    Command{"forget", "REGION: its memory goes too", forget_region},
    Command{"memory", "REGION+OFFSET:LENGTH [seed=S] [skip=N]: its bytes, or whether they match",
            show_memory},
    Command{"fill", "REGION+OFFSET:LENGTH seed=S | hex=BYTES", fill_memory},
    Command{"qp",
            "NAME peer=IP [qpn=N] [type=RC|UC|UD|XRC_RECV] [peer_qpn=N] [psn=N] [send_psn=N] "
            "[mtu=BYTES] "
            "[rd_atomic=N] [rnr=CODE] [timeout=CODE] [retry=N] [rnr_retry=N] [qkey=N] "
            "[access=read+write+atomic] [state=RTS] [srq] [depth=N] [other_pd]",
            make_queue},
    Command{"modify", "QP state=STATE", modify_queue},
    Command{"show", "QP", show_queue},
    Command{"destroy", "QP", destroy_queue},
    Command{"remove_srq", "QP: destroys its shared receive queue", destroy_shared_receive_queue},
    Command{"recv", "QP WR [to=REGION+OFFSET:LENGTH ...]", post_receive},
    Command{"send",
            "QP WR opcode=SEND|WRITE|READ|COMPARE_SWAP|FETCH_ADD|... [from=REGION+OFFSET:LENGTH "
            "...] [address=A] [rkey=K] [imm=N] [compare=N] [swap=N] [add=N] [unsignaled] "
            "[solicited] [fence] [inline]",
            post_send},
    Command{"window",
            "NAME [of=REGION+OFFSET:LENGTH qp=QP] [type=2] [access=read+write+atomic] [zero_based] "
            "[other_pd]: allocated, and bound by the queue pair",
            make_window},
    Command{"free", "WINDOW", free_window},
    Command{"poll", "QP recv|send [wait=MS]: the next completion", poll_queue},
    Command{"event", "[wait=MS]: the next asynchronous event", next_event},
    Command{"port", ": addresses and link of the card", show_port},
    Command{"counters", "[QP]: of the port, with drops by reason; or of a queue pair",
            show_counters},
};

}  // namespace

const Command* find_command(std::string_view name) {
  const auto* found = std::find_if(kCommands.begin(), kCommands.end(),
                                   [&](const Command& command) { return command.name == name; });
  return found == kCommands.end() ? nullptr : found;
}

std::string help_text() {
  std::string text;
  for (const Command& command : kCommands) {
    text.append(command.name).append(" ").append(command.usage).append("\n");
  }
  text +=
      "later MS COMMAND: runs it then, silently\nquit\n# starts a comment; numbers are decimal or "
      "0x...\n";
  return text;
}

}  // namespace uroce::console
