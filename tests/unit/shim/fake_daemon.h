#pragma once

// A daemon that answers the shim's commands and gives a test access to the shared memory: the test
// reads the rings and writes completions, but no data is moved.

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "abi/cm_records.h"
#include "abi/command_page.h"
#include "abi/command_records.h"
#include "abi/completion.h"
#include "abi/device_records.h"
#include "abi/doorbell.h"
#include "abi/work_request.h"
#include "base/unique_fd.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::test {

// A memfd and our mapping of it.
struct SharedFile {
  SharedFile() = default;
  explicit SharedFile(std::size_t length);
  UniqueFd descriptor;
  std::byte* memory = nullptr;
  std::size_t size = 0;
};

class FakeDaemon {
 public:
  static constexpr std::uint32_t kEntries = 4;
  static constexpr std::uint32_t kSgeMax = 2;
  static constexpr std::uint32_t kInlineMax = 32;
  static constexpr std::uint32_t kQpn = 0x1234;
  static constexpr std::uint32_t kCqHandle = 77;
  static constexpr std::size_t kEntriesOffset = 4'096;
  static constexpr std::size_t kRecvOffset = 8'192;
  static constexpr std::size_t kQueueLength = 16'384;

  // Listens at a path of its own, to which UROCE_SOCKET is set.
  FakeDaemon();
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  // As if it were killed: every connection and pipe closes.
  void die();
  // Later commands of this kind fail with this errno, and a sentence; 0: they succeed.
  void refuse(abi::Command command, int error, const char* sentence = "the test says no") {
    refusals_[command] = {error, sentence};
  }
  // Of its device: each fake daemon's is another one.
  std::uint32_t instance() const { return instance_; }
  // The version of the interface that the last request had.
  std::uint32_t last_version() const { return last_version_; }

  // The next command of this kind is answered when release() is called.
  void hold(abi::Command command) { held_ = static_cast<std::uint32_t>(command); }
  // Waits until it is there.
  void await_held() { arrived_.acquire(); }
  void release() { released_.release(); }
  // The completion channel ends, as when the daemon dies. REQUIRES: no command is being answered.
  void end_channel() {
    channel_write_.reset();
    channel_read_.reset();
  }

  // From now on answers have another request's number.
  void answer_out_of_order() { out_of_order_ = true; }

  // The memory shared with programs. REQUIRES: the object was made.
  abi::CqControl& cq() { return *reinterpret_cast<abi::CqControl*>(cq_.memory); }
  void complete(const abi::Cqe& cqe);
  abi::RingControl& send_ring() { return *reinterpret_cast<abi::RingControl*>(qp_.memory); }
  const abi::SendWr& send_entry(std::uint32_t index);
  abi::RingControl& recv_ring() {
    return *reinterpret_cast<abi::RingControl*>(qp_.memory + kRecvOffset);
  }
  const abi::RecvWr& recv_entry(std::uint32_t index);
  abi::Doorbells& doorbells() { return *reinterpret_cast<abi::Doorbells*>(doorbells_.memory); }
  abi::WorkerStatus& status() { return *reinterpret_cast<abi::WorkerStatus*>(status_.memory); }
  // How often the program wrote to the eventfd.
  std::uint64_t wakes();
  void announce(const abi::AsyncEventRecord& record);
  void announce(const abi::CompletionEvent& event);
  // A channel of librdmacm has an event: its byte, and the answer to commands from now on, except
  // that one which is no event is none to GET_EVENT.
  void announce_to_librdmacm(const abi::CmCommandReply& reply);
  // From now on each channel of librdmacm has a socket of its own, and announcing only says what
  // the answer to commands is.
  void separate_channels() { separate_channels_ = true; }
  std::uint64_t last_cookie() const { return last_cookie_; }
  // The handle of the protection domain of the last registration.
  std::uint32_t registered_in() const { return registered_in_; }
  // The last request, if it was a HandleRequest. REQUIRES: it was answered.
  abi::Command last_command() const { return last_command_; }
  std::uint32_t last_handle() const { return last_handle_; }
  // How often the program asked for the memory of the rings.
  std::uint32_t rings_mapped() const { return rings_mapped_; }
  // From now on the memory of the rings is reported as that of one queue pair only.
  void make_rings_of_one() { rings_of_one_ = true; }
  // Steps of resizing a queue that came before another resize had ended.
  std::uint32_t mixed_resizes() const { return mixed_resizes_; }

 private:
  struct Answer {
    std::vector<std::byte> bytes;
    std::vector<int> passed;
  };
  template <typename Reply>
  static Answer answer(const Reply& reply, std::vector<int> passed = {});
  void serve();
  void exchange_once(int connection);
  Answer answer_to(abi::Command command, const std::byte* record);
  [[nodiscard]] abi::DeviceRecord device() const;
  Answer open_device();
  Answer create_cq(const std::byte* record);
  Answer create_qp(const std::byte* record);
  Answer create_channel();
  Answer open_cm_channel();
  Answer resize_cq(const std::byte* record);
  Answer create_srq();
  Answer resize_srq(const std::byte* record);

  TemporaryFolder folder_;
  const std::uint32_t instance_;
  UniqueFd listener_, stop_read_, stop_write_;
  SharedFile cq_, qp_, doorbells_, status_, ticket_;
  UniqueFd wake_, async_read_, async_write_, channel_read_, channel_write_;
  struct Refusal {
    int error = 0;
    const char* sentence = "";
  };
  std::map<abi::Command, Refusal> refusals_;
  std::atomic<std::uint32_t> last_version_{0};
  std::uint64_t last_cookie_ = 0;
  std::uint32_t registered_in_ = 0;
  std::atomic<std::uint32_t> held_{0};  // a command; 0: none
  std::binary_semaphore arrived_{0}, released_{0};
  std::mutex cm_mutex_;  // guards the following
  abi::CmCommandReply cm_reply_{};
  std::atomic<bool> out_of_order_{false};
  abi::Command last_command_{};
  std::uint32_t last_handle_ = 0;
  bool resizing_ = false;
  std::atomic<std::uint32_t> mixed_resizes_{0};
  std::atomic<std::uint32_t> rings_mapped_{0};
  std::atomic<bool> rings_of_one_{false};
  std::atomic<bool> separate_channels_{false};
  std::vector<UniqueFd> separate_ends_;
  std::thread thread_;
};

}  // namespace uroce::test
