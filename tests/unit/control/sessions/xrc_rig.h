#pragma once

// Two programs, with a protection domain and a completion queue each, that open XRC domains.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "abi/cq_records.h"
#include "abi/device_records.h"
#include "tests/unit/control/program.h"

namespace uroce::control {

class XrcTest : public ::testing::Test {
 protected:
  XrcTest() {
    for (Program* program : {&a, &b}) {
      program->open();
      EXPECT_EQ(program->make_pd(), 0U);
      EXPECT_EQ(program->make_cq(), 0U);
    }
  }

  Answer open(Program& program, std::uint32_t flags, int descriptor = -1) const {
    abi::OpenXrcdRequest body{};
    body.flags = flags;
    Record record = make_record(abi::Command::kOpenXrcd, body);
    if (descriptor >= 0) {
      record.descriptors.emplace_back(::dup(descriptor));
      abi::RequestHeader header;
      std::memcpy(&header, record.bytes.data(), sizeof(header));
      header.descriptor_count = 1;
      std::memcpy(record.bytes.data(), &header, sizeof(header));
    }
    return program.send(std::move(record));
  }
  static Answer make_target(Program& program, std::uint32_t xrcd) {
    abi::CreateQpRequest request{};
    request.type = static_cast<std::uint32_t>(QpType::kXrcRecv);
    request.xrcd = xrcd;
    request.cookie = 500;
    return program.ask(abi::Command::kCreateQp, request);
  }
  static Answer open_target(Program& program, std::uint32_t xrcd, std::uint32_t qpn) {
    abi::OpenQpRequest request{};
    request.xrcd = xrcd;
    request.qpn = qpn;
    return program.ask(abi::Command::kOpenQp, request);
  }
  static Answer make_srq(Program& program, std::uint32_t xrcd) {
    abi::CreateSrqRequest request{};
    request.max_wr = 8;
    request.type = 1;
    request.xrcd = xrcd;
    return program.ask(abi::Command::kCreateSrq, request);
  }

  Rig rig;
  Program a{rig}, b{rig};
  UniqueFd file{::memfd_create("xrcd", 0)}, other_file{::memfd_create("xrcd", 0)};
};

}  // namespace uroce::control
