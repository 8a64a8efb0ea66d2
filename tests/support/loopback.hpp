// Sockets, TLS and threads of the fake peers. Loopback only, ports chosen by the kernel.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace triage::tests {

// A certificate signed by itself, for the names in `san` ("IP:127.0.0.1", "DNS:localhost").
struct Identity {
  std::string certificate, key;   // PEM
};

inline Identity make_identity(const std::string& san) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* x = X509_new();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), 3600);
  X509_set_pubkey(x, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("fake peer"), -1, -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(x));
  X509V3_CTX context;
  X509V3_set_ctx(&context, x, x, nullptr, nullptr, 0);
  for (const auto& [nid, value] : {std::pair<int, std::string>{NID_subject_alt_name, san}, {NID_basic_constraints, "critical,CA:TRUE"}}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(x, key, EVP_sha256());
  const auto text = [](const std::function<void(BIO*)>& write) {
    BIO* bio = BIO_new(BIO_s_mem());
    write(bio);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string out(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return out;
  };
  Identity out;
  out.certificate = text([&](BIO* bio) { PEM_write_bio_X509(bio, x); });
  out.key = text([&](BIO* bio) { PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
  X509_free(x);
  EVP_PKEY_free(key);
  return out;
}

// A folder of this test alone, removed at its end.
class PeerFolder {
 public:
  PeerFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "triage-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~PeerFolder() { std::filesystem::remove_all(path_); }
  PeerFolder(const PeerFolder&) = delete;
  PeerFolder& operator=(const PeerFolder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  std::filesystem::path path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// One connection, with TLS once it is asked for.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  ~Wire() { close(); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  bool start_tls(SSL_CTX* context) {
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, fd_);
    return SSL_accept(ssl_) == 1;
  }
  // Up to the mark; empty at the end of the connection.
  std::string read_until(const std::string& mark) {
    while (buffer_.find(mark) == std::string::npos)
      if (!fill()) return "";
    const std::size_t end = buffer_.find(mark) + mark.size();
    std::string out = buffer_.substr(0, end);
    buffer_.erase(0, end);
    return out;
  }
  std::string read_exactly(std::size_t count) {
    while (buffer_.size() < count)
      if (!fill()) break;
    std::string out = buffer_.substr(0, count);
    buffer_.erase(0, out.size());
    return out;
  }
  void write(const std::string& text) {
    if (ssl_ != nullptr)
      (void)SSL_write(ssl_, text.data(), static_cast<int>(text.size()));
    else
      (void)!::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void close() {
    if (ssl_ != nullptr) SSL_free(ssl_);
    ssl_ = nullptr;
    if (fd_ >= 0) {
      ::shutdown(fd_, SHUT_RDWR);
      ::close(fd_);
    }
    fd_ = -1;
  }

 private:
  bool fill() {
    char room[16384];
    const long count = ssl_ != nullptr ? SSL_read(ssl_, room, sizeof room) : ::recv(fd_, room, sizeof room, 0);
    if (count <= 0) return false;
    buffer_.append(room, static_cast<std::size_t>(count));
    return true;
  }
  int fd_;
  SSL* ssl_ = nullptr;
  std::string buffer_;
};

// Accepts connections and gives each to `serve` in a thread of its own, until it is destroyed.
class Loopback {
 public:
  Loopback(std::function<void(Wire&)> serve, const Identity* identity = nullptr) : serve_(std::move(serve)) {
    if (identity != nullptr) {
      context_ = SSL_CTX_new(TLS_server_method());
      BIO* certificate = BIO_new_mem_buf(identity->certificate.data(), -1);
      BIO* key = BIO_new_mem_buf(identity->key.data(), -1);
      X509* x = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
      EVP_PKEY* k = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
      SSL_CTX_use_certificate(context_, x);
      SSL_CTX_use_PrivateKey(context_, k);
      X509_free(x);
      EVP_PKEY_free(k);
      BIO_free(certificate);
      BIO_free(key);
    }
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no loopback listener");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~Loopback() {
    stop_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
    for (std::thread& thread : serving_) thread.join();
    for (int fd : open_) ::close(fd);
    ::close(listener_);
    if (context_ != nullptr) SSL_CTX_free(context_);
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;
  int port() const { return port_; }
  SSL_CTX* context() const { return context_; }
  bool stopping() const { return stop_; }
  // Sleeps, but not beyond the end of the test.
  void wait(std::chrono::milliseconds time) const {
    for (const auto end = std::chrono::steady_clock::now() + time; !stop_ && std::chrono::steady_clock::now() < end;)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  void accept_all() {
    while (!stop_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      timeval limit{10, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      open_.push_back(::dup(fd));
      serving_.emplace_back([this, fd] {
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, nullptr);   // OpenSSL writes into connections that the client has closed
        Wire wire(fd);
        serve_(wire);
      });
    }
    for (int& fd : open_) ::shutdown(fd, SHUT_RD);
  }
  std::function<void(Wire&)> serve_;
  SSL_CTX* context_ = nullptr;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::vector<int> open_;
  std::vector<std::thread> serving_;
  std::thread thread_;
};

}  // namespace triage::tests
