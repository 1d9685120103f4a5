// The effect of SIGHUP on the addresses of a port.

#include "control/start/reload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "control/commands/address_changes.h"
#include "tests/unit/control/rig.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

class ReloadedAddresses : public testing::Test {
 protected:
  ReloadedAddresses() : ReloadedAddresses(std::make_unique<LoopbackPort>(4200, 1)) {}
  explicit ReloadedAddresses(std::unique_ptr<Port> port) : rig(std::move(port), 1) {}

  // A configuration file with these addresses for its one port.
  static DaemonOptions file(std::initializer_list<const char*> addresses) {
    DaemonOptions options;
    options.ports.resize(1);
    for (const char* text : addresses) {
      options.ports[0].addresses.push_back(*parse_prefix(text));
    }
    return options;
  }
  // True if the log has a line that ends with `says`.
  bool hang_up(std::initializer_list<const char*> addresses, const std::string& says) {
    const std::vector<std::string> lines = reload.take(file(addresses));
    return std::any_of(lines.begin(), lines.end(),
                       [&says](const std::string& line) { return line.ends_with(says); });
  }
  bool has(const char* address) { return device().gids().owns(*parse_ip(address)); }
  Device& device() { return rig.card.devices()[0]; }

  Rig rig;
  std::vector<std::unique_ptr<Port>> ports;
  // The same addresses as the rig's card.
  Reload reload{file({"10.0.0.1/24", "fd00::1/64"}), rig.card, rig.kernel, ports};
};

TEST_F(ReloadedAddresses, MayHaveBeenRemovedAlready) {
  ASSERT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"}, "10.0.0.3/24 is added"));
  ASSERT_TRUE(remove_address(rig.card, rig.kernel, device(), *parse_ip("10.0.0.2")));
  EXPECT_TRUE(hang_up({"10.0.0.1/24"}, "10.0.0.3/24 is removed"));
  EXPECT_FALSE(has("10.0.0.3"));
  EXPECT_TRUE(hang_up({"10.0.0.1/24"}, "nothing changed"));
}

TEST_F(ReloadedAddresses, MayHaveBeenAddedAlready) {
  ASSERT_TRUE(add_address(rig.card, rig.kernel, device(), *parse_prefix("10.0.0.5/24")));
  EXPECT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.5/24"}, "10.0.0.5/24 was there already"));
  EXPECT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.5/24"}, "nothing changed"));
  EXPECT_TRUE(hang_up({"10.0.0.1/24"}, "10.0.0.5/24 is removed"));
  EXPECT_FALSE(has("10.0.0.5"));
}

// On a link the prefix says who the neighbours are.
class ReloadedAddressesOfALink : public ReloadedAddresses {
 protected:
  ReloadedAddressesOfALink() : ReloadedAddresses(std::make_unique<SilentPort>()) {}
};

TEST_F(ReloadedAddressesOfALink, MayHaveBeenAddedWithAnotherPrefix) {
  ASSERT_TRUE(add_address(rig.card, rig.kernel, device(), *parse_prefix("10.0.0.5/16")));
  EXPECT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.5/24"}, "10.0.0.5/24 is added"));
  EXPECT_FALSE(device().gids().on_link(*parse_ip("10.0.9.9")));
  EXPECT_TRUE(hang_up({"10.0.0.1/24"}, "10.0.0.5/24 is removed"));
  EXPECT_FALSE(has("10.0.0.5"));
}

// On loopback it says next to nothing, and removing the address would end its connections.
TEST_F(ReloadedAddresses, KeepTheirPrefixWhereThereIsNoLink) {
  ASSERT_TRUE(add_address(rig.card, rig.kernel, device(), *parse_prefix("10.0.0.5/16")));
  EXPECT_TRUE(
      hang_up({"10.0.0.1/24", "10.0.0.5/24"}, "10.0.0.5/24 was there already, as 10.0.0.5/16"));
  EXPECT_TRUE(device().gids().on_link(*parse_ip("10.0.9.9")));
  EXPECT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.5/24"}, "nothing changed"));
  EXPECT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.5/16"}, "10.0.0.5/16 was there already"));
  EXPECT_TRUE(
      hang_up({"10.0.0.1/24", "10.0.0.5/20"}, "10.0.0.5/20 was there already, as 10.0.0.5/16"));
  EXPECT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.5/24@5"}, "10.0.0.5/24@5 is added"));
  EXPECT_TRUE(hang_up({"10.0.0.1/24"}, "10.0.0.5/24@5 is removed"));
  EXPECT_FALSE(has("10.0.0.5"));
}

TEST_F(ReloadedAddressesOfALink, GetAnotherPrefixOrVlan) {
  ASSERT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.2/24"}, "10.0.0.2/24 is added"));
  EXPECT_TRUE(hang_up({"10.0.0.1/16"}, "10.0.0.1/16 is added"));
  EXPECT_TRUE(device().gids().on_link(*parse_ip("10.0.9.9")));
  EXPECT_FALSE(has("10.0.0.2"));
  EXPECT_TRUE(hang_up({"10.0.0.1/16@5"}, "10.0.0.1/16@5 is added"));
  EXPECT_EQ(device().gids().vlan_of(*parse_ip("10.0.0.1")), 5);
  EXPECT_TRUE(hang_up({"10.0.0.1/16@5"}, "nothing changed"));
}

