// An SMTP server that takes mails, or refuses at the step that the test names.
#pragma once

#include <map>

#include "tests/support/loopback.hpp"

namespace triage::tests {

struct TakenMail {
  std::string from, login;
  std::vector<std::string> to;
  std::string message;
  bool tls = false;
};

class FakeSmtp {
 public:
  struct Behaviour {
    std::map<std::string, std::string> replies;   // "MAIL", "RCPT", "RCPT address", "AUTH", "DATA", "END" -> "451 4.7.1 come back later"
    bool offers_starttls = false;
    bool cuts_after_message = false;
    std::chrono::milliseconds delay_after_message{0};
  };

  explicit FakeSmtp(Behaviour behaviour, const Identity* identity = nullptr, bool tls_at_once = false)
      : behaviour_(std::move(behaviour)), tls_at_once_(tls_at_once), server_([this](Wire& wire) { serve(wire); }, identity) {}

  std::string url() const { return std::string(tls_at_once_ ? "smtps" : "smtp") + "://127.0.0.1:" + std::to_string(server_.port()); }
  std::vector<TakenMail> mails() const {
    const std::lock_guard lock(mutex_);
    return mails_;
  }

 private:
  std::string reply(const std::string& step, const std::string& usual) const {
    const auto found = behaviour_.replies.find(step);
    return (found == behaviour_.replies.end() ? usual : found->second) + "\r\n";
  }
  void serve(Wire& wire) {
    TakenMail mail;
    if (tls_at_once_) {
      if (!wire.start_tls(server_.context())) return;
      mail.tls = true;
    }
    wire.write("220 fake.example ESMTP\r\n");
    for (std::string line = wire.read_until("\r\n"); !line.empty(); line = wire.read_until("\r\n")) {
      if (line.starts_with("EHLO") || line.starts_with("HELO")) {
        wire.write(std::string("250-fake.example\r\n") + (behaviour_.offers_starttls && !mail.tls ? "250-STARTTLS\r\n" : "") + "250-AUTH PLAIN\r\n250 8BITMIME\r\n");
      } else if (line.starts_with("STARTTLS")) {
        wire.write("220 go on\r\n");
        if (!wire.start_tls(server_.context())) return;
        mail.tls = true;
      } else if (line.starts_with("AUTH")) {
        mail.login = line.substr(5, line.size() - 7);
        if (line.find("PLAIN ") == std::string::npos) {
          wire.write("334 \r\n");
          const std::string initial = wire.read_until("\r\n");
          mail.login += " " + initial.substr(0, initial.size() - 2);
        }
        wire.write(reply("AUTH", "235 welcome"));
      } else if (line.starts_with("MAIL FROM:")) {
        mail.from = line.substr(10, line.find('>') - 9);
        wire.write(reply("MAIL", "250 ok"));
      } else if (line.starts_with("RCPT TO:")) {
        mail.to.push_back(line.substr(8, line.find('>') - 7));
        const std::string one = "RCPT " + mail.to.back().substr(1, mail.to.back().size() - 2);
        wire.write(behaviour_.replies.count(one) ? reply(one, "") : reply("RCPT", "250 ok"));
      } else if (line.starts_with("DATA")) {
        wire.write(reply("DATA", "354 go on"));
        if (behaviour_.replies.count("DATA")) continue;
        mail.message = wire.read_until("\r\n.\r\n");
        {
          const std::lock_guard lock(mutex_);
          mails_.push_back(mail);
        }
        server_.wait(behaviour_.delay_after_message);
        if (behaviour_.cuts_after_message) return;
        wire.write(reply("END", "250 2.0.0 queued"));
      } else if (line.starts_with("QUIT")) {
        wire.write("221 bye\r\n");
        return;
      } else {
        wire.write("502 unknown\r\n");
      }
    }
  }

  Behaviour behaviour_;
  bool tls_at_once_;
  mutable std::mutex mutex_;
  std::vector<TakenMail> mails_;
  Loopback server_;
};

}  // namespace triage::tests
