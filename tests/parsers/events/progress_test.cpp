#include <doctest/doctest.h>

#include "parsers/base/quantity.hpp"
#include "support.hpp"

#include <cmath>

using namespace triage::parsers;

namespace {

struct Row {
  std::string line, printer;
  std::optional<std::int64_t> iteration, total;
  std::optional<double> loss, grad_norm;
  bool bad = false;
};

std::optional<Progress> progress(std::string_view line) {
  std::optional<Progress> found;
  for_each_record(line, [&](const Record& record) {
    if (auto one = read_progress(record)) found = one;
  });
  return found;
}
std::optional<MemoryReport> report(std::string_view line) {
  std::optional<MemoryReport> found;
  for_each_record(line, [&](const Record& record) {
    if (auto one = read_memory_report(record)) found = one;
  });
  return found;
}
bool holds_one(std::string_view line, std::span<const std::string_view> literals) {
  for (const auto literal : literals)
    if (line.find(literal) != std::string_view::npos) return true;
  return false;
}

const std::optional<std::int64_t> kNone;
const std::optional<double> kNo;
const std::vector<Row> kRows{
    {" [2026-12-01 12:48:51.861427] iteration        2/       4 | consumed samples:            4 | elapsed time per iteration (ms): 1327.6 | learning "
     "rate: 5.500000E-05 | global batch size:     2 | lm loss: 1.102340E+01 | loss scale: 1.0 | grad norm: 12.568 | number of skipped iterations:   0 "
     "| number of nan iterations:   0 |",
     "megatron", 2, 4, 11.0234, 12.568},
    {" iteration       10/    1000 | consumed samples:           40 | elapsed time per iteration (ms): 19932.4 | learning rate: 0.000E+00 | global "
     "batch size:     4 | loss scale: 8388608.0 | number of skipped iterations:  10 | number of nan iterations:   0 |",
     "megatron", 10, 1000, kNo, kNo},
    {" iteration       11/    1000 | elapsed time per iteration (ms): 19932.4 | lm loss: nan | grad norm: nan | number of nan iterations:   1 |",
     "megatron", 11, 1000, std::nan(""), std::nan(""), true},
    {" iteration       12/    1000 | elapsed time per iteration (ms): 19932.4 | lm loss: 1.0E+00 | number of nan iterations:   2 |", "megatron", 12,
     1000, 1.0, kNo, true},
    {"2024-05-01 10:00:00 | INFO | train_inner | {\"epoch\": 1, \"update\": 0.52, \"loss\": \"9.25\", \"ppl\": \"609.2\", \"wps\": \"30122\", "
     "\"num_updates\": \"200\", \"lr\": \"2.5e-05\", \"gnorm\": \"1.5\", \"loss_scale\": \"128\"}",
     "fairseq", 200, kNone, 9.25, 1.5},
    {"2024-05-01 10:00:00 | INFO | train_inner | {\"epoch\": 1, \"update\": 0.52, \"loss\": \"nan\", \"num_updates\": \"300\", \"gnorm\": \"nan\"}",
     "fairseq", 300, kNone, std::nan(""), std::nan(""), true},
    {"2022-02-09 20:28:32,418 - mmdet - INFO - Epoch [2][50/700]\tlr: 5.000e-05, eta: 2:15:01, time: 0.396, memory: 4127, loss_cls: 0.5, loss: 1.25",
     "openmmlab", 750, kNone, 1.25, kNo},
    {"05/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][ 50/700]  lr: 5.0000e-05  eta: 2:15:01  time: 0.3  memory: 4127  grad_norm: 2.5  loss: nan",
     "openmmlab", 50, kNone, std::nan(""), 2.5, true},
    {"100/100 [==============================] - 332s 3s/step - loss: 0.25 - val_loss: 0.5", "keras", kNone, kNone, 0.25, kNo},
    {"[default0]:Training epoch 0, iteration 3/9 | lr: 1e-05 | global_batch_size: 8 | global_step: 3 | reduced_train_loss: 10.9 | train_step_timing in "
     "s: 2.1 | consumed_samples: 32",
     "nemo", 3, 9, 10.9, kNo},
    {"Epoch 0: :  10%|█         | 3/30 [00:10<01:30, v_num=0, reduced_train_loss=10.90, global_step=2.000, train_step_timing in s=1.2, 3.30s/it]", "nemo",
     3, 30, 10.9, kNo},
    {"Epoch 0: :   0%|          | 1/300 [00:21<1:47:24, v_num=, reduced_train_loss=10.90, global_step=0.000, train_step_timing in s=21.50]", "nemo", 1, 300,
     10.9, kNo},
    {"  3%|▎         | 10/300 [00:01<00:40,  1.20it/s]{'loss': 1.25, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.1}", "huggingface", 10, 300, 1.25,
     0.5},
    {"Epoch 1: : 17it [00:04,  4.36s/it, v_num=d3c7, reduced_train_loss=0.674, global_step=1.000, consumed_samples=128.0]", "nemo", 17, kNone, 0.674, kNo},
    {"step:10 - train/loss:1.5 - train/lr(1e-3):0.01", "verl", 10, kNone, 1.5, kNo},
    {"Epoch 1:  10%|█         | 3/30 [00:10<01:30,  0.30it/s, v_num=0, train_loss=2.5]", "lightning", 3, 30, 2.5, kNo},
    {"[2021-05-25 06:38:26,358] [INFO] [logging.py:60:log_dist] [Rank 0] step=10, skipped=0, lr=[5e-05], mom=[[0.9, 0.999]]", "deepspeed", 10, kNone, kNo,
     kNo},
    {"steps: 20 loss: 3.4000 iter time (s): 2.100 samples/sec: 3.200", "deepspeed", 20, kNone, 3.4, kNo},
    {"[rank0]:[titan] 2025-03-01 10:00:00,123 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.1309  \x1b[38;2;180;60;0mgrad_norm:  1.5000  "
     "\x1b[36mmemory:  2.50GiB(3.00%)  \x1b[34mtps: 1,234  \x1b[36mtflops: 2.00  \x1b[35mmfu: 0.50%\x1b[39m",
     "torchtitan", 1, kNone, 8.1309, 1.5},
    {"{'loss': 1.3641, 'grad_norm': 0.5, 'learning_rate': 4.815273327803183e-08, 'epoch': 0.97}", "huggingface", kNone, kNone, 1.3641, 0.5},
    {"{'loss': '2.1', 'grad_norm': '1.5', 'learning_rate': '5e-05', 'epoch': '0.01'}", "huggingface", kNone, kNone, 2.1, 1.5},
    {"{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.01}", "huggingface", kNone, kNone, 0.0, std::nan(""), true},
    {"  6%|6         | 86/1398 [1:28:30<24:17:14, 66.64s/it]", "tqdm", 86, 1398, kNo, kNo},
    {" 19%|█▉        | 3/16 [03:00<12:56, 59.72s/it]", "tqdm", 3, 16, kNo, kNo},
    {"Train epoch [1/1]:  88%|████████▊ | 7/8 [01:46<00:14, 14.28s/it, pg=-0.795, rm=0.525]", "tqdm", 7, 8, kNo, kNo},
    {"(TaskRunner pid=12) step:1 - global_seqlen/min:512.000 - actor/pg_loss:np.float64(0.5) - actor/grad_norm:0.25 - timing_s/step:12.5", "verl", 1, kNone,
     0.5, 0.25},
    {"completed step: 3, seconds: 1.234, TFLOP/s/device: 100.000, Tokens/s/device: 5.000, total_weights: 8192, loss: 10.870", "maxtext", 3, kNone, 10.87, kNo},
    {"step 4 loss 0.0019", "generic", 4, kNone, 0.0019, kNo},
    {"step 1/3 loss 10.7871 allocated 2.31 GiB peak 14.96 GiB reserved 16.30 GiB", "generic", 1, 3, 10.7871, kNo},
    {"iter 3436 step 53: loss 2.9911, iter time: 400.10ms", "generic", 53, kNone, 2.9911, kNo},
    {"Epoch 1, Step 100/1000, Loss: 2.345", "generic", 100, 1000, 2.345, kNo},
    {"[rank0] step 3 done", "generic", 3, kNone, kNo, kNo},
};

}  // namespace

