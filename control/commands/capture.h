#pragma once

// A capture that runs: a ring for each worker, which writes what comes and goes into it
// (dataplane/engine/turn/capture.h). It ends with the connection that asked for it.

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
  // EBUSY: another one runs. The engine outlives it; the account pays for the rings.
  static Result<std::unique_ptr<Capture>> start(Engine& engine, const abi::CaptureRequest& wish,
                                                Account& account);
  ~Capture();  // no worker knows of it afterwards
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The rings' descriptors, by worker; once.
  std::vector<UniqueFd> take_descriptors();
  [[nodiscard]] std::uint64_t ring_bytes() const { return ring_bytes_; }

 private:
  Capture(Engine& engine, std::uint64_t ring_bytes) : engine_(engine), ring_bytes_(ring_bytes) {}
  Status attach();

  Engine& engine_;
  const std::uint64_t ring_bytes_;
  std::vector<SealedMemory> memory_;
  std::vector<std::unique_ptr<CaptureWriter>> writers_;
  std::uint32_t attached_ = 0;  // to so many workers, from the first on
};

}  // namespace uroce::control
