// Regions, and what their memory holds.

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "apps/console/commands.h"
#include "apps/console/names.h"

namespace uroce::console {
namespace {

constexpr std::uint64_t kRegionBytesMax = 1ULL << 40U;

struct Range {
  std::byte* bytes = nullptr;
  std::uint64_t length = 0;
};

Result<Range> range_of(const Objects& objects, const std::string& text) {
  const auto place = parse_place(text);
  if (!place) {
    return place.error();
  }
  const auto region = objects.region(place->region);
  if (!region) {
    return region.error();
  }
  const Region& memory = **region;
  if (place->offset > memory.length || place->length.value_or(0) > memory.length - place->offset) {
    return Error{ERANGE, "`" + text + "` reaches beyond the region's " +
                             std::to_string(memory.length) + " bytes"};
  }
  return Range{memory.bytes + place->offset, place->length.value_or(memory.length - place->offset)};
}

Status write_hexadecimal(const Range& range, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes || bytes->size() != range.length) {
    return !bytes ? bytes.error()
                  : Error{EINVAL, "hex= needs two digits for each byte of the place"};
  }
  std::copy(bytes->begin(), bytes->end(), range.bytes);
  return ok();
}

}  // namespace

Result<std::string> make_region(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  auto region = std::make_unique<Region>();
  region->length = words.number("length");
  const auto key = static_cast<std::uint32_t>(words.number("key", 0));
  const auto iova = words.number_if_there("iova");
  const auto seed = words.number_if_there("seed");
  const unsigned access = words.parsed("access", "local+read+write+atomic", parse_access);
  const bool other_pd = words.flag("other_pd");
  if (Status status = words.check(); !status) {
    return status.error();
  }
  if (name.empty() || objects.regions.contains(name) ||
      objects.regions.size() >= Objects::kObjectsMax || region->length == 0 ||
      region->length > kRegionBytesMax) {
    return Error{EINVAL, "a region needs a new name and a length from 1 to 2^40; there may be " +
                             std::to_string(Objects::kObjectsMax) + " regions"};
  }
  void* const memory = ::mmap(nullptr, region->length, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return verb_error("mmap", errno);
  }
  region->bytes = static_cast<std::byte*>(memory);
  if (seed) {
    for (std::size_t i = 0; i < region->length; ++i) {
      region->bytes[i] = pattern(*seed, i);
    }
  }
  region->iova = iova.value_or(reinterpret_cast<std::uintptr_t>(memory));
  if (Status status = objects.choose(0, key); !status) {
    return status.error();
  }
  region->mr = ibv_reg_mr_iova2(objects.pd(other_pd), memory, region->length, region->iova, access);
  if (region->mr == nullptr) {
    return verb_error("ibv_reg_mr_iova2", errno);
  }
  const std::string answer = "region=" + name + " key=" + std::to_string(region->mr->rkey) +
                             " address=" + std::to_string(region->iova) +
                             " length=" + std::to_string(region->length) + "\n";
  objects.regions[name] = std::move(region);
  return answer;
}

Result<std::string> remove_region(Objects& objects, Words& words) {
  const auto region = objects.region(words.next_name());
  if (Status status = words.check(); !status || !region) {
    return !status ? status.error() : region.error();
  }
  ibv_mr*& mr = (*region)->mr;
  const int code = mr == nullptr ? EINVAL : ibv_dereg_mr(mr);
  if (code != 0) {
    return verb_error("ibv_dereg_mr", code);
  }
  mr = nullptr;
  return std::string("removed=yes\n");
}

Result<std::string> forget_region(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  const auto region = objects.region(name);
  if (Status status = words.check(); !status || !region) {
    return !status ? status.error() : region.error();
  }
  objects.regions.erase(name);
  return std::string("forgotten=yes\n");
}

Result<std::string> show_memory(Objects& objects, Words& words) {
  const auto range = range_of(objects, words.next_name());
  const auto seed = words.number_if_there("seed");
  const std::uint64_t skip = words.number("skip", 0);
  if (Status status = words.check(); !status || !range) {
    return !status ? status.error() : range.error();
  }
  return memory_text(range->bytes, range->length, seed, skip);
}

Result<std::string> fill_memory(Objects& objects, Words& words) {
  const auto range = range_of(objects, words.next_name());
  const auto bytes = words.text("hex");
  const std::uint64_t seed = bytes ? 0 : words.number("seed");
  if (Status status = words.check(); !status || !range) {
    return !status ? status.error() : range.error();
  }
  if (bytes) {
    if (Status status = write_hexadecimal(*range, *bytes); !status) {
      return status.error();
    }
  } else {
    for (std::uint64_t i = 0; i < range->length; ++i) {
      range->bytes[i] = pattern(seed, i);
    }
  }
  return "filled=" + std::to_string(range->length) + "\n";
}

Result<ibv_sge> gather(const Objects& objects, const Place& place) {
  const auto region = objects.region(place.region);
  if (!region) {
    return region.error();
  }
  const Region& memory = **region;
  const std::uint64_t length = place.length.value_or(memory.length - place.offset);
  return ibv_sge{.addr = memory.iova + place.offset,
                 .length = static_cast<std::uint32_t>(length),
                 .lkey = memory.mr != nullptr ? memory.mr->lkey : 0};
}

}  // namespace uroce::console