TEST_CASE("read_progress reads a step of every framework") {
  for (const Row& row : kRows) {
    CAPTURE(row.line);
    const auto found = progress(row.line);
    CHECK(found.has_value());
    CHECK(holds_one(row.line, progress_literals()));
    if (!found) continue;
    CHECK(found->printer == row.printer);
    CHECK((found->iteration == row.iteration));
    CHECK((found->total == row.total));
    CHECK(found->loss.has_value() == row.loss.has_value());
    if (row.loss && std::isfinite(*row.loss)) CHECK(*found->loss == doctest::Approx(*row.loss));
    CHECK(found->grad_norm.has_value() == row.grad_norm.has_value());
    if (row.grad_norm && std::isfinite(*row.grad_norm)) CHECK(*found->grad_norm == doctest::Approx(*row.grad_norm));
    CHECK(found->bad_number == row.bad);
  }
}

TEST_CASE("the time of a step is in seconds") {
  CHECK(*progress(kRows[0].line)->step_seconds == doctest::Approx(1.3276));
  CHECK(*progress("  6%|6         | 86/1398 [1:28:30<24:17:14, 66.64s/it]")->step_seconds == doctest::Approx(66.64));
  CHECK(*progress("  6%|6         | 86/1398 [1:28<24:17:14,  2.00it/s]")->step_seconds == doctest::Approx(0.5));
}

