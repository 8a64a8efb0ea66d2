#include "signatures/match/background.hpp"

#include <string>

namespace triage::signatures {
namespace {

// Forms of: NVIDIA/Megatron-LM megatron/training/{training,arguments,initialize}.py, huggingface/transformers trainer.py,
// microsoft/DeepSpeed deepspeed/{runtime/engine,utils/timer}.py, pytorch/torchtitan components/metrics.py, NVIDIA/nccl src/debug.cc,
// tqdm, pytorch/pytorch torch/distributed/run.py, AI-Hypercomputer/maxtext.
constexpr std::string_view kText = R"( [2026-12-01 13:19:02.123456] iteration       10/  500000 | consumed samples:        2560 | elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 450.1 | learning rate: 1.000000E-05 | global batch size:   256 | lm loss: 1.045000E+01 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |
 validation loss at iteration 100 | lm loss value: 2.345000E+00 | lm loss PPL: 1.043000E+01 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (1000.10, 1001.22)
    optimizer ......................................: (10.10, 10.22)
    forward-compute ................................: (300.10, 301.22)
    backward-compute ...............................: (600.10, 601.22)
    all-grads-sync .................................: (12.35, 17.86)
    params-all-gather ..............................: (8.94, 9.47)
    optimizer-copy-to-main-grad ....................: (0.13, 0.58)
    optimizer-clip-main-grad .......................: (3.46, 3.79)
    optimizer-inner-step ...........................: (9.68, 9.97)
saving checkpoint at iteration     100 to /checkpoints/run in torch_dist format
  successfully saved checkpoint from iteration     100 to /checkpoints/run
 loading checkpoint from /checkpoints/run at iteration 100
[rank 0] (after 10 iterations) memory (MB) | allocated: 6531.25 | max allocated: 9862.71 | reserved: 10224.0 | max reserved: 10224.0
------------------------ arguments ------------------------
  accumulate_allreduce_grads_in_fp32 .............. True
  tensor_model_parallel_size ...................... 2
  recompute_granularity ........................... None
-------------------- end of arguments ---------------------
> initializing torch distributed ...
> initialized tensor model parallel with size 2
> building train, validation, and test datasets for GPT ...
> number of parameters on (tensor, pipeline) model parallel rank (0, 0): 354871296
setting training iterations to 100
using world size: 8, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 2, pipeline-model-parallel size: 1
node-1:1234:1270 [3] NCCL INFO Channel 03/0 : 3[3] -> 4[4] via P2P/CUMEM
node-1:1234:1270 [3] NCCL INFO cudaDev 3 nvmlDev 3 busId 5d000 commId 0x1234 nranks 64 localRanks 8 Init START
node-1:1234:1270 [3] NCCL INFO comm 0x55 rank 3 nranks 64 - Init COMPLETE
node-1:1234:1270 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
/usr/lib/python3/dist-packages/torch/utils/checkpoint.py:31: UserWarning: None of the inputs have requires_grad=True. Gradients will be None
/opt/megatron/core/models/backends.py:34: UserWarning: Transformer Engine and Apex are not installed. Falling back to Torch Norm
/opt/megatron/core/optimizer/clip_grads.py:32: FutureWarning: torch.cuda.amp is deprecated. Please use torch.amp instead
  warnings.warn(
[default3]:[2026-12-01 13:19:02,123] [INFO] [real_accelerator.py:158:get_accelerator] Setting ds_accelerator to cuda (auto detect)
{'loss': 2.345, 'grad_norm': 1.23, 'learning_rate': 1e-05, 'epoch': 0.12, 'num_tokens': 123456.0}
{'train_runtime': 123.4, 'train_samples_per_second': 12.3, 'train_steps_per_second': 1.2, 'train_loss': 2.3, 'epoch': 1.0}
  3%|#         | 31/1000 [00:31<16:10,  1.00s/it]
Loading checkpoint shards: 100%|##########| 4/4 [00:05<00:00,  1.25s/it]
***** Running training *****
  Num examples = 1,000
  Instantaneous batch size per device = 4
  Gradient Accumulation steps = 8
  Total optimization steps = 1,000
[2026-12-01 13:19:02,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]
[2026-12-01 13:19:02,123] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.3, MemAllocated=10.2GB, MaxMemAllocated=20.1GB
[2026-12-01 13:19:02,123] [INFO] [engine.py:1234:_configure_optimizer] Using client Optimizer as basic optimizer
[rank0]:[titan] 2026-12-01 13:19:02,123 - root - INFO - step: 10  loss:  7.1234  grad_norm:  1.2345  memory: 45.67GiB(57.67%)  tps: 5,678  tflops: 234.56  mfu: 23.46%
completed step: 10, seconds: 1.234, TFLOP/s/device: 123.4, Tokens/s/device: 1234.5, total_weights: 65536, loss: 10.123
Epoch 0:  10%|#         | 10/100 [00:10<01:30, v_num=0, train_loss=2.345, train_step_timing in s=1.23]
Training epoch 0, iteration 9/99 | lr: 1.499e-05 | global_batch_size: 512 | global_step: 9 | peak_memory_usage: 52160000000 | memory_allocated: 31000000000 | reduced_train_loss: 11.03 | train_step_timing in s: 12.64 | consumed_samples: 5120
step:10 - global_seqlen/min:12345.000 - actor/entropy:0.345 - actor/pg_loss:0.012 - critic/rewards/mean:0.567 - response_length/mean:512.3 - timing_s/gen:12.34 - perf/throughput:1234.5
INFO 2026-12-01 13:19:02 [train.py:100] Training step 10, loss 2.3, time 1.2s, error rate 0.0, ETA 0:10:00
)";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

std::string folded(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

}  // namespace

std::string_view background() { return kText; }

std::size_t background_count(std::string_view text) {
  if (text.empty()) return 0;
  static const std::string healthy = folded(kText);
  const std::string wanted = folded(text);
  std::size_t count = 0;
  for (std::size_t at = healthy.find(wanted); at != std::string::npos; at = healthy.find(wanted, at + 1)) ++count;
  return count;
}

}  // namespace triage::signatures
