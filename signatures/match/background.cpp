#include "signatures/match/background.hpp"

#include <string>

namespace triage::signatures {
namespace {

// Forms of: NVIDIA/Megatron-LM megatron/training/{training,arguments,initialize}.py, huggingface/transformers trainer.py,
// microsoft/DeepSpeed deepspeed/{runtime/engine,utils/timer}.py, pytorch/torchtitan components/metrics.py, NVIDIA/nccl src/debug.cc,
// tqdm, pytorch/pytorch torch/distributed/run.py, AI-Hypercomputer/maxtext.
constexpr std::string_view kText = R"( [2026-12-01 13:19:02.123456] iteration       10/  500000 | consumed samples:        2560 | elapsed time per iteration (ms): 1234.5 | throughput per gpu (tflop/s/gpu): 450.1 | learning rate: 1.000000e-05 | global batch size:   256 | lm loss: 1.045000e+01 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |
 validation loss at iteration 100 | lm loss value: 2.345000e+00 | lm loss ppl: 1.043e+01 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (1000.10, 1001.22)
    optimizer ......................................: (10.10, 10.22)
saving checkpoint at iteration     100 to /checkpoints/run in torch_dist format
  successfully saved checkpoint from iteration     100 to /checkpoints/run
 loading checkpoint from /checkpoints/run at iteration 100
[rank 0] (after 10 iterations) memory (mb) | allocated: 6531.25 | max allocated: 9862.71 | reserved: 10224.0 | max reserved: 10224.0
------------------------ arguments ------------------------
  accumulate_allreduce_grads_in_fp32 .............. true
  tensor_model_parallel_size ...................... 2
  recompute_granularity ........................... none
-------------------- end of arguments ---------------------
> initializing torch distributed ...
> initialized tensor model parallel with size 2
> building train, validation, and test datasets for gpt ...
> number of parameters on (tensor, pipeline) model parallel rank (0, 0): 354871296
setting training iterations to 100
using world size: 8, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 2, pipeline-model-parallel size: 1
node-1:1234:1270 [3] nccl info channel 03/0 : 3[3] -> 4[4] via p2p/cumem
node-1:1234:1270 [3] nccl info cudadev 3 nvmldev 3 busid 5d000 commid 0x1234 nranks 64 localranks 8 init start
node-1:1234:1270 [3] nccl info comm 0x55 rank 3 nranks 64 - init complete
node-1:1234:1270 [3] nccl info net/ib : using [0]mlx5_0:1/ib [ro]; oob eth0:10.0.0.1<0>
/usr/lib/python3/dist-packages/torch/utils/checkpoint.py:31: userwarning: none of the inputs have requires_grad=true. gradients will be none
/opt/megatron/core/models/backends.py:34: userwarning: apex is not installed. falling back to torch norm
/opt/megatron/core/optimizer/clip_grads.py:32: futurewarning: torch.cuda.amp is deprecated. please use torch.amp instead
  warnings.warn(
{'loss': 2.345, 'grad_norm': 1.23, 'learning_rate': 1e-05, 'epoch': 0.12, 'num_tokens': 123456.0}
{'train_runtime': 123.4, 'train_samples_per_second': 12.3, 'train_steps_per_second': 1.2, 'train_loss': 2.3, 'epoch': 1.0}
  3%|#         | 31/1000 [00:31<16:10,  1.00s/it]
loading checkpoint shards: 100%|##########| 4/4 [00:05<00:00,  1.25s/it]
***** running training *****
  num examples = 1,000
  instantaneous batch size per device = 4
  gradient accumulation steps = 8
  total optimization steps = 1,000
[2026-12-01 13:19:02,123] [info] [logging.py:96:log_dist] [rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]
[2026-12-01 13:19:02,123] [info] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, runningavgsamplespersec=12.3, currsamplespersec=12.3, memallocated=10.2gb, maxmemallocated=20.1gb
[2026-12-01 13:19:02,123] [info] [engine.py:1234:_configure_optimizer] using client optimizer as basic optimizer
[rank0]:[titan] 2026-12-01 13:19:02,123 - root - info - step: 10  loss:  7.1234  grad_norm:  1.2345  memory: 45.67gib(57.67%)  tps: 5,678  tflops: 234.56  mfu: 23.46%
completed step: 10, seconds: 1.234, tflop/s/device: 123.4, tokens/s/device: 1234.5, total_weights: 65536, loss: 10.123
epoch 0:  10%|#         | 10/100 [00:10<01:30, v_num=0, train_loss=2.345, train_step_timing in s=1.23]
info 2026-12-01 13:19:02 [train.py:100] training step 10, loss 2.3, time 1.2s, error rate 0.0, eta 0:10:00
)";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

std::string_view background() { return kText; }

std::size_t background_count(std::string_view text) {
  if (text.empty()) return 0;
  std::string folded(text);
  for (char& c : folded) c = lower(c);
  std::size_t count = 0;
  for (std::size_t at = kText.find(folded); at != std::string_view::npos; at = kText.find(folded, at + 1)) ++count;
  return count;
}

}  // namespace triage::signatures