TEST_CASE("what is no completed step gives no progress") {
  for (const char* line :
       {"Loading checkpoint shards:  42%|████      | 16/38 [00:14<00:19,  1.13it/s]", "  0%|          | 0/16 [00:00<?, ?it/s]",
        "Tokenizing train dataset (num_proc=8):  10%|█         | 100/1000 [00:01<00:09, 100.00it/s]", "Map: 100%|██████████| 10/10 [00:00<00:00, 99.0 examples/s]",
        "Generating train split: 100it [00:01, 99.00it/s]", "Validation: : 17it [00:04,  4.36s/it]", "Evaluating:  10%|█         | 1/10 [00:01<00:09,  1.00it/s]", "model.safetensors: 100%|██████████| 1.0G/1.0G [00:10<00:00, 100MB/s]",
        "[2021-05-25 06:38:26,358] [INFO] [logging.py:60:log_dist] [Rank 0] step=0, skipped=0, lr=[5e-05], mom=[[0.9, 0.999]]",
        "{'train_runtime': 919.097, 'train_samples_per_second': 1.088, 'train_steps_per_second': 0.017, 'epoch': 1.0}",
        "{'eval_loss': 1.2, 'eval_runtime': 3.0, 'epoch': 1.0}", "validate step:  5  loss:  8.1  memory:  2.50GiB(3.00%)  tps: 1,234",
        "    loss = ddp(x).square().mean(); loss.backward(); o.step(); o.zero_grad()", " validation loss at iteration 10 | lm loss value: 1.0E+01 |",
        "  traceback : Traceback (most recent call last):", "[before the start of training step] datetime: 2021-05-24 09:40:38",
        "Overwriting rerun_state_machine.current_iteration from -1 to 0...", "  loss_scale_window .............................. 1000",
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #3 invocation #2 (message='found NaN in local grad norm')"}) {
    CAPTURE(std::string(line));
    CHECK_FALSE(progress(line).has_value());
  }
}

TEST_CASE("a recorded run of four ranks shows the steps it completed") {
  std::vector<std::int64_t> steps;
  for_each_record(data_file("ranks-oom.log"), [&](const Record& record) {
    if (const auto step = read_progress(record); step && step->iteration) steps.push_back(*step->iteration);
  });
  REQUIRE_FALSE(steps.empty());
  CHECK(steps == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("read_memory_report reads every framework's report, to the byte") {
  const auto megatron = report("[Rank 20] (after 20 iterations) memory (MB) | allocated: 15426.42578125 | max allocated: 18045.68359375 | reserved: 22290.0 | max reserved: 22290.0");
  REQUIRE(megatron.has_value());
  CHECK((megatron->rank == 20));
  CHECK((megatron->iteration == 20));
  CHECK((megatron->allocated == Bytes(16175779840)));
  CHECK((megatron->max_allocated == Bytes(18922270720)));
  CHECK((megatron->reserved == Bytes(22290LL * 1048576)));
  CHECK(megatron->printer == "megatron");
  const auto bridge = report("[Rank 1] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 63.66 | mem-active-gigabytes: 63.66 | mem-inactive-gigabytes: 20.563 | "
                             "mem-reserved-gigabytes: 182.2 | mem-max-allocated-gigabytes: 153.4 | mem-max-active-gigabytes: 169.96 | mem-max-inactive-gigabytes: 32.473 | "
                             "mem-max-reserved-gigabytes: 182.2 | mem-alloc-retires: 3 | mem-allocated-count: 507");
  REQUIRE(bridge.has_value());
  CHECK((bridge->allocated == Bytes(63'660'000'000)));
  CHECK((bridge->max_allocated == Bytes(153'400'000'000)));
  CHECK((bridge->max_reserved == Bytes(182'200'000'000)));
  CHECK((bridge->retries == 3));
  const auto deepspeed = report("[2021-05-25 06:37:59,223] [INFO] [utils.py:589:see_memory_usage] MA 3.62 GB         Max_MA 4.93 GB         CA 6.08 GB         Max_CA 6 GB ");
  REQUIRE(deepspeed.has_value());
  CHECK((deepspeed->allocated == read_bytes("3.62 GiB")));
  CHECK((deepspeed->max_allocated == read_bytes("4.93 GiB")));
  CHECK((deepspeed->reserved == read_bytes("6.08 GiB")));
  CHECK((deepspeed->max_reserved == read_bytes("6 GiB")));
  const auto titan = report("step:  7  loss:  8.1309  grad_norm:  1.5000  memory:  2.50GiB(3.00%)  tps: 1,234  tflops: 2.00");
  REQUIRE(titan.has_value());
  CHECK((titan->max_reserved == read_bytes("2.50 GiB")));
  CHECK((titan->iteration == 7));
  const auto generic = report("step 2/3 loss 10.7748 allocated 2.31 GiB peak 16.49 GiB reserved 18.26 GiB");
  REQUIRE(generic.has_value());
  CHECK((generic->allocated == read_bytes("2.31 GiB")));
  CHECK((generic->max_allocated == read_bytes("16.49 GiB")));
  CHECK((generic->reserved == read_bytes("18.26 GiB")));
  const auto verl = report("step:1 - perf/max_memory_allocated_gb:12.5 - perf/max_memory_reserved_gb:20.0 - actor/grad_norm:0.2");
  REQUIRE(verl.has_value());
  CHECK((verl->max_allocated == read_bytes("12.5 GiB")));
  const auto jax = report("\tUsing (GB) 10.0 / 16.0 (62.500000%) on TPU_0(process=0,(0,0,0,0))");
  REQUIRE(jax.has_value());
  CHECK((jax->allocated == read_bytes("10 GiB")));
  CHECK((jax->capacity == read_bytes("16 GiB")));
  for (const char* line :
       {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 537.12 MiB is free.",
        "CUDA graphs can take additional 1~3 GiB memory per GPU. If you are running out of memory, consider", "memory: the user's guide",
        "Activation memory footprint per transformer layer (precise, without SP): 136.0 MB", "step 4 loss 0.0019"})
    CHECK_FALSE(report(line).has_value());
}

TEST_CASE("literals are few and long") {
  CHECK(progress_literals().size() <= 20);
  CHECK(memory_report_literals().size() <= 12);
  for (const auto literal : progress_literals()) CHECK(literal.size() >= 5);
  for (const auto literal : memory_report_literals()) CHECK(literal.size() >= 6);
}
