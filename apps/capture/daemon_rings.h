#pragma once

// The daemon's end of a capture: the connection that keeps it running, and the workers' rings.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/capture_records.h"
#include "apps/capture/record.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce::capture {

// One worker's ring, mapped. Reads what is whole.
class RingReader {
 public:
  // `memory`: as CaptureWriter has it. It outlives this.
  explicit RingReader(std::span<std::byte> memory);

  // The next record; nothing: there is none yet. What makes no sense ends the ring.
  [[nodiscard]] std::optional<Record> next();
  // That there was no room for.
  [[nodiscard]] std::uint64_t missed() const;

 private:
  void copy(std::uint64_t at, void* to, std::size_t length) const;

  abi::CaptureControl& control_;
  const std::byte* ring_;
  std::uint64_t size_;
  std::uint64_t tail_ = 0;
  bool broken_ = false;
};

// Where the loop takes its records from: a daemon's rings, or a test's.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // All that is there now, the workers' in the order of time. At most so many.
  virtual std::size_t read(std::size_t max, const std::function<void(Record)>& take) = 0;
  // Whoever writes the records ended.
  [[nodiscard]] virtual bool gone() const = 0;

 protected:
  RecordSource() = default;
  RecordSource(const RecordSource&) = default;
};

class DaemonRings final : public RecordSource {
 public:
  // Asks for a capture; packets are copied from now on, until this ends.
  [[nodiscard]] static Result<DaemonRings> open(const std::string& socket, std::uint64_t ring_bytes,
                                                std::uint32_t snap);
  ~DaemonRings() override;
  DaemonRings(DaemonRings&& other) noexcept = default;
  DaemonRings& operator=(DaemonRings&&) = delete;

  std::size_t read(std::size_t max, const std::function<void(Record)>& take) override;
  [[nodiscard]] std::uint64_t missed() const;
  [[nodiscard]] bool gone() const override;

 private:
  DaemonRings() = default;

  UniqueFd connection_;
  std::vector<std::span<std::byte>> memory_;
  std::vector<RingReader> rings_;
  std::vector<std::optional<Record>> next_;  // of each ring
};

}  // namespace uroce::capture
