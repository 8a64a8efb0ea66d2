// Shapes of secrets. Prefixes and lengths follow the issuers' own documentation, as collected in the rules of gitleaks
// (gitleaks/gitleaks: config/gitleaks.toml), TruffleHog and GitHub's "Supported secret scanning patterns". Lower bounds are used where an
// issuer has changed the length: a longer token is never left half.
#include "daemon/alert/mask_shapes.hpp"

#include <algorithm>
#include <array>

#include "parsers/base/text.hpp"

namespace triage::daemon {
namespace {

using parsers::equal_ignoring_case;
using parsers::is_alpha;
using parsers::is_digit;

bool has_digit(std::string_view text) { return std::any_of(text.begin(), text.end(), is_digit); }
bool has_letter(std::string_view text) { return std::any_of(text.begin(), text.end(), is_alpha); }

// Words that stand where a secret would, and are none.
bool is_placeholder(std::string_view value) {
  constexpr std::array<std::string_view, 18> kWords = {"none", "null", "nil", "true", "false", "yes", "no", "unset", "empty", "undefined", "missing", "required", "redacted", "hidden",
                                                       "not_set", "default", "invalid", "***"};
  if (value.empty() || value.starts_with("[masked") || value.starts_with("<") || value.starts_with("$") || value.starts_with("%(") || value.starts_with("{")) return true;
  if (value.find_first_not_of("*.xX-_") == std::string_view::npos) return true;
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) { return equal_ignoring_case(value, word); });
}

bool not_placeholder(std::string_view value) { return !is_placeholder(value); }
// A name such as "gpt2-tokenizer" is no token: letters and digits in a row of twelve and more.
bool looks_random(std::string_view value) { return !is_placeholder(value) && value.size() >= 12 && has_digit(value) && has_letter(value); }
bool looks_like_key(std::string_view value) { return !is_placeholder(value) && value.size() >= 8 && has_digit(value); }
bool mixed(std::string_view value) { return has_digit(value) && has_letter(value); }
// "user:password" of a URL, or a token in its place; a bare user name is no secret.
bool is_url_secret(std::string_view value) { return value.find(':') != std::string_view::npos || (value.size() >= 16 && has_digit(value)); }
// user:group numbers of containers are no password.
bool is_login(std::string_view value) { return value.find_first_not_of("0123456789:") != std::string_view::npos; }

// Unit names of systemd, versioned symbols and file names look like addresses.
bool is_mail(std::string_view value) {
  if (value.starts_with("git@")) return false;
  constexpr std::array<std::string_view, 22> kEnds = {"service", "scope", "slice", "socket", "timer", "mount", "target", "device", "path", "swap", "log", "py", "so", "txt", "json", "yaml", "yml",
                                                      "cpp", "cu", "sh", "err", "out"};
  const std::string_view end = value.substr(value.rfind('.') + 1);
  return std::none_of(kEnds.begin(), kEnds.end(), [&](std::string_view word) { return equal_ignoring_case(end, word); });
}

// Four numbers of 0 to 255; versions such as 1.2.3.4 are masked too where hosts are.
bool is_ip(std::string_view value) {
  for (const std::string_view part : parsers::split(value, '.')) {
    const auto number = parsers::read_integer(part);
    if (!number || *number > 255) return false;
  }
  return true;
}

