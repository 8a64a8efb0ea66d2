// A program of the operator: arguments as configured, without a shell; the alert as JSON on its standard input; what it prints is kept for
// the error text only. Exit status 0: told; 75 (EX_TEMPFAIL of sysexits.h) and a signal: again; any other: again too, since programs fail
// for many reasons, and the age of the item ends it. Text of the alert is never an argument and never in the environment.
#include "daemon/alert/sink.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "daemon/alert/hash.hpp"

namespace triage::daemon {
namespace {

constexpr std::size_t kOutput = 4096;          // kept; the rest is read and dropped
using Clock = std::chrono::steady_clock;

struct Fd {
  int fd = -1;
  Fd() = default;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  void reset() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

bool make_pipe(Fd& read, Fd& write) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  read.fd = ends[0];
  write.fd = ends[1];
  return true;
}

// Starts it in a process group of its own, with standard streams and nothing else open.
int start(const CommandSettings& settings, const std::vector<std::string>& environment, int in, int out, pid_t& child) {
  std::vector<char*> argv, envp;
  for (const std::string& word : settings.argv) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& word : environment) envp.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  sigdelset(&defaults, SIGKILL);
  sigdelset(&defaults, SIGSTOP);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int code = posix_spawn(&child, settings.argv[0].c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return code;
}

// Writes what the pipe takes; closes it at the end or when the program does not read.
void feed(Fd& in, std::string_view& rest) {
  const ssize_t count = ::write(in.fd, rest.data(), rest.size());
  if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
  if (rest.empty() || (count < 0 && errno != EAGAIN && errno != EINTR)) in.reset();
}

void drain(Fd& out, std::string& kept) {
  std::array<char, 4096> room;
  const ssize_t count = ::read(out.fd, room.data(), room.size());
  if (count > 0) kept.append(room.data(), std::min(static_cast<std::size_t>(count), kOutput - kept.size()));
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) out.reset();
}

class BlockedPipe {
 public:
  BlockedPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~BlockedPipe() {
    const timespec now{0, 0};
    if (sigismember(&before_, SIGPIPE) == 0)
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {}
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedPipe(const BlockedPipe&) = delete;
  BlockedPipe& operator=(const BlockedPipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

}  // namespace

Json command_input(const Delivery& delivery) {
  Json json = {{"type", "triage.incident"}, {"version", kAlertVersion}, {"key", delivery.key}};
  for (const auto& [key, value] : delivery.body.items())
    if (key != "policy" && key != "version") json[key] = value;
  json["text"] = guard_mentions(plain_text(cut_parts(alert_text(delivery.body), 1)));
  return json;
}

Outcome run_command(const CommandSettings& settings, const Delivery& delivery, const std::stop_token& stop) {
  const BlockedPipe blocked;
  Fd child_in, in, out, child_out;
  if (!make_pipe(child_in, in) || !make_pipe(out, child_out)) return Outcome::again(std::string("no pipe: ") + std::strerror(errno));
  ::fcntl(in.fd, F_SETFL, O_NONBLOCK);
  ::fcntl(out.fd, F_SETFL, O_NONBLOCK);
  const char* home = std::getenv("HOME");
  const std::vector<std::string> environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", std::string("HOME=") + (home != nullptr ? home : "/")};
  pid_t child = -1;
  if (const int code = start(settings, environment, child_in.fd, child_out.fd, child); code != 0) return Outcome::again("'" + settings.argv[0] + "' cannot be started: " + std::strerror(code));
  child_in.reset();
  child_out.reset();
  const std::string input = json_text(command_input(delivery), -1) + "\n";
  std::string_view rest = input;
  std::string printed;
  auto end = Clock::now() + settings.timeout;
  bool stopping = false, killed = false;
  int status = 0;
  while (true) {
    siginfo_t ended{};
    // Left unreaped until its group is killed, so that the number still is its own.
    if (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ? errno != EINTR : ended.si_pid == child) break;
    if (stop.stop_requested() && !stopping) {
      stopping = true;
      end = std::min(end, Clock::now() + std::chrono::seconds(1));
    }
    if (Clock::now() >= end) {
      killed = true;
      break;
    }
    std::array<pollfd, 2> wait = {pollfd{in.fd, POLLOUT, 0}, pollfd{out.fd, POLLIN, 0}};
    if (::poll(wait.data(), wait.size(), 20) <= 0) continue;
    if (in.fd >= 0 && wait[0].revents != 0) feed(in, rest);
    if (out.fd >= 0 && wait[1].revents != 0) drain(out, printed);
  }
  ::kill(-child, SIGKILL);                     // and what it left behind in its group
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (out.fd >= 0) drain(out, printed);
  const std::string tail = printed.empty() ? "" : ": " + cut_text(clean_line(mask_text(printed, {})), 300);
  if (killed) return Outcome::unknown(stopping ? "the service stopped while the command ran" : "the command ran past its time" + tail);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Outcome::told();
  if (WIFSIGNALED(status)) return Outcome::again("the command died by signal " + std::to_string(WTERMSIG(status)) + tail, std::nullopt, false);
  return Outcome::again("the command ended with status " + std::to_string(WEXITSTATUS(status)) + tail, std::nullopt, false);
}

}  // namespace triage::daemon
