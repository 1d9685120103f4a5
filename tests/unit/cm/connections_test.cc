// The tables of connections stay consistent.

#include "control/cm/connections.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce::control::cm {
namespace {

class ConnectionsTest : public ::testing::Test {
 protected:
  Connection& add(ListenerId listener) {
    Connection& connection = connections.add(random);
    connections.set_listener(connection, listener);
    return connection;
  }
  [[nodiscard]] std::set<ConnectionId> waiting_at(ListenerId listener) const {
    std::set<ConnectionId> ids;
    for (ConnectionId id = 0; (id = connections.next_waiting_at(listener, id)) != 0;) {
      ids.insert(id);
    }
    return ids;
  }

  std::mt19937_64 random{1};
  Connections connections;
};

TEST_F(ConnectionsTest, AListenerFindsThoseThatWaitAtIt) {
  const ConnectionId first = add(7).id, second = add(7).id, third = add(8).id;
  add(0);
  EXPECT_EQ(waiting_at(7), (std::set{first, second}));
  EXPECT_EQ(waiting_at(8), std::set{third});
  EXPECT_TRUE(waiting_at(6).empty());
  EXPECT_TRUE(waiting_at(9).empty());
}

TEST_F(ConnectionsTest, OneThatLeavesABacklogOrEndsIsntFoundThere) {
  Connection& answered = add(7);
  Connection& ended = add(7);
  Connection& moved = add(7);
  connections.set_listener(answered, 0);
  connections.set_listener(moved, 8);
  EXPECT_EQ(waiting_at(7), std::set{ended.id});
  EXPECT_EQ(waiting_at(8), std::set{moved.id});
  connections.remove(ended);
  EXPECT_TRUE(waiting_at(7).empty());
}

// So that what was kept for the one isn't taken for the other's.
TEST_F(ConnectionsTest, OneWithAnIdThatAnotherHadHasASerialOfItsOwn) {
  Connection& before = add(0);
  const ConnectionId id = before.id;
  const std::uint64_t serial = before.serial;
  connections.remove(before);
  random.seed(1);
  const Connection& after = add(0);
  ASSERT_EQ(after.id, id);
  EXPECT_NE(after.serial, serial);
}

}  // namespace
}  // namespace uroce::control::cm
