// In which part of the training step a traceback was taken.
#pragma once

#include <span>
#include <string_view>

#include "parsers/events/event.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// frames: Python, outermost first. unknown if nothing tells.
Phase phase_of_frames(std::span<const parsers::Frame> frames);
// From the message alone: "Failed to clone() tensor" is a checkpoint, "Capture cuda graph failed" a capture.
Phase phase_of_text(std::string_view text);

// Whether the frame's function reads a saved state into a model or an optimizer (downloads and model classes do not count).
bool reads_checkpoint(const parsers::Frame& frame);

}  // namespace triage::signatures
