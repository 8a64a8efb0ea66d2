#include "daemon/cli/interrupt.hpp"

#include <signal.h>

#include <atomic>

namespace triage::daemon {

namespace {

// A signal handler has no other place to write to.
std::atomic<int> came{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) { came.store(signal, std::memory_order_relaxed); }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);   // no SA_RESTART: a read that waits comes back
  sigemptyset(&action.sa_mask);
  // What was ignored when we were started (nohup, a job in the background of a shell script) stays so.
  if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  handle(SIGINT, note);
  handle(SIGTERM, note);
}

Interrupt::~Interrupt() {
  handle(SIGINT, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
}

int Interrupt::requested() { return came.load(std::memory_order_relaxed); }

void Interrupt::obey() {
  const int signal = requested();
  if (signal == 0) return;
  handle(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace triage::daemon