// clang-format off
constexpr MaskShape kShapes[] = {
    // Private keys: the whole block, to its end or to the end of a cut text. The line ends may be written as \n.
    {"private-key", "private key", R"((?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z))"},
    {"age-key", "age-secret-key-", R"(AGE-SECRET-KEY-1[A-Z0-9]{20,})"},
    {"putty-key", "private-lines", R"((?s)Private-Lines: *\d+\s+(.*?)(?:Private-MAC|\z))"},
    // Web addresses that are keys themselves.
    {"slack-webhook", "hooks.slack", R"(hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{8,}))"},
    {"discord-webhook", "/api/webhooks/", R"(discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d+/[A-Za-z0-9_-]+))"},
    {"teams-webhook", "webhook.office.com|office.com/webhook", R"(office\.com/webhook(?:b2)?/([A-Za-z0-9@/_-]{8,}))"},
    {"workflow-url", "/workflows/", R"((?:logic\.azure\.com|powerplatform\.com)(?::\d+)?/(?:powerautomate/automations/direct/)?(workflows/[^\s'"<>]+))"},
    {"feishu-webhook", "/bot/v2/hook/", R"(/open-apis/bot/v2/hook/([A-Za-z0-9-]{8,}))"},
    {"telegram-token", ":aa", R"((?:^|[^A-Za-z0-9_])(?:bot)?(\d{8,10}:AA[A-Za-z0-9_-]{32,}))"},
    {"sentry-dsn", "@", R"(https?://([0-9a-f]{32}(?::[0-9a-f]{32})?)@[A-Za-z0-9.-]+/\d+)"},
    // JSON Web Tokens; a cut one ends after its head.
    {"jwt", "eyj", R"((?:^|[^A-Za-z0-9_-])(eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*))"},
    // Machine learning.
    {"huggingface-token", "hf_|api_org_", R"((?:^|[^A-Za-z0-9_])((?:hf|api_org)_[A-Za-z0-9]{20,}))"},
    {"anthropic-key", "sk-ant-", R"(sk-ant-[A-Za-z0-9_-]{20,})"},
    {"openrouter-key", "sk-or-", R"(sk-or-(?:v\d-)?[A-Za-z0-9]{20,})"},
    {"openai-key", "sk-", R"((?:^|[^A-Za-z0-9_])(sk-(?:proj-|svcacct-|admin-|None-)?[A-Za-z0-9_-]{20,}))", MaskGroup::secret, mixed},
    {"wandb-key", "wandb_v", R"(wandb_v\d_[A-Za-z0-9_-]{20,})"},
    {"wandb-local-key", "local-", R"((?:^|[^A-Za-z0-9_-])(local-[0-9a-f]{40}))"},
    {"wandb-key", "wandb|weights", R"((?i)(?:wandb|weights ?(?:&|and) ?biases)[^\n]{0,80}?(?:^|[^0-9a-f])([0-9a-f]{40})(?:[^0-9a-f]|$))"},
    {"nvidia-key", "nvapi-", R"(nvapi-[A-Za-z0-9_-]{20,})"},
    {"replicate-token", "r8_", R"((?:^|[^A-Za-z0-9_])(r8_[A-Za-z0-9]{30,}))"},
    {"groq-key", "gsk_", R"((?:^|[^A-Za-z0-9_])(gsk_[A-Za-z0-9]{30,}))"},
    {"xai-key", "xai-", R"((?:^|[^A-Za-z0-9_])(xai-[A-Za-z0-9]{40,}))"},
    {"perplexity-key", "pplx-", R"((?:^|[^A-Za-z0-9_])(pplx-[A-Za-z0-9]{32,}))"},
    {"fireworks-key", "fw_", R"((?:^|[^A-Za-z0-9_])(fw_[A-Za-z0-9]{20,}))", MaskGroup::secret, mixed},
    {"langsmith-key", "lsv2_", R"(lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,})"},
    {"pinecone-key", "pcsk_", R"(pcsk_[A-Za-z0-9_]{20,})"},
    {"runpod-key", "rpa_", R"((?:^|[^A-Za-z0-9_])(rpa_[A-Za-z0-9]{30,}))"},
    {"kaggle-token", "kgat_", R"(KGAT_[A-Za-z0-9]{20,})"},
    {"neptune-token", "eyjhcgl", R"(eyJhcGlfYWRkcmVzcyI6[A-Za-z0-9+/=]{20,})"},
    // Clouds.
    {"aws-access-key", "akia|asia|abia|acca|a3t", R"((?:^|[^A-Za-z0-9])((?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16})(?:[^A-Za-z0-9]|$))"},
    {"aws-session-token", "fwogzx|iqojb3", R"((?:^|[^A-Za-z0-9])((?:FwoGZX|IQoJb3)[A-Za-z0-9+/=%]{60,}))"},
    {"aws-bedrock-key", "absk", R"((?:^|[^A-Za-z0-9])(ABSK[A-Za-z0-9+/=]{60,}))"},
    {"google-api-key", "aiza", R"((?:^|[^A-Za-z0-9_-])(AIza[A-Za-z0-9_-]{30,}))"},
    {"google-oauth-token", "ya29.", R"(ya29\.[A-Za-z0-9._-]{20,})"},
    {"google-refresh-token", "1//0", R"((?:^|[^A-Za-z0-9])(1//0[A-Za-z0-9_-]{30,}))"},
    {"google-client-secret", "gocspx-", R"(GOCSPX-[A-Za-z0-9_-]{20,})"},
    {"google-storage-key", "goog", R"((?:^|[^A-Za-z0-9])(GOOG1?[A-Z0-9]{40,}))"},
    {"azure-storage-key", "accountkey=|sharedaccesskey=", R"((?i)(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/=]{20,}))"},
    {"azure-client-secret", "q~", R"((?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}))"},
    {"azure-devops-token", "azdo", R"([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})"},
    {"digitalocean-token", "_v1_", R"(do[oprt]_v1_[a-f0-9]{40,})"},
    {"alibaba-key", "ltai", R"((?:^|[^A-Za-z0-9])(LTAI[A-Za-z0-9]{12,30})(?:[^A-Za-z0-9]|$))"},
    {"tencent-key", "akid", R"((?:^|[^A-Za-z0-9])(AKID[A-Za-z0-9]{32,36})(?:[^A-Za-z0-9]|$))"},
    {"volcengine-key", "aklt", R"((?:^|[^A-Za-z0-9])(AKLT[A-Za-z0-9+/=_-]{30,}))"},
    {"yandex-token", "aqvn|y0_|t1.", R"((?:^|[^A-Za-z0-9_])(AQVN[A-Za-z0-9_-]{35,38}|y0_[A-Za-z0-9_-]{30,}|t1\.[A-Za-z0-9_-]{40,}))"},
    {"cloudflare-ca-key", "v1.0-", R"(v1\.0-[a-f0-9]{24}-[a-f0-9]{146})"},
    {"heroku-key", "hrku-", R"(HRKU-[A-Za-z0-9_-]{30,})"},
    {"flyio-token", "flyv1|fo1_", R"((?:^|[^A-Za-z0-9_])(fo1_[A-Za-z0-9_-]{30,}|fm[12][ar]?_[A-Za-z0-9+/=]{60,}))"},
    {"tailscale-key", "tskey-", R"(tskey-[a-z]+-[A-Za-z0-9-]{10,})"},
    {"planetscale-secret", "pscale_", R"(pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{20,})"},
    {"supabase-key", "sbp_|sb_secret_", R"((?:^|[^A-Za-z0-9_])((?:sbp|sb_secret)_[A-Za-z0-9_-]{20,}))"},
    // Code, packages, builds.
    {"github-token", "gh", R"((?:^|[^A-Za-z0-9_])(gh[pousr]_[A-Za-z0-9_]{20,}))"},
    {"github-fine-grained-token", "github_pat_", R"(github_pat_[A-Za-z0-9_]{20,})"},
    {"gitlab-token", "gl|gr1348941", R"((?:^|[^A-Za-z0-9_])((?:gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent|ffct|oas)-|GR1348941)[A-Za-z0-9_.=-]{16,}))"},
    {"bitbucket-token", "atbb|atctt3", R"((?:^|[^A-Za-z0-9])((?:ATBB|ATCTT3)[A-Za-z0-9_=-]{20,}))"},
    {"atlassian-token", "atatt3", R"(ATATT3[A-Za-z0-9_=-]{20,})"},
    {"npm-token", "npm_", R"((?:^|[^A-Za-z0-9_])(npm_[A-Za-z0-9]{30,}))"},
    {"pypi-token", "pypi-ag", R"(pypi-Ag[A-Za-z0-9_-]{30,})"},
    {"rubygems-key", "rubygems_", R"(rubygems_[a-f0-9]{40,})"},
    {"docker-token", "dckr_", R"(dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,})"},
    {"circleci-token", "ccipat_", R"(CCIPAT_[A-Za-z0-9_]{20,})"},
    {"buildkite-token", "bk", R"((?:^|[^A-Za-z0-9_])(bk(?:ua|ct)_[A-Za-z0-9]{30,}))"},
    {"sonarqube-token", "sq", R"((?:^|[^A-Za-z0-9_])(sq[apu]_[a-f0-9]{40}))"},
    {"doppler-token", "dp.", R"((?:^|[^A-Za-z0-9_])(dp\.(?:pt|st|ct|scim|audit|sa)\.[A-Za-z0-9._-]{30,}))"},
    {"databricks-token", "dapi", R"((?:^|[^A-Za-z0-9_])(dapi[a-f0-9]{32}(?:-\d)?))"},
    {"vault-token", "hv", R"((?:^|[^A-Za-z0-9_])(hv[sbr]\.[A-Za-z0-9_-]{20,}))"},
    {"terraform-token", ".atlasv1.", R"([A-Za-z0-9]{10,}\.atlasv1\.[A-Za-z0-9_=-]{40,})"},
    {"pulumi-token", "pul-", R"((?:^|[^A-Za-z0-9_])(pul-[a-f0-9]{40}))"},
    {"1password-token", "ops_eyj", R"(ops_eyJ[A-Za-z0-9+/=_-]{40,})"},
    {"postman-key", "pmak-", R"(PMAK-[a-f0-9]{24}-[a-f0-9]{34})"},
    // Messages, watching, payment.
    {"slack-token", "xox|xapp-|xwfp-", R"((?:^|[^A-Za-z0-9_])((?:xox[abeoprs]-|xoxe\.xox[bp]-|xapp-|xwfp-)[A-Za-z0-9-]{10,}))"},
    {"discord-token", ".", R"((?:^|[^A-Za-z0-9_-])([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}))"},
    {"stripe-key", "_live_|_test_|whsec_", R"((?:^|[^A-Za-z0-9_])((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}))"},
    {"square-token", "sq0|eaaa", R"((?:^|[^A-Za-z0-9_])(sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,}))"},
    {"twilio-key", "sk", R"((?:^|[^A-Za-z0-9_])(SK[0-9a-f]{32})(?:[^A-Za-z0-9]|$))"},
    {"sendgrid-key", "sg.", R"((?:^|[^A-Za-z0-9_])(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}))"},
    {"mailgun-key", "key-", R"((?:^|[^A-Za-z0-9_-])(key-[0-9a-f]{32})(?:[^0-9a-f]|$))"},
    {"mailchimp-key", "-us", R"((?:^|[^0-9a-f])([0-9a-f]{32}-us\d{1,2})(?:[^0-9]|$))"},
    {"grafana-token", "glsa_|glc_|eyjrijoi", R"((?:^|[^A-Za-z0-9_])((?:glsa|glc)_[A-Za-z0-9+/=_]{20,}|eyJrIjoi[A-Za-z0-9+/=]{30,}))"},
    {"newrelic-key", "nra", R"((?:^|[^A-Za-z0-9_])(NR(?:AK|AL|AA|II|IQ|RA|JS)-[A-Za-z0-9]{16,}))"},
    {"sentry-token", "sntry", R"(sntry[su]_[A-Za-z0-9+/=_-]{20,})"},
    {"dynatrace-token", "dt0", R"(dt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{40,})"},
    {"linear-key", "lin_api_", R"(lin_api_[A-Za-z0-9]{30,})"},
    {"notion-token", "ntn_|secret_", R"((?:^|[^A-Za-z0-9_])(ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}))"},
    {"figma-token", "figd_", R"(figd_[A-Za-z0-9_-]{30,})"},
    {"shopify-token", "shp", R"((?:^|[^A-Za-z0-9_])(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}))"},
    {"airtable-token", "pat", R"((?:^|[^A-Za-z0-9_])(pat[A-Za-z0-9]{14}\.[a-f0-9]{64}))"},
    {"dropbox-token", "sl.", R"((?:^|[^A-Za-z0-9_])(sl\.(?:u\.)?[A-Za-z0-9_-]{100,}))"},
    // Addresses with a login, signatures in addresses.
    {"url-login", "://", R"([A-Za-z][A-Za-z0-9+.-]*://([^\s/'"<>\[\]]+)@[^\s@/])", MaskGroup::secret, is_url_secret},
    {"url-secret", "=", R"((?i)[?&;](?:access_token|refresh_token|id_token|auth_token|private_token|token|api_?key|apikey|app_?key|key|sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|awsaccesskeyid|googleaccessid|password|passwd|pwd|secret|client_secret|auth|code|jwt)=([^&\s'"#<>]{4,}))", MaskGroup::secret, not_placeholder},
    {"aws-signature", "signature=", R"((?i)signature=([0-9a-f]{64}))"},
    // Headers.
    {"authorization-header", "authorization", R"((?i)authorization\\?['"]?\s*(?:[:=,]|=>)\s*\\?['"]?(?:(?:bearer|basic|token|digest|negotiate|apikey|ssws|aws4-hmac-sha256|bot)\s+)?([^\s'"\\,;]{6,}))", MaskGroup::secret, looks_like_key},
    {"basic-login", "basic", R"((?i)(?:^|[^a-z])basic\s+([A-Za-z0-9+/]{12,}={1,2}))"},
    {"bearer-token", "bearer", R"((?i)(?:^|[^a-z])bearer\s+([A-Za-z0-9._~+/=-]{16,}))", MaskGroup::secret, has_digit},
    {"cookie", "cookie", R"((?i)(?:^|[^a-z])(?:set-)?cookie\\?['"]?\s*:\s*\\?['"]?([^\s'"\\=;]+=[^'"\\\n]+))"},
    {"key-header", "x-", R"((?i)(?:^|[^a-z])x-[a-z0-9-]*(?:key|token|secret|signature|auth)[a-z0-9-]*\\?['"]?\s*[:=]\s*\\?['"]?([^\s'"\\,;]{6,}))", MaskGroup::secret, not_placeholder},
    // Values beside a telling name: environment, arguments, configuration, JSON.
    {"password", "passw|passphrase|mysql_pwd", R"((?i)(?:^|[^a-z0-9])(?:[a-z0-9_.-]*(?:password|passwd|passphrase)|mysql_pwd)\\?['"]?(?:\s*(?:=>|[=:])\s*|\s+)(?:\\?['"])([^'"\\\n]{3,}))", MaskGroup::secret, not_placeholder},
    {"password", "passw|passphrase|mysql_pwd", R"((?i)(?:^|[^a-z0-9])(?:[a-z0-9_.-]*(?:password|passwd|passphrase)|mysql_pwd)\\?['"]?\s*(?:=>|[=:])\s*([^\s'"\\,;)}\]]{3,}))", MaskGroup::secret, not_placeholder},
    {"password", "--", R"((?i)--[a-z0-9_-]*(?:password|passwd|passphrase)\s+([^\s'"-][^\s'"]{2,}))", MaskGroup::secret, not_placeholder},
    {"password", "login", R"((?i)\blogin\s+\S+\s+password\s+(\S{3,}))", MaskGroup::secret, not_placeholder},
    {"password", "sshpass", R"(sshpass\s+-p\s*['"]?([^\s'"]{3,}))"},
    {"password", "curl", R"(curl\b[^\n]*?\s(?:-u|--user)[ =]['"]?([^\s:'"]+:[^\s'"]+))", MaskGroup::secret, is_login},
    {"secret", "secret|credential|private_key|private-key|privatekey", R"((?i)(?:^|[^a-z0-9])[a-z0-9_.-]*(?:secret(?:[_-]?access)?(?:[_-]?key)?|credentials?|private[_-]?key(?:[_-]?id)?)\\?['"]?\s*(?:=>|[=:])\s*\\?['"]?([^\s'"\\,;)}\]]{6,}))", MaskGroup::secret, looks_like_key},
    {"api-key", "key", R"((?i)(?:^|[^a-z0-9])[a-z0-9_.-]*(?:api|access|auth|app|account|storage|encryption|signing|master|license|routing|integration|wandb|comet|subscription)[_-]?key(?:[_-]?(?:id|data))?\\?['"]?(?:\s*(?:=>|[=:])\s*|\s+)\\?['"]?([^\s'"\\,;)}\]]{8,}))", MaskGroup::secret, looks_random},
    {"api-key", "-key-data", R"(client-key-data:\s*([A-Za-z0-9+/=]{20,}))"},
    {"wandb-key", "wandb.login|--relogin|wandb login", R"((?i)wandb[. ]login[^\n]{0,40}?([0-9a-f]{40}))"},
    {"token", "token", R"((?i)(?:^|[^a-z0-9_.-]|--)(?:(?:[a-z0-9]+[_.-])*(?:hf|huggingface|hub|auth|access|refresh|bearer|api|bot|app|user|session|security|id|csrf|xsrf|personal|private|deploy|registry|npm|pypi|github|gh|gitlab|slack|discord|telegram|wandb|comet|mlflow|neptune|clearml|vault|consul|kube|service|s3|aws|azure|gcp|google|openai|ngc|jwt|oauth|job|ci|read|write|push|login|git|cluster|join|tracking|webhook|sas|use[_-]auth)[_.-]?)?token\\?['"]?(?:\s*(?:=>|[=:])\s*|\s+)\\?['"]?([^\s'"\\,;)}\]]{12,}))", MaskGroup::secret, looks_random},
    {"docker-login", "\"auth\"", R"x("auth"\s*:\s*"([A-Za-z0-9+/=]{8,}))x"},
    // Personal data.
    {"mail-address", "@", R"(([A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}))", MaskGroup::mail, is_mail},
    {"user", "/home|/users|/homes", R"(/(?:home|Users|users|homes)\d*/([^/\s'":,;()\[\]<>|]+))", MaskGroup::user},
    {"user", ":\\users", R"([A-Za-z]:\\{1,2}[Uu]sers\\{1,2}([^\\\s'":,;()\[\]<>|]+))", MaskGroup::user},
    {"user", "user|logname", R"((?:^|[\s;'"{(,])(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER|[Uu]ser[Nn]ame)\\?['"]?\s*[=:]\s*\\?['"]?([A-Za-z_][A-Za-z0-9_.-]*))", MaskGroup::user, not_placeholder},
    {"user", "uid=", R"(\b[ug]id=\d+\(([A-Za-z_][A-Za-z0-9_.-]*)\))", MaskGroup::user},
    // Hosts, by choice.
    {"ip-address", ".", R"((?:^|[^0-9.])((?:\d{1,3}\.){3}\d{1,3})(?:[^0-9.]|\.\D|\.?$))", MaskGroup::host, is_ip},
    {"ip-address", ":", R"((?:^|[^0-9A-Fa-f:])((?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6})(?:[^0-9A-Fa-f:]|$))", MaskGroup::host},
};
// clang-format on

}  // namespace

std::span<const MaskShape> mask_shape_table() { return kShapes; }

}  // namespace triage::daemon
