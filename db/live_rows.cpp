#include "db/live_rows.hpp"

namespace triage::db {

std::string_view outbox_state_name(OutboxState state) {
  switch (state) {
    case OutboxState::waiting: return "waiting";
    case OutboxState::sending: return "sending";
    case OutboxState::sent: return "sent";
    case OutboxState::dead: return "dead";
    case OutboxState::uncertain: break;
  }
  return "uncertain";
}

OutboxState outbox_state_of(std::string_view name) {
  for (const OutboxState state : {OutboxState::waiting, OutboxState::sending, OutboxState::sent, OutboxState::dead})
    if (outbox_state_name(state) == name) return state;
  return OutboxState::uncertain;
}

}  // namespace triage::db
