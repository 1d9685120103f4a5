#pragma once

// A running capture: a ring per worker, into which the worker writes received and sent frames
// (dataplane/engine/turn/capture.h). It ends with the connection that requested it.

#include <memory>
#include <vector>

#include "abi/capture_records.h"
#include "base/result.h"
#include "control/sessions/sealed_memory.h"
#include "dataplane/engine/engine.h"
#include "dataplane/engine/turn/capture.h"
#include "shares/account.h"

namespace uroce::control {

class Capture {
 public:
  // EBUSY: another capture is running. The engine outlives it; the rings are charged to the
  // account.
  static Result<std::unique_ptr<Capture>> start(Engine& engine, const abi::CaptureRequest& request,
                                                Account& account);
  ~Capture();  // no worker refers to it afterwards
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The rings' descriptors, by worker. Call once.
  std::vector<UniqueFd> take_descriptors();
  [[nodiscard]] std::uint64_t ring_bytes() const { return ring_bytes_; }

 private:
  Capture(Engine& engine, std::uint64_t ring_bytes) : engine_(engine), ring_bytes_(ring_bytes) {}
  Status attach();

  Engine& engine_;
  const std::uint64_t ring_bytes_;
  std::vector<SealedMemory> memory_;
  std::vector<std::unique_ptr<CaptureWriter>> writers_;
  std::uint32_t attached_ = 0;  // number of workers it is attached to, from the first on
};

}  // namespace uroce::control
