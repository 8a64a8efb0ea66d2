// The shipped description against the server: every route with its method, every parameter, and the members of its answers.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "parsers/base/yaml_text.hpp"
#include "tests/support/gunzip.hpp"
#include "tests/support/http_fixture.hpp"

using namespace triage;
using namespace triage::tests;
using Json = nlohmann::json;
using Kind = parsers::YamlNode::Kind;

namespace {

Json as_json(const parsers::YamlNode& node) {
  switch (node.kind) {
    case Kind::null: return nullptr;
    case Kind::scalar: {
      if (!node.quoted) {
        const Json value = Json::parse(node.scalar, nullptr, false);
        if (!value.is_discarded()) return value;
      }
      return node.scalar;
    }
    case Kind::list: {
      Json out = Json::array();
      for (const auto& item : node.items) out.push_back(as_json(item));
      return out;
    }
    case Kind::map: {
      Json out = Json::object();
      for (const auto& entry : node.entries) out[entry.key] = as_json(entry.value);
      return out;
    }
  }
  return nullptr;
}

struct Description {
  Json root;
  Json resolve(const Json& node) const {
    if (!node.is_object() || !node.contains("$ref")) return node;
    const std::string target = node["$ref"];
    const Json::json_pointer pointer(target.substr(1));
    REQUIRE(root.contains(pointer));
    return root[pointer];
  }
};

Description description() {
  const auto node = parsers::read_yaml(api::openapi_text(), "triaged.yaml");
  if (!node.ok()) FAIL(node.error().message());
  return {as_json(*node)};
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

// What of JSON Schema the document uses: type, required, properties, items, $ref. strict: members that stand nowhere are faults.
void check(const Description& of, const Json& value, const Json& schema_or_ref, const std::string& where, bool strict, std::vector<std::string>& faults) {
  const Json schema = of.resolve(schema_or_ref);
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    bool fits = false;
    if (type.is_array())
      for (const Json& one : type) fits = fits || has_type(value, one);
    else
      fits = has_type(value, type);
    if (!fits) faults.push_back(where + " is " + value.dump().substr(0, 60) + ", not " + type.dump());
    if (value.is_null()) return;
  }
  if (value.is_object() && schema.contains("properties")) {
    if (schema.contains("required"))
      for (const Json& name : schema["required"])
        if (!value.contains(name.get<std::string>())) faults.push_back(where + " lacks " + name.get<std::string>());
    for (const auto& [name, member] : value.items()) {
      if (schema["properties"].contains(name))
        check(of, member, schema["properties"][name], where + "." + name, strict, faults);
      else if (strict)
        faults.push_back(where + "." + name + " is not described");
    }
  }
  if (value.is_array() && schema.contains("items"))
    for (const Json& item : value) check(of, item, schema["items"], where + "[]", strict, faults);
}

}  // namespace

TEST_CASE("each route is described, and each described path is a route") {
  const Description document = description();
  CHECK(document.root["openapi"] == "3.1.0");
  HttpFixture fixture;
  std::set<std::string> served, described;
  for (const api::Route& route : fixture.routes.all())
    if (route.path != "/" && route.path != "/*") served.insert(route.method + " " + route.path);
  std::set<std::string> operations;
  for (const auto& [path, methods] : document.root["paths"].items())
    for (const auto& [method, operation] : methods.items()) {
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      described.insert(upper + " " + path);
      const std::string& named = path;
      CAPTURE(named);
      REQUIRE(operation.contains("operationId"));
      CHECK(operations.insert(operation["operationId"]).second);
      CHECK(operation.contains("responses"));
      for (const auto& [status, response] : operation["responses"].items()) document.resolve(response);
    }
  CHECK(served == described);
}

TEST_CASE("parameters that are described are taken, others are not") {
  const Description document = description();
  HttpFixture fixture;
  fixture.service.fill(2);
  for (const auto& [path, methods] : document.root["paths"].items()) {
    if (!methods.contains("get")) continue;
    std::string target = path;
    if (const auto brace = target.find("{id}"); brace != std::string::npos) target.replace(brace, 4, "id0001");
    std::string list;
    if (methods["get"].contains("parameters"))
      for (const Json& parameter : methods["get"]["parameters"]) {
        const Json resolved = document.resolve(parameter);
        if (resolved["in"] == "query") list += "," + resolved["name"].get<std::string>();
      }
    if (!target.starts_with("/api/v1/") || target.ends_with(".yaml")) continue;
    const HttpAnswer answer = http_get(fixture.port, target + "?no_such_parameter=1");
    CAPTURE(target);
    CHECK(answer.status == 400);
    const Json problem = Json::parse(answer.body, nullptr, false);
    // The server's own list of known ones.
    std::string known = problem.value("help", "");
    std::set<std::string> of_server, of_document;
    if (known.starts_with("known: "))
      for (std::string_view rest = std::string_view(known).substr(7); !rest.empty();) {
        const auto comma = std::min(rest.find(", "), rest.size());
        of_server.insert(std::string(rest.substr(0, comma)));
        rest.remove_prefix(std::min(comma + 2, rest.size()));
      }
    for (std::string_view rest = list; !rest.empty();) {
      rest.remove_prefix(1);
      const auto comma = std::min(rest.find(','), rest.size());
      of_document.insert(std::string(rest.substr(0, comma)));
      rest.remove_prefix(comma);
    }
    CHECK(of_server == of_document);
  }
}

