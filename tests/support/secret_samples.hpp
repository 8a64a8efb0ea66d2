// Made-up secrets of every shape that alert/mask knows. They are put together here at run time, so that no scanner of repositories takes
// this file for a leak. `hidden` is the part that must never come through; `text` is a line that holds it.
#pragma once

#include <string>
#include <vector>

namespace triage::tests::alerting {

struct SecretSample {
  std::string shape, text, hidden;
};

inline std::string letters(std::size_t count, const std::string& alphabet = "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW0xY") {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += alphabet[(i * 7 + i / alphabet.size()) % alphabet.size()];
  return out;
}
inline std::string hex(std::size_t count) { return letters(count, "0a1b2c3d4e5f6789"); }
inline std::string upper(std::size_t count) { return letters(count, "A2B3C4D5E6F7GHJK"); }

inline std::vector<SecretSample> secret_samples() {
  std::vector<SecretSample> out;
  const auto add = [&](const std::string& shape, const std::string& before, const std::string& hidden, const std::string& after = "") {
    out.push_back({shape, before + hidden + after, hidden});
  };
  const auto begin = [](const std::string& kind) { return std::string("-----BEG") + "IN " + kind + "PRIVATE KEY-----"; };
  const auto end = [](const std::string& kind) { return std::string("-----E") + "ND " + kind + "PRIVATE KEY-----"; };
  const std::string s = "sk", us = "_";

  for (const std::string kind : {"", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "}) add("private-key", "key: " + begin(kind), "\\n" + letters(64) + "\\n" + letters(40) + "\\n", end(kind));
  add("private-key", begin("RSA ") + "\n", letters(64) + "\n" + letters(20));   // cut
  add("age-key", "identity ", "AGE-SECRET-" "KEY-1" + upper(58));
  add("putty-key", "Private-Lines: 8\n", letters(60) + "\n" + letters(60));
  add("slack-webhook", "POST https://hooks.sl" "ack.com/services/", "T" + upper(8) + "/B" + upper(8) + "/" + letters(24), " failed");
  add("slack-webhook", "https://hooks.sl" "ack.com/workflows/", "T" + upper(8) + "/A" + upper(8) + "/1234567/" + letters(24));
  add("discord-webhook", "https://disc" "ord.com/api/webhooks/", "123456789012345678/" + letters(68));
  add("teams-webhook", "https://corp.webhook.office.com/webhookb2/", hex(8) + "-aaaa@" + hex(8) + "/IncomingWebhook/" + hex(32) + "/" + hex(8));
  add("workflow-url", "https://prod-01.westus.logic.azure.com:443/", "workflows/" + hex(32) + "/triggers/manual/paths/invoke?api-version=2016-06-01&sig=" + letters(43));
  add("feishu-webhook", "https://open.feishu.cn/open-apis/bot/v2/hook/", hex(8) + "-" + hex(4) + "-" + hex(12));
  add("telegram-token", "https://api.telegram.org/bot", "123456789:AA" + letters(33), "/sendMessage");
  add("sentry-dsn", "SENTRY https://", hex(32), "@o1.ingest.sentry.io/42");
  add("jwt", "jwt ", "ey" "J" + letters(30) + ".ey" "J" + letters(40) + "." + letters(43), " rejected");
  add("jwt", "ServiceAccount ", "ey" "J" + letters(30) + "." + letters(20));
  add("huggingface-token", "login with ", "h" "f_" + letters(34), ", ok");
  add("huggingface-token", "token=", "api" "_org_" + letters(34));
  add("anthropic-key", "", s + "-ant-api03-" + letters(90) + "-AA");
  add("openrouter-key", "key ", s + "-or-v1-" + hex(64));
  add("openai-key", "Incorrect API key provided: ", s + "-" + letters(48));
  add("openai-key", "using ", s + "-proj-" + letters(60) + us + letters(60));
  add("openai-key", "using ", s + "-svcacct-" + letters(60));
  add("wandb-key", "export ", "wandb" "_v1_" + letters(40));
  add("wandb-local-key", "key ", "local-" + hex(40));
  add("wandb-key", "wandb: Appending key for api.wandb.ai to your netrc: ", hex(40));
  add("wandb-key", "WANDB_API_KEY=", hex(40), " python train.py");
  add("wandb-key", "$ wandb login --relogin ", hex(40));
  add("nvidia-key", "NGC: ", "nv" "api-" + letters(64));
  add("replicate-token", "", "r8" "_" + letters(37));
  add("groq-key", "x ", "gs" "k_" + letters(52));
  add("xai-key", "x ", "xa" "i-" + letters(80));
  add("perplexity-key", "x ", "ppl" "x-" + letters(48));
  add("fireworks-key", "x ", "f" "w_" + letters(24));
  add("langsmith-key", "x ", "ls" "v2_pt_" + hex(32) + us + hex(10));
  add("pinecone-key", "x ", "pc" "sk_" + letters(60));
  add("runpod-key", "x ", "rp" "a_" + upper(44));
  add("kaggle-token", "x ", "KG" "AT_" + hex(32));
  add("neptune-token", "x ", "eyJhcGlfYWRkcmVzcyI6" + letters(80) + "==");
  add("aws-access-key", "id ", "AK" "IA" + upper(16), " denied");
  add("aws-access-key", "id ", "AS" "IA" + upper(16));
  add("aws-session-token", "x ", "IQo" "Jb3" + letters(200));
  add("aws-bedrock-key", "x ", "AB" "SK" + letters(120));
  add("google-api-key", "?q=", "AI" "za" + letters(35));
  add("google-oauth-token", "", "ya" "29." + letters(60));
  add("google-refresh-token", "x ", "1/" "/0" + letters(60));
  add("google-client-secret", "x ", "GOC" "SPX-" + letters(28));
  add("google-storage-key", "x ", "GO" "OG1" + upper(60));
  add("azure-storage-key", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=", letters(86) + "==");
  add("azure-client-secret", "x ", "aB3" "8Q~" + letters(34));
  add("azure-devops-token", "x ", letters(76) + "AZ" "DO" + letters(4));
  add("digitalocean-token", "x ", "do" "p_v1_" + hex(64));
  add("alibaba-key", "x ", "LT" "AI" + letters(20));
  add("tencent-key", "x ", "AK" "ID" + letters(32));
  add("volcengine-key", "x ", "AK" "LT" + letters(43));
  add("yandex-token", "x ", "AQ" "VN" + letters(36));
  add("cloudflare-ca-key", "x ", "v1.0-" + hex(24) + "-" + hex(146));
  add("heroku-key", "x ", "HR" "KU-" + hex(8) + "-" + hex(4) + "-" + hex(4) + "-" + hex(12));
  add("flyio-token", "FlyV1 ", "fm" "2_" + letters(90));
  add("tailscale-key", "x ", "tsk" "ey-auth-" + letters(12) + "-" + letters(24));
  add("planetscale-secret", "x ", "psc" "ale_tkn_" + letters(40));
  add("supabase-key", "x ", "sb" "p_" + hex(40));
  for (const std::string kind : {"p", "o", "u", "s", "r"}) add("github-token", "git clone with ", "g" "h" + kind + us + letters(36));
  add("github-fine-grained-token", "x ", "github" "_pat_" + letters(22) + us + letters(59));
  add("gitlab-token", "x ", "gl" "pat-" + letters(20));
  add("gitlab-token", "x ", "gl" "rt-" + letters(20));
  add("bitbucket-token", "x ", "AT" "BB" + letters(32));
  add("atlassian-token", "x ", "ATA" "TT3" + letters(180));
  add("npm-token", "x ", "np" "m_" + letters(36));
  add("pypi-token", "x ", "py" "pi-AgEIcHlwaS5vcmc" + letters(80));
  add("rubygems-key", "x ", "ruby" "gems_" + hex(48));
  add("docker-token", "x ", "dck" "r_pat_" + letters(27));
  add("circleci-token", "x ", "CCI" "PAT_" + letters(22) + us + hex(40));
  add("buildkite-token", "x ", "bk" "ua_" + hex(40));
  add("sonarqube-token", "x ", "sq" "p_" + hex(40));
  add("doppler-token", "x ", "dp" ".pt." + letters(43));
  add("databricks-token", "x ", "da" "pi" + hex(32));
  add("vault-token", "x ", "hv" "s." + letters(90));
  add("terraform-token", "x ", letters(14) + ".atl" "asv1." + letters(67));
  add("pulumi-token", "x ", "pu" "l-" + hex(40));
  add("1password-token", "x ", "ops" "_eyJ" + letters(100));
  add("postman-key", "x ", "PM" "AK-" + hex(24) + "-" + hex(34));
  for (const std::string kind : {"b", "p", "a", "o", "s", "r", "e"}) add("slack-token", "token ", "xo" "x" + kind + "-1234567890-1234567890-" + letters(24));
  add("slack-token", "x ", "xa" "pp-1-A" + upper(8) + "-123-" + hex(64));
  add("discord-token", "Bot ", "M" + letters(25) + "." + letters(6) + "." + letters(38));
  add("stripe-key", "x ", s + "_li" "ve_" + letters(24));
  add("stripe-key", "x ", "rk" "_te" "st_" + letters(24));
  add("square-token", "x ", "sq" "0atp-" + letters(22));
  add("twilio-key", "x ", "S" "K" + hex(32));
  add("sendgrid-key", "x ", "S" "G." + letters(22) + "." + letters(43));
  add("mailgun-key", "x ", "ke" "y-" + hex(32));
  add("mailchimp-key", "x ", hex(32) + "-u" "s12");
  add("grafana-token", "x ", "gl" "sa_" + letters(32) + us + hex(8));
  add("newrelic-key", "x ", "NR" "AK-" + upper(27));
  add("sentry-token", "x ", "snt" "rys_" + letters(80));
  add("dynatrace-token", "x ", "dt" "0c01." + upper(24) + "." + upper(64));
  add("linear-key", "x ", "lin" "_api_" + letters(40));
  add("notion-token", "x ", "nt" "n_" + letters(46));
  add("figma-token", "x ", "fi" "gd_" + letters(40));
  add("shopify-token", "x ", "shp" "at_" + hex(32));
  add("airtable-token", "x ", "pa" "t" + letters(14) + "." + hex(64));
  add("dropbox-token", "x ", "s" "l." + letters(130));
  // Addresses and headers.
  add("url-login", "postgres://", "trainer:s3cr3t-pw", "@db.internal:5432/runs");
  add("url-login", "https://", "x-access-token:abc123def", "@github.com/o/r.git");
  add("url-login", "git clone https://", "oauth2abcdefgh12345", "@gitlab.example/o/r.git");
  add("url-secret", "GET /v1/models?access_token=", "Zx81Qw93Er", "&page=2 401");
  add("url-secret", "https://b.s3.amazonaws.com/k?X-Amz-Expires=300&X-Amz-Signature=", hex(64));
  add("url-secret", "https://acc.blob.core.windows.net/c/b?sv=2022-11-02&sig=", "a%2Bb" + letters(30) + "%3D", "&se=2026");
  add("aws-signature", "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=", hex(64));
  add("authorization-header", "Authorization: Bearer ", letters(30));
  add("authorization-header", "{'Authorization': 'token ", letters(20), "'}");
  add("basic-login", "sent Basic ", letters(20) + "==");
  add("bearer-token", "header was bearer ", letters(24));
  add("cookie", "Set-Cookie: ", "session=" + letters(20) + "; Path=/");
  add("key-header", "X-Api-Key: ", letters(16));
  add("key-header", "'x-goog-api-key': '", letters(16), "'");
  // A telling name beside the value.
  add("password", "password='", "correct horse battery", "'");
  add("password", "DB_PASSWORD=", "hunter2");
  add("password", "{\"MLFLOW_TRACKING_PASSWORD\": \"", "pa55word!", "\"}");
  add("password", "train.py --db-password ", "hunter2!", " --lr 1e-4");
  add("password", "MYSQL_PWD=", "hunter2");
  add("password", "machine api.wandb.ai login user password ", letters(12));
  add("password", "sshpass -p ", "hunter2", " ssh node");
  add("password", "+ curl -s -u ", "admin:hunter2", " https://x");
  add("secret", "AWS_SECRET_ACCESS_KEY=", letters(40));
  add("secret", "\"client_secret\": \"", letters(24), "\"");
  add("secret", "\"private_key_id\": \"", hex(40), "\"");
  add("api-key", "OPENAI_API_KEY=", letters(30));
  add("api-key", "Namespace(comet_api_key='", letters(25), "', lr=1)");
  add("api-key", "train.py --wandb-key ", hex(20) + "zz");
  add("api-key", "client-key-data: ", letters(60) + "==");
  add("token", "HF_TOKEN=", letters(20));
  add("token", "use_auth_token: ", letters(20));
  add("token", "'token': '", letters(20), "'");
  add("token", "--hub-token ", letters(20));
  add("docker-login", "{\"auths\": {\"nvcr.io\": {\"auth\": \"", letters(40), "\"}}}");
  // Personal data.
  add("mail-address", "run by ", "jane.doe+gpu@example.com", " on node 3");
  add("user", "File \"/home/", "jdoe", "/train.py\", line 3");
  add("user", "/Users/", "jdoe", "/x");
  add("user", "/lustre/home/", "jdoe", "/ckpt");
  add("user", "C:\\Users\\", "jdoe", "\\x");
  add("user", "USER=", "jdoe", " HOME=x");
  add("user", "uid=1000(", "jdoe", ") gid=1000");
  return out;
}

}  // namespace triage::tests::alerting
