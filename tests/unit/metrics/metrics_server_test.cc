#include "control/metrics/metrics_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/sockets/record_socket.h"
#include "base/time/monotonic_clock.h"
#include "tests/unit/metrics/sample_report.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::control {
namespace {

class MetricsServing : public testing::Test {
 protected:
  std::unique_ptr<MetricsServer> serve(MetricsServer::Fetch fetch) {
    auto server = MetricsServer::start("unix:" + path_, std::move(fetch));
    EXPECT_TRUE(server) << server.error().message;
    return server ? std::move(*server) : nullptr;
  }

  // The whole answer; "" if there is none.
  [[nodiscard]] std::string ask(const std::string& request) const {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    const auto address = address_of(path_);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) !=
        0) {
      return "";
    }
    (void)!::write(socket.get(), request.data(), request.size());
    std::string answer;
    char buffer[4096];
    for (ssize_t length = 0; (length = ::read(socket.get(), buffer, sizeof(buffer))) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(length));
    }
    return answer;
  }
  [[nodiscard]] std::string get(const std::string& path, const std::string& more = "") const {
    return ask("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + more + "\r\n");
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "socket";
};

Result<std::string> sample() { return sample_report().dump(); }

TEST_F(MetricsServing, AnswersScrapes) {
  const auto server = serve(sample);
  const std::string plain = get("/metrics");
  EXPECT_TRUE(plain.starts_with("HTTP/1.1 200 ")) << plain;
  EXPECT_NE(plain.find("text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(plain.find("\nuroce_sessions 1\n"), std::string::npos);
  const std::string open =
      get("/metrics?queue_pairs=1", "Accept: application/openmetrics-text;version=1.0.0\r\n");
  EXPECT_NE(open.find("application/openmetrics-text; version=1.0.0"), std::string::npos);
  EXPECT_TRUE(open.ends_with("# EOF\n"));
  EXPECT_NE(open.find("uroce_qp_requests_sent_total"), std::string::npos);
}

TEST_F(MetricsServing, RefusesTheRest) {
  const auto server = serve(sample);
  EXPECT_TRUE(get("/etc/passwd").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(
      ask("POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc")
          .starts_with("HTTP/1.1 405 "));
  (void)ask("nonsense\r\n\r\n");
  (void)get("/" + std::string(100'000, 'x'));
  EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 200 "));
}

TEST_F(MetricsServing, ManyScrapesShareAReport) {
  std::atomic<int> fetched = 0;
  const auto server = serve([&] {
    ++fetched;
    return sample();
  });
  const Time begun = monotonic_now();
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 200 "));
  }
  const auto seconds = static_cast<int>((monotonic_now() - begun) / kNanosecondsPerSecond);
  EXPECT_LE(fetched, seconds + 1);
}

TEST_F(MetricsServing, ManyScrapesShareAFailure) {
  std::atomic<int> fetched = 0;
  const auto server = serve([&]() -> Result<std::string> {
    ++fetched;
    return Error{EIO, "no daemon there"};
  });
  const Time begun = monotonic_now();
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 503 "));
  }
  const auto seconds = static_cast<int>((monotonic_now() - begun) / kNanosecondsPerSecond);
  EXPECT_LE(fetched, seconds + 1);
}

TEST_F(MetricsServing, ReportsWhyThereAreNoMetrics) {
  const auto server = serve([]() -> Result<std::string> { return Error{EIO, "no daemon there"}; });
  const std::string answer = get("/metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("no daemon there"), std::string::npos);
}

TEST_F(MetricsServing, EndsAfterAPendingScrape) {
  std::latch asked(1), ending(1);
  auto server = serve([&] {
    asked.count_down();
    ending.wait();
    return sample();
  });
  std::thread scraper([this] { (void)get("/metrics"); });
  asked.wait();
  ending.count_down();  // as when a daemon ends and closes its connections
  server.reset();
  scraper.join();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(MetricsServing, ReplacesAStaleSocket) {
  { const auto first = serve(sample); }
  const UniqueFd old(::socket(AF_UNIX, SOCK_STREAM, 0));
  const auto address = address_of(path_);
  ASSERT_EQ(::bind(old.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
  const auto second = serve(sample);
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 200 "));
  EXPECT_FALSE(MetricsServer::start("unix:" + path_, sample)) << "the socket is in use";
}

}  // namespace
}  // namespace uroce::control
