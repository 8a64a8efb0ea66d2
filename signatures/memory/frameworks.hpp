// The models by program family; estimate() chooses. One file (or a few) each.
#pragma once

#include "signatures/memory/estimate.hpp"

namespace triage::signatures::memory {

// Megatron-LM, Megatron Bridge, NeMo: tensor, pipeline, context and expert parallel over Megatron Core.
parsers::Result<Estimate> estimate_megatron(const parsers::RunConfig& config);

// Hugging Face and plain PyTorch models: one device, DDP, FSDP, DeepSpeed ZeRO, torchtitan.
parsers::Result<Estimate> estimate_torch(const parsers::RunConfig& config);

// Terms outside torch's allocator: CUDA context, communicators, reserved but unallocated. `reserved_of`: the allocated peak.
std::vector<Term> outside_terms(const parsers::RunConfig& config, Count world, Range allocated_peak);

}  // namespace triage::signatures::memory
