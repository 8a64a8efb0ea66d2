// The files of the page, compiled in. Each is packed once at the start and has a strong ETag. A path that is no file and no API path gets the
// page's start, which reads the path itself.
#include <algorithm>
#include <map>

#include "daemon/http/api_parts.hpp"
#include "daemon/http/compression.hpp"
#include "daemon/http/gate.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct PageFile {
  std::shared_ptr<const std::string> plain, packed;        // packed: null where it is not smaller
  std::string type, tag;
  bool for_ever = false;                                   // its name changes with its content
};

std::string type_of(std::string_view path) {
  const std::pair<std::string_view, const char*> types[] = {
      {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"}, {".mjs", "text/javascript; charset=utf-8"}, {".css", "text/css; charset=utf-8"},
      {".json", "application/json"}, {".svg", "image/svg+xml"}, {".png", "image/png"}, {".ico", "image/x-icon"}, {".woff2", "font/woff2"},
      {".webmanifest", "application/manifest+json"}, {".txt", "text/plain; charset=utf-8"}, {".map", "application/json"}};
  for (const auto& [end, type] : types)
    if (path.ends_with(end)) return type;
  return "application/octet-stream";
}

std::string tag_of(std::string_view text) {
  std::string tag = "\"";
  for (const char c : sha256(text).substr(0, 12)) {
    tag += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    tag += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return tag + "\"";
}

using Files = std::map<std::string, PageFile, std::less<>>;

Response answer(const PageFile& file, const Request& request) {
  Response response;
  response.set("ETag", file.tag);
  response.set("Cache-Control", file.for_ever ? "public, max-age=31536000, immutable" : "no-cache");
  response.set("Content-Security-Policy", kPolicy);
  response.set("Vary", "Accept-Encoding");
  if (request.has_header("if-none-match") && request.header("if-none-match").find(file.tag) != std::string_view::npos) {
    response.status = 304;
    return response;
  }
  response.set("Content-Type", file.type);
  if (file.packed && list_allows(request.header("accept-encoding"), "gzip")) {
    response.set("Content-Encoding", "gzip");
    response.shared_body = file.packed;
  } else {
    response.shared_body = file.plain;
  }
  return response;
}

// For a browser at a service that was built without Node.js.
Response no_page() {
  Response response;
  response.status = 404;
  response.set("Content-Type", "text/html; charset=utf-8");
  response.set("Cache-Control", "no-cache");
  response.set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  response.body =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">"
      "<title>triaged</title></head>\n<body><h1>triaged</h1>\n<p>This service was built without its page: its build had no Node.js, or not the packages of the page. All else works.</p>\n"
      "<ul><li><a href=\"/api/v1/incidents\">The incidents</a>, as JSON</li><li><a href=\"/api/v1/openapi.yaml\">All paths of the API</a></li></ul>\n"
      "<p>On a terminal: <code>triage history</code>, <code>triage status</code>. With the page: install Node.js 18 or later and npm, run <code>npm ci</code> in daemon/http/page, and build again.</p></body></html>\n";
  return response;
}

Response serve(const Files& files, const Request& request) {
  std::string path = request.target.path.substr(1);
  auto found = files.find(path.empty() ? "index.html" : path);
  if (found == files.end()) {
    const std::string& first = request.target.segments.empty() ? path : request.target.segments[0];
    const bool page_path = first != "api" && first != "loki" && first != "v1" && path.find('.') == std::string::npos;
    if (page_path) found = files.find("index.html");
  }
  if (files.empty() && path.empty() && request.header("accept").find("text/html") != std::string_view::npos) return no_page();
  if (found == files.end())
    return problem_response(files.empty() && path.empty() ? Problem{404, "no_page", "this service was built without its page", {}, "the API stands under /api/v1, its description in /api/v1/openapi.yaml"}
                                                          : Problem{404, "no_such_path", "there is nothing under this path", {}, "the paths stand in /api/v1/openapi.yaml"});
  return answer(found->second, request);
}

}  // namespace

void add_page_routes(Routes& routes, const Parts& parts) {
  auto files = std::make_shared<Files>();
  for (const parsers::EmbeddedFile& file : parts->page) {
    PageFile entry;
    entry.plain = std::make_shared<const std::string>(file.text);
    entry.type = type_of(file.path);
    if (std::string packed = gzip(file.text, 9); !packed.empty() && packed.size() < file.text.size() && !entry.type.starts_with("image/png") && !entry.type.starts_with("font/"))
      entry.packed = std::make_shared<const std::string>(std::move(packed));
    entry.tag = tag_of(file.text);
    entry.for_ever = file.path.find("assets/") != std::string_view::npos;   // bundlers put the files with a hash in the name there
    files->emplace(std::string(file.path), std::move(entry));
  }
  const auto handler = [files](const Request& request) { return serve(*files, request); };
  routes.add({"GET", "/", Role::none, Lane::at_once, BodyKind::none, 0, handler, true});
  routes.add({"GET", "/*", Role::none, Lane::at_once, BodyKind::none, 0, handler, true});
}

}  // namespace triage::daemon::api
