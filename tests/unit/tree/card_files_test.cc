#include "apps/tree/card_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/tree/report.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPort = "/sys/devices/pci7572:00/7572:00:00.0/infiniband/uroce0/ports/1/";

TreeContents contents() { return tree_contents(card_views(report_of_one_card()).value()); }

TEST(CardFiles, HaveTheKernelsFormats) {
  const TreeContents tree = contents();
  const auto port = [&](const char* name) { return tree.files.at(std::string(kPort) + name); };
  EXPECT_EQ(port("state"), "4: ACTIVE\n");
  EXPECT_EQ(port("phys_state"), "5: LinkUp\n");
  EXPECT_EQ(port("rate"), "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(port("gids/2"), "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
  EXPECT_EQ(port("gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(port("gid_attrs/types/2"), "RoCE v2\n");
  EXPECT_FALSE(tree.files.contains(std::string(kPort) + "gid_attrs/types/1"))
      << "the entry is empty";
  EXPECT_EQ(port("counters/port_rcv_data"), "1000\n") << "counted in words";
  EXPECT_EQ(port("hw_counters/packet_seq_err"), "7\n");
}

TEST(CardFiles, LinksPointToFilesOfTheTree) {
  const TreeContents tree = contents();
  const fs::path card = "/sys/class/infiniband/uroce0";
  const fs::path device = (card.parent_path() / tree.links.at(card)).lexically_normal();
  EXPECT_TRUE(tree.files.contains(device / "node_type"));
  const fs::path function = (device / tree.links.at(device / "device")).lexically_normal();
  EXPECT_TRUE(tree.files.contains(function / "vendor"));
}

TEST(CardViews, RefuseInvalidReports) {
  for (const char* missing : {"version", "devices"}) {
    auto report = report_of_one_card();
    report.erase(missing);
    EXPECT_FALSE(card_views(report)) << missing;
  }
  for (const char* name : {"", ".", "../x", "a/b"}) {
    auto report = report_of_one_card();
    report["devices"][0]["name"] = name;
    EXPECT_FALSE(card_views(report)) << name;
  }
  EXPECT_FALSE(card_views(nlohmann::ordered_json::parse("nonsense", nullptr, false)));
}

}  // namespace
}  // namespace uroce
