#pragma once

// The connection to the daemon that keeps a capture running, and the workers' rings.

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

// The ring of one worker, mapped. Reads complete records only.
class RingReader {
 public:
  // `memory`: as CaptureWriter has it. It outlives this.
  explicit RingReader(std::span<std::byte> memory);

  // The next record; nothing: there is none yet. An invalid record ends the ring.
  [[nodiscard]] std::optional<Record> next();
  // Packets for which there was no room.
  [[nodiscard]] std::uint64_t missed() const;

 private:
  void copy(std::uint64_t at, void* to, std::size_t length) const;

  abi::CaptureControl& control_;
  const std::byte* ring_;
  std::uint64_t size_;
  std::uint64_t tail_ = 0;
  bool broken_ = false;
};

// The source of records: a daemon's rings, or a test's.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // Reads the available records of all workers in chronological order, `max` at most.
  virtual std::size_t read(std::size_t max, const std::function<void(Record)>& take) = 0;
  // Whether the producer of the records has ended.
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
