// A child process that works on a database beside the test. Made before the test opens the file: SQLite's locks do not survive a fork.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace triage::tests {

class Child {
 public:
  // work gets the child's ends of two pipes; its result is the exit status.
  explicit Child(const std::function<int(int in, int out)>& work) {
    int to[2] = {}, from[2] = {};
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(to[1]);
      ::close(from[0]);
      ::_exit(work(to[0], from[1]));
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
  }
  ~Child() {
    kill();
    ::close(to_);
    ::close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool running() const { return pid_ > 0; }
  void tell() const { (void)!::write(to_, "x", 1); }
  // Waits for a byte from the child. False: it has ended.
  bool hear() const {
    char byte = 0;
    return ::read(from_, &byte, 1) == 1;
  }
  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    (void)wait();
  }
  // The exit status, or -1 when it was killed.
  int wait() {
    if (pid_ <= 0) return -1;
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
};

inline void tell(int descriptor) { (void)!::write(descriptor, "x", 1); }
inline bool hear(int descriptor) {
  char byte = 0;
  return ::read(descriptor, &byte, 1) == 1;
}

}  // namespace triage::tests
