#include "control/metrics/metrics_server.h"

#include <microhttpd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "base/time/monotonic_clock.h"
#include "control/metrics/metrics_address.h"

namespace uroce::control {
namespace {

constexpr const char* kPlain = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr std::size_t kRequestBytesMax = 16'384;

MHD_Result answer(MHD_Connection* connection, unsigned status, const std::string& text,
                  const char* type) {
  MHD_Response* const response = MHD_create_response_from_buffer(
      text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) {
    return MHD_NO;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result serve(void* cls, MHD_Connection* connection, const char* url, const char* method,
                 const char* /*version*/, const char* /*upload*/, std::size_t* upload_size,
                 void** /*per_request*/) {
  auto& server = *static_cast<MetricsServer*>(cls);
  if (*upload_size != 0 || (std::strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
                            std::strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)) {
    *upload_size = 0;
    return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n", kPlain);
  }
  if (std::string_view(url) != "/metrics") {
    return answer(connection, MHD_HTTP_NOT_FOUND, "metrics are at /metrics\n", kPlain);
  }
  const char* const accept =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
  MetricsQuery query;
  query.open_metrics =
      accept != nullptr && std::strstr(accept, "application/openmetrics-text") != nullptr;
  query.queue_pairs =
      MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "queue_pairs") != nullptr;
  const auto page = server.page(query);
  return page ? answer(connection, MHD_HTTP_OK, *page, query.open_metrics ? kOpenMetrics : kPlain)
              : answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, page.error().message + "\n",
                       kPlain);
}

// No exception may pass through the library, which is C.
MHD_Result on_request(void* cls, MHD_Connection* connection, const char* url, const char* method,
                      const char* version, const char* upload, std::size_t* upload_size,
                      void** per_request) {
  try {
    return serve(cls, connection, url, method, version, upload, upload_size, per_request);
  } catch (const std::bad_alloc&) {
    return MHD_NO;  // the connection ends
  }
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& where, Fetch fetch) {
  const auto address = parse_metrics_address(where);
  if (!address) {
    return address.error();
  }
  auto socket = listen_for_metrics(*address);
  if (!socket) {
    return Error{socket.error().code, "--metrics " + where + ": " + socket.error().message};
  }
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(fetch)));
  server->unix_path_ = address->path;
  server->daemon_ = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC, 0, nullptr, nullptr,
      on_request, server.get(), MHD_OPTION_LISTEN_SOCKET, socket->get(),
      MHD_OPTION_CONNECTION_LIMIT, kConnectionsMax, MHD_OPTION_CONNECTION_TIMEOUT,
      kConnectionSecondsMax, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestBytesMax, MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    return Error{EAGAIN, "--metrics " + where + ": its server doesn't start"};
  }
  (void)socket->release();  // the server closes it
  return server;
}

MetricsServer::~MetricsServer() {
  if (daemon_ != nullptr) {
    MHD_stop_daemon(daemon_);
  }
  if (!unix_path_.empty()) {
    ::unlink(unix_path_.c_str());
  }
}

// After a failure there is no retry before the interval ends either, since an attempt may take
// long.
void MetricsServer::fetch_anew() {
  pages_ = {};
  const auto text = fetch_();
  report_ = text ? nlohmann::ordered_json::parse(*text, nullptr, false) : nullptr;
  failure_ = !text ? std::optional(text.error())
             : !report_.is_object()
                 ? std::optional(Error{EPROTO, "can't parse the daemon's report"})
                 : std::nullopt;
  fetched_ = monotonic_now();
}

Result<std::string> MetricsServer::page(const MetricsQuery& query) {
  if (fetched_ == 0 || monotonic_now() - fetched_ >= kReportAge) {
    fetch_anew();
  }
  if (failure_) {
    return *failure_;
  }
  std::string& page = pages_[(query.open_metrics ? 2U : 0U) + (query.queue_pairs ? 1U : 0U)];
  if (page.empty()) {
    page = metrics_text(report_, query);
  }
  return page;
}

}  // namespace uroce::control
