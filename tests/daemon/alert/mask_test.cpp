#include "daemon/alert/mask.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/secret_samples.hpp"

using namespace triage::daemon;
using namespace triage::tests::alerting;

TEST_CASE("each shape of secret is masked, in a line of its own and among others") {
  for (const SecretSample& sample : secret_samples()) {
    CAPTURE(sample.shape);
    CAPTURE(sample.text);
    for (const std::string& text : {sample.text, "[rank3]: " + sample.text, "(" + sample.text + ")", sample.text + "\nnext line", "x=1 \"" + sample.text + "\" y=2"}) {
      const std::string masked = mask_text(text, {});
      CAPTURE(masked);
      CHECK(masked.find(sample.hidden) == std::string::npos);
      CHECK(masked.find("[masked ") != std::string::npos);
      CHECK(mask_text(masked, {}) == masked);
    }
    CHECK(mask_text(sample.text, {}).find("[masked " + sample.shape + "]") != std::string::npos);
  }
}

TEST_CASE("the samples cover every shape") {
  const auto samples = secret_samples();
  std::size_t seen = 0;
  for (const std::string_view shape : mask_shapes()) {
    if (shape == "ip-address") continue;   // hosts, below
    CAPTURE(std::string(shape));
    CHECK(std::any_of(samples.begin(), samples.end(), [&](const SecretSample& sample) { return sample.shape == shape; }));
    ++seen;
  }
  CHECK(seen >= 100);
}

TEST_CASE("two secrets side by side are both masked") {
  const auto samples = secret_samples();
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    if (samples[i].shape == "private-key" || samples[i].shape == "putty-key" || samples[i].shape == "cookie") continue;   // take the rest of the text
    const std::string text = samples[i].text + " " + samples[i + 1].text;
    CAPTURE(text);
    const std::string masked = mask_text(text, {});
    CAPTURE(masked);
    CHECK(masked.find(samples[i].hidden) == std::string::npos);
    CHECK(masked.find(samples[i + 1].hidden) == std::string::npos);
  }
}

TEST_CASE("ordinary lines stay as they are") {
  const char* const lines[] = {
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
      "num_tokens=4096 max_tokens: 8192 tokens_per_second=12345.67 pad_token_id=128001",
      "eos_token='<|endoftext|>' bos_token=<s> pad_token: [PAD] unk_token='<unk>' image_token=<image_placeholder_01>",
      "--tokenizer-type GPT2BPETokenizer --tokenizer-model /data/tokenizer.model --vocab-size 50257",
      "tokenizer: meta-llama/Llama-3.1-8B-Instruct token: 17",
      "KeyError: 'password'",
      "KeyError: 'api_key'",
      "ValueError: HF_TOKEN is not set",
      "api_key=None wandb_key: null token=False password=",
      "git@github.com:NVIDIA/Megatron-LM.git",
      "Started getty@tty1.service user@1000.service",
      "memcpy@@GLIBC_2.14 cudaMalloc@libcudart.so.12",
      "NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
      "file:///data/run/ckpt https://pytorch.org/docs/stable/notes/cuda.html#environment-variables",
      "ssh://git@host/path and https://user@host/path",
      "docker run -u 1000:1000 nvcr.io/nvidia/pytorch:24.07-py3",
      "PWD=/workspace OLDPWD=/",
      "commit 4fb52150a1b2c3d4e5f60718293a4b5c6d7e8f90",
      "GPU-5a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9 uuid",
      "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
      "attention_key=query primary_key: id sort_key=loss cache_key=abc",
      "secret santa: no secrets here; the secret of the crash is unknown",
      "basic training of the model; bearer of bad news",
      "Authorization required",
      "[rank0]:[W1202 13:19:02.000 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed",
      "iteration 100/ 500 | consumed samples: 25600 | elapsed time per iteration (ms): 1234.5 | lm loss: 2.345678E+00",
      "task-runner sk-learn scikit-learn risk-assessment-of-large-scale-models-in-training",
      "model key-value cache; key-value heads 8",
  };
  for (const char* line : lines) CHECK(mask_text(line, {}) == line);
}

TEST_CASE("recorded logs: nothing but home folders is masked") {
  std::map<std::string, int> marks;
  std::size_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(TRIAGE_SOURCE_DIR) + "/tests/corpus")) {
    if (entry.path().extension() != ".log" && entry.path().extension() != ".txt") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    for (std::string line; std::getline(in, line);) {
      bytes += line.size();
      const std::string masked = mask_text(std::string_view(line).substr(0, 8192), {});
      for (std::size_t at = masked.find("[masked "); at != std::string::npos; at = masked.find("[masked ", at + 1)) ++marks[masked.substr(at, masked.find(']', at) + 1 - at)];
    }
  }
  CHECK(bytes > 1'000'000);
  for (const auto& entry : marks) {
    const std::string& mark = entry.first;
    CAPTURE(mark);
    CHECK(mark == "[masked user]");
  }
}

TEST_CASE("hosts are masked by choice, the same host always the same way") {
  MaskOptions options;
  options.host_names = {"gpu-node-17"};
  options.host_suffixes = {"corp.example.com"};
  const std::string text = "gpu-node-17 lost gpu-node-170, GPU-NODE-17:29500, a1.corp.example.com and 10.1.2.3 (fe80::1:2)";
  CHECK(mask_text(text, options) == text);
  options.hosts = true;
  const std::string masked = mask_text(text, options);
  for (const char* hidden : {"gpu-node-17 ", "GPU-NODE-17:", "a1.corp", "10.1.2.3", "fe80"}) CHECK(masked.find(hidden) == std::string::npos);
  CHECK(masked.find("gpu-node-170") != std::string::npos);
  const std::string mark = masked.substr(0, masked.find(']') + 1);
  CHECK(masked.find(mark + ":29500") != std::string::npos);
  CHECK(mask_text(masked, options) == masked);
}

TEST_CASE("words of the configuration, personal data by choice") {
  MaskOptions options;
  options.words = {"Projekt Adler"};
  CHECK(mask_text("run of projekt adler failed", options) == "run of [masked word] failed");
  options.users = false;
  options.mails = false;
  CHECK(mask_text("/home/jdoe/x j@example.com", options) == "/home/jdoe/x j@example.com");
}

TEST_CASE("a document is masked in all its values, at any depth") {
  Json deep = "password=hunter2";
  for (int i = 0; i < 200; ++i) deep = Json::array({deep});
  const std::string token = std::string("h") + "f_" + letters(34);
  const Json document = {{"root", {{"text", "HF_TOKEN=" + token}, {"line", 3}}}, {"list", {token, nullptr, true, 1.5}}, {"deep", deep}};
  const std::string text = json_text(mask_json(document, {}), -1);
  CHECK(text.find(token) == std::string::npos);
  CHECK(text.find("hunter2") == std::string::npos);
  CHECK(text.find("\"line\":3") != std::string::npos);
  CHECK(text.find("too deep") != std::string::npos);
}

TEST_CASE("hostile text: bytes of no encoding, long lines, many matches") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  CHECK(mask_text(bytes, {}) == bytes);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "password=hunter" + std::to_string(i) + " ";
  CHECK(mask_text(many, {}).find("hunter") == std::string::npos);
  const std::string longest(1 << 20, 'a');
  CHECK(mask_text(longest, {}).size() == longest.size());
}
