// The user's ^C, or a SIGTERM, as a wish: what was read is judged and printed, then the program ends by that signal. A second one ends it
// at once.
#pragma once

namespace triage::daemon {

// While it lives, the two signals are noted. One at a time in a process.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The signal that came, or 0. Any thread.
  static int requested();
  // Ends the process by the signal that came, as its parent expects it. Returns when none came.
  static void obey();
};

}  // namespace triage::daemon