TEST_CASE("answers have the described members, no more and no fewer") {
  const Description document = description();
  HttpFixture fixture;
  fixture.service.fill(3);
  const std::string snapshot = read_file(std::string(TRIAGE_SOURCE_DIR) + "/tests/snapshots/logits_spike.pickle.gz");
  const HttpAnswer shelved = http_post(fixture.port, "/api/v1/snapshots?name=a", snapshot, "");
  REQUIRE(shelved.status == 201);
  const std::string id = Json::parse(shelved.body)["id"];
  struct Row {
    const char* method;
    const char* path;             // as described
    std::string target, body;
    int status;
    bool strict;                  // open objects of the answer, the plan and the snapshot are described elsewhere
  };
  const Row rows[] = {
      {"get", "/api/v1/incidents", "/api/v1/incidents", "", 200, true},
      {"get", "/api/v1/incidents/{id}", "/api/v1/incidents/id0001", "", 200, true},
      {"get", "/api/v1/incidents/{id}/findings", "/api/v1/incidents/id0001/findings", "", 200, true},
      {"post", "/api/v1/incidents/{id}/feedback", "/api/v1/incidents/id0001/feedback", R"({"helped":true})", 201, true},
      {"get", "/api/v1/context", "/api/v1/context?incident=id0001&line=3", "", 200, true},
      {"get", "/api/v1/counts", "/api/v1/counts", "", 200, true},
      {"get", "/api/v1/nodes", "/api/v1/nodes", "", 200, true},
      {"get", "/api/v1/sources", "/api/v1/sources", "", 200, true},
      {"get", "/api/v1/rules", "/api/v1/rules", "", 200, true},
      {"get", "/api/v1/rules/{id}", "/api/v1/rules/torch.cuda.oom", "", 200, true},
      {"post", "/api/v1/explain", "/api/v1/explain", R"({"line":"x"})", 200, true},
      {"post", "/api/v1/silences", "/api/v1/silences", R"({"match":{"node":"n"},"reason":"r","duration":"1h"})", 201, true},
      {"get", "/api/v1/silences", "/api/v1/silences", "", 200, true},
      {"get", "/api/v1/outbox", "/api/v1/outbox", "", 200, true},
      {"get", "/api/v1/outbox/items", "/api/v1/outbox/items", "", 200, true},
      {"get", "/api/v1/health", "/api/v1/health", "", 200, true},
      {"get", "/api/v1/snapshots/{id}", "/api/v1/snapshots/" + id, "", 200, false},
      {"get", "/api/v1/snapshots/{id}/graph", "/api/v1/snapshots/" + id + "/graph", "", 200, false},
      {"get", "/api/v1/snapshots/{id}/timeline", "/api/v1/snapshots/" + id + "/timeline?device=0&from=10&to=60&points=20", "", 200, false},
      {"post", "/api/v1/snapshots/{id}/what-if", "/api/v1/snapshots/" + id + "/what-if", R"({"settings":["all"]})", 200, true},
      {"post", "/api/v1/uploads", "/api/v1/uploads", "x", 201, false},
      {"post", "/api/v1/push/ndjson", "/api/v1/push/ndjson", R"({"msg":"a"})", 200, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.target);
    const HttpAnswer answer = row.body.empty() ? http_get(fixture.port, row.target) : http_post(fixture.port, row.target, row.body);
    REQUIRE(answer.status == row.status);
    const Json response = document.resolve(document.root["paths"][row.path][row.method]["responses"][std::to_string(row.status)]);
    std::vector<std::string> faults;
    check(document, Json::parse(answer.body), response["content"]["application/json"]["schema"], "$", row.strict, faults);
    for (const std::string& fault : faults) CAPTURE(fault);
    CHECK_MESSAGE(faults.empty(), (faults.empty() ? "" : faults.front()));
  }
  for (const char* target : {"/api/v1/incidents/none", "/api/v1/incidents?x=1", "/nowhere.x"}) {
    const HttpAnswer answer = http_get(fixture.port, target);
    std::vector<std::string> faults;
    check(document, Json::parse(answer.body), Json{{"$ref", "#/components/schemas/Problem"}}, "$", true, faults);
    CHECK_MESSAGE(faults.empty(), (faults.empty() ? "" : faults.front()));
  }
}

TEST_CASE("the description is served as it is shipped") {
  HttpFixture fixture;
  CHECK(http_get(fixture.port, "/api/v1/openapi.yaml").body == read_file(std::string(TRIAGE_SOURCE_DIR) + "/deploy/openapi/triaged.yaml"));
}
