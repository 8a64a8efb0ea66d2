// In which part of the training step a traceback was taken.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "parsers/events/event.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// frames: Python, outermost first. unknown if nothing tells.
Phase phase_of_frames(std::span<const parsers::Frame> frames);
// From the message alone: "Failed to clone() tensor" is a checkpoint, "Capture cuda graph failed" a capture.
Phase phase_of_text(std::string_view text);
// What a kind of failure happens in, whatever the line says: a collective's time-out in communication. unknown for most.
Phase phase_of_kind(std::string_view kind);

// The stack that a text quotes as one line: Python's list of lines, or a JSON text with "\n" in it. At most 64 frames, outermost first.
std::vector<parsers::Frame> frames_in_text(std::string_view text);

// Whether the frame's function reads a saved state into a model or an optimizer (downloads and model classes do not count).
bool reads_checkpoint(const parsers::Frame& frame);
// Whether it writes one.
bool saves_checkpoint(const parsers::Frame& frame);
// Whether it is code that hands a checkpoint to a process of its own, or waits for that one.
bool asks_checkpoint_writer(const parsers::Frame& frame);

}  // namespace triage::signatures
