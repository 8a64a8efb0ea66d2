#include <cstdio>

int main() {
  std::fputs("triage " TRIAGE_VERSION "\n", stdout);
  return 0;
}