TEST_F(ReloadedAddresses, ThatCannotBeAddedDontKeepOthersFromRemoval) {
  ASSERT_TRUE(hang_up({"10.0.0.1/24", "10.0.0.2/24"}, "10.0.0.2/24 is added"));
  const std::string link_local = to_string(device().gids().entries().front().address) + "/64";
  EXPECT_TRUE(hang_up({"10.0.0.1/24", link_local.c_str()}, "10.0.0.2/24 is removed"));
  EXPECT_FALSE(has("10.0.0.2"));
}

class ReloadedAddressesOfTwoPorts : public testing::Test {
 protected:
  static DaemonOptions file(const std::vector<std::vector<const char*>>& ports) {
    DaemonOptions options;
    options.ports.resize(ports.size());
    for (std::size_t i = 0; i < ports.size(); ++i) {
      for (const char* text : ports[i]) {
        options.ports[i].addresses.push_back(*parse_prefix(text));
      }
    }
    return options;
  }
  // The lines of the log.
  std::vector<std::string> hang_up(const std::vector<std::vector<const char*>>& addresses) {
    return reload.take(file(addresses));
  }
  bool has(std::size_t device, const char* address) {
    return rig.card.devices()[device].gids().owns(*parse_ip(address));
  }

  Rig rig{std::make_unique<LoopbackPort>(4200, 1), 1, std::make_unique<LoopbackPort>(4200, 1)};
  std::vector<std::unique_ptr<Port>> ports;
  Reload reload{file({{"10.0.0.1/24", "fd00::1/64"}, {"10.0.1.1/24"}}), rig.card, rig.kernel,
                ports};
};

TEST_F(ReloadedAddressesOfTwoPorts, MoveToAnEarlierPortAndBack) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(hang_up({{"10.0.0.1/24", "fd00::1/64", "10.0.1.1/24"}, {"10.0.1.2/24"}}),
            Lines({"uroce1: ip: 10.0.1.2/24 is added", "uroce1: ip: 10.0.1.1/24 is removed",
                   "uroce0: ip: 10.0.1.1/24 is added"}));
  EXPECT_TRUE(has(0, "10.0.1.1"));
  EXPECT_FALSE(has(1, "10.0.1.1"));
  EXPECT_EQ(hang_up({{"10.0.0.1/24", "fd00::1/64"}, {"10.0.1.2/24", "10.0.1.1/24"}}),
            Lines({"uroce0: ip: 10.0.1.1/24 is removed", "uroce1: ip: 10.0.1.1/24 is added"}));
}

TEST_F(ReloadedAddressesOfTwoPorts, AreExchanged) {
  hang_up({{"10.0.1.1/24", "fd00::1/64"}, {"10.0.0.1/24"}});
  EXPECT_TRUE(has(0, "10.0.1.1"));
  EXPECT_TRUE(has(1, "10.0.0.1"));
  EXPECT_FALSE(has(0, "10.0.0.1"));
  EXPECT_EQ(hang_up({{"10.0.1.1/24", "fd00::1/64"}, {"10.0.0.1/24"}}).back(), "nothing changed");
}

// `uroce addr` has added it there, so the file doesn't remove it.
TEST_F(ReloadedAddressesOfTwoPorts, OfAnotherPortAreLeftThere) {
  ASSERT_TRUE(
      add_address(rig.card, rig.kernel, rig.card.devices()[1], *parse_prefix("10.0.0.9/24")));
  EXPECT_EQ(hang_up({{"10.0.0.1/24", "fd00::1/64", "10.0.0.9/24"}, {"10.0.1.1/24"}}),
            std::vector<std::string>({"uroce0: ip: 10.0.0.9 is an address of uroce1"}));
  EXPECT_TRUE(has(1, "10.0.0.9"));
}

// A name that no directory service has any more shows that none is asked.
TEST(ReloadedLimits, AreOfTheUsersThatWereFoundAtTheStart) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "uroce.toml";
  std::ofstream(path) << "port = \"loopback\"\nip = \"10.0.0.1/24\"\n"
                         "[limits.no-such-user]\nqps = 2\n";
  const std::vector<const char*> words = {"uroced", "--config", path.c_str()};
  DaemonOptions given = parse_command_line(3, words.data(), {{"no-such-user", 4711}})->options;
  given.limits.of_user.at(4711).limits = {{Limit::kQps, 1}};
  Rig rig;
  const std::vector<std::unique_ptr<Port>> ports;
  Reload reload(given, rig.card, rig.kernel, ports);
  const std::vector<std::string> lines = *reload.read_again();
  ASSERT_EQ(lines.size(), 1U) << lines.front();
  EXPECT_TRUE(lines.front().starts_with("limits: in force")) << lines.front();
}

TEST(Reload, FailsIfTheFileCannotBeRead) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "uroce.toml";
  DaemonOptions given;
  given.command_line = {"uroced", "--config", path};
  Rig rig;
  const std::vector<std::unique_ptr<Port>> ports;
  Reload reload(given, rig.card, rig.kernel, ports);
  const auto lines = reload.read_again();
  ASSERT_FALSE(lines);
  EXPECT_EQ(lines.error().message, path + ": No such file or directory");
}

}  // namespace
}  // namespace uroce::control
