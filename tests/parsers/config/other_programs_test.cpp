#include <doctest/doctest.h>

#include "read_log.hpp"

using namespace triage::parsers;
using namespace triage::parsers::test;

TEST_CASE(
    "a recorded Hugging Face run with DeepSpeed ZeRO-3: arguments, model configuration, "
    "DeepSpeed's print, trainer lines") {
  const RunConfig config = read_log(data_file("hf-deepspeed.log"));
  CHECK(
      differences(
          config,
          "framework=huggingface micro_batch=4 eval_micro_batch=8 gradient_accumulation=1 "
          "global_batch=64 world=16 data_parallel=16 zero_stage=3 zero_offload_optimizer=cpu "
          "zero_offload_param=none optimizer_offload=true dtype=fp16 autocast=fp16 optimizer=adamw "
          "reduce_bucket=51380220 allgather_bucket=500000000 recompute=full train_steps=16 "
          "dataloader_workers=0 pin_memory=true save_interval=500 model_type=gpt2 vocab=50257 "
          "max_positions=1024 layers=40 hidden=7168 heads=32 kv_heads=32 ffn=28672 head_dim=224") ==
      "");
  CHECK(config.frameworks() == std::vector<std::string>{"huggingface", "deepspeed"});
  CHECK(config.raw().at("zero_optimization.stage").value == "3");
  CHECK(config.raw().at("per_device_train_batch_size").value == "4");
}

TEST_CASE("TrainingArguments over many lines, with FSDP") {
  const RunConfig config = read_log(
      "INFO:__main__:Training/evaluation parameters TrainingArguments(\n"
      "_n_gpu=1,\n"
      "accelerator_config={'split_batches': False, 'dispatch_batches': None, 'even_batches': "
      "True},\n"
      "adafactor=False,\n"
      "bf16=True,\n"
      "dataloader_num_workers=4,\n"
      "deepspeed=None,\n"
      "fsdp=[<FSDPOption.FULL_SHARD: 'full_shard'>, <FSDPOption.AUTO_WRAP: 'auto_wrap'>],\n"
      "fsdp_config={'min_num_params': 0, 'transformer_layer_cls_to_wrap': ['LlamaDecoderLayer'], "
      "'xla': False},\n"
      "gradient_accumulation_steps=8,\n"
      "gradient_checkpointing=True,\n"
      "lr_scheduler_type=SchedulerType.COSINE,\n"
      "max_steps=-1,\n"
      "optim=OptimizerNames.ADAMW_TORCH_FUSED,\n"
      "per_device_eval_batch_size=8,\n"
      "per_device_train_batch_size=2,\n"
      "save_steps=500,\n"
      "save_strategy=SaveStrategy.NO,\n"
      "torch_compile=False,\n"
      "use_liger_kernel=True,\n"
      ")\n"
      "per_device_train_batch_size=99,\n");
  CHECK(differences(
            config,
            "framework=huggingface micro_batch=2 eval_micro_batch=8 gradient_accumulation=8 "
            "recompute=full optimizer=adamw optimizer_fused=true autocast=bf16 fsdp=fsdp1 "
            "fsdp_strategy=FULL_SHARD fsdp_wrap=LlamaDecoderLayer compile=false loss_fusion=liger "
            "dataloader_workers=4 train_steps=(unset) save_interval=(unset) dtype=(unset)") == "");
}

TEST_CASE("source code that calls TrainingArguments is not a configuration") {
  CHECK(read_log("    training_args = TrainingArguments(\n        output_dir='x',\n        "
                 "per_device_train_batch_size=16,\n        a=1,\n        b=2,\n        c=3)\n")
            .empty());
}

TEST_CASE("model configurations: mixture of experts with multi-latent attention, vision-language") {
  const RunConfig moe = read_log(
      "[INFO|configuration_utils.py:553] 2025-05-25 06:37:53,744 >> Model config DeepseekV3Config "
      "{\n"
      "  \"architectures\": [\n    \"DeepseekV3ForCausalLM\"\n  ],\n"
      "  \"first_k_dense_replace\": 3,\n  \"hidden_act\": \"silu\",\n  \"hidden_size\": 7168,\n  "
      "\"intermediate_size\": 18432,\n  \"kv_lora_rank\": 512,\n"
      "  \"model_type\": \"deepseek_v3\",\n  \"moe_intermediate_size\": 2048,\n  "
      "\"n_routed_experts\": 256,\n  \"n_shared_experts\": 1,\n  \"num_attention_heads\": 128,\n"
      "  \"num_experts_per_tok\": 8,\n  \"num_hidden_layers\": 61,\n  \"num_key_value_heads\": "
      "128,\n  \"num_nextn_predict_layers\": 1,\n  \"q_lora_rank\": 1536,\n"
      "  \"qk_nope_head_dim\": 128,\n  \"qk_rope_head_dim\": 64,\n  \"rms_norm_eps\": 1e-06,\n  "
      "\"tie_word_embeddings\": false,\n  \"torch_dtype\": \"bfloat16\",\n"
      "  \"v_head_dim\": 128,\n  \"vocab_size\": 129280\n}\n");
  CHECK(
      differences(
          moe,
          "model_type=deepseek_v3 layers=61 hidden=7168 ffn=18432 heads=128 experts=256 "
          "experts_per_token=8 expert_ffn=2048 shared_expert_ffn=2048 dense_layers=3 mla=true "
          "mla_q_rank=1536 mla_kv_rank=512 mla_nope_dim=128 mla_rope_dim=64 mla_v_dim=128 "
          "mtp_layers=1 norm=rmsnorm gated_mlp=true tied_embeddings=false dtype=bf16 vocab=129280 "
          "head_dim=(unset)") == "");
}

TEST_CASE(
    "verl's print of the actor's model configuration, and the ranks that trainer lines imply") {
  const RunConfig config = read_log(
      "(WorkerDict pid=9) Model config after override: Qwen2Config {\n(WorkerDict pid=9)   "
      "\"hidden_size\": 896,\n(WorkerDict pid=9)   \"model_type\": \"qwen2\",\n"
      "(WorkerDict pid=9)   \"num_hidden_layers\": 24\n(WorkerDict pid=9) }\n"
      "  Instantaneous batch size per device = 2\n  Total train batch size (w. parallel, "
      "distributed & accumulation) = 64\n  Gradient Accumulation steps = 4\n");
  CHECK(differences(config,
                    "hidden=896 layers=24 qkv_bias=true gated_mlp=true micro_batch=2 "
                    "global_batch=64 gradient_accumulation=4 data_parallel=8 world=8") == "");
}

TEST_CASE("torchtitan: lines of both generations and the configuration as JSON") {
  const RunConfig now = read_log(
      "[rank0]:[titan] 2025-11-25 19:44:50,000 - root - INFO - Building device mesh with "
      "parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=4, etp=1\n"
      "[rank0]:[titan] 2025-11-25 19:44:51,000 - root - INFO - CUDA capacity: NVIDIA H100 80GB "
      "HBM3 with 79.11GiB memory\n"
      "[rank0]:[titan] 2025-11-25 19:44:52,000 - root - INFO - Total parameter count: dense "
      "8,030,261,248, sparse 1,000, active 8,030,261,248\n"
      "[rank0]:[titan] 2025-11-25 19:44:53,000 - root - INFO - Applied SelectiveAC activation "
      "checkpointing to the model\n"
      "[rank0]:[titan] 2025-11-25 19:44:54,000 - root - INFO - Compiling each TransformerBlock "
      "with torch.compile\n"
      "[rank0]:[titan] 2025-11-25 19:44:54,000 - root - INFO - Applied FSDP to the model\n"
      "[rank0]:[titan] 2025-11-25 19:44:55,000 - root - INFO - Trainer is initialized with local "
      "batch size 8, global batch size 64, gradient accumulation steps 2, sequence length 2048, "
      "total steps 10 (warmup 2)\n");
  CHECK(differences(
            now,
            "framework=torchtitan pipeline_parallel=2 data_parallel_replicate=1 "
            "data_parallel_shard=4 context_parallel=1 tensor_parallel=2 expert_parallel=4 "
            "gpu=NVIDIA~H100~80GB~HBM3 "
            "gpu_capacity_bytes=84943715697 parameters=8030262248 recompute=selective compile=true "
            "fsdp=fsdp2 micro_batch=8 global_batch=64 gradient_accumulation=2 seq_length=2048 "
            "train_steps=10 data_parallel=4 world=16") == "");
  const RunConfig before = read_log(
      "[rank0]:2024-09-02 14:00:00,100 - root - INFO - Building 2-D device mesh with ['dp_shard', "
      "'tp'], [4, 2]\n"
      "[rank0]:2024-09-02 14:00:01,100 - root - INFO - Model llama3 8B size: 8,030,261,248 total "
      "parameters\n"
      "[rank0]:2024-09-02 14:00:01,100 - root - INFO - Applied full activation checkpointing to "
      "the model\n");
  CHECK(
      differences(before,
                  "data_parallel_shard=4 tensor_parallel=2 pipeline_parallel=1 context_parallel=1 "
                  "model_type=llama3~8B parameters=8030261248 recompute=full world=8") == "");
  const RunConfig json = read_log(
      "[titan] 2025-08-21 10:00:00,000 - root - INFO - Running with configs: {\n"
      "  \"model\": {\n    \"name\": \"llama3\",\n    \"flavor\": \"8B\"\n  },\n"
      "  \"optimizer\": {\n    \"name\": \"AdamW\",\n    \"implementation\": \"fused\"\n  },\n"
      "  \"training\": {\n    \"local_batch_size\": 1,\n    \"global_batch_size\": -1,\n    "
      "\"seq_len\": 8192,\n    \"steps\": 1000,\n    \"enable_cpu_offload\": false,\n"
      "    \"mixed_precision_param\": \"bfloat16\"\n  },\n"
      "  \"parallelism\": {\n    \"data_parallel_shard_degree\": -1,\n    "
      "\"tensor_parallel_degree\": 1\n  },\n"
      "  \"activation_checkpoint\": {\n    \"mode\": \"selective\",\n    \"selective_ac_option\": "
      "\"2\"\n  },\n"
      "  \"compile\": {\n    \"enable\": true,\n    \"components\": [\n      \"model\",\n      "
      "\"loss\"\n    ]\n  }\n}\n");
  CHECK(
      differences(json,
                  "framework=torchtitan model_type=llama3~8B optimizer=adamw optimizer_fused=true "
                  "micro_batch=1 seq_length=8192 train_steps=1000 fsdp_offload=false autocast=bf16 "
                  "tensor_parallel=1 recompute=selective recompute_layers=2 compile=true "
                  "global_batch=(unset) data_parallel_shard=(unset)") == "");
}

TEST_CASE("verl: a dict over many lines behind Ray's prefix, other actors' lines between") {
  const RunConfig config = read_log(
      "(TaskRunner pid=139996) {'actor_rollout_ref': {'actor': {'checkpoint': {'contents': "
      "['model',\n"
      "(TaskRunner pid=139996)                                                              "
      "'extra']},\n"
      "(WorkerDict pid=777) it's another actor's line (with a bracket\n"
      "(TaskRunner pid=139996)                                  'fsdp_config': {'fsdp_size': -1,\n"
      "(TaskRunner pid=139996)                                                  "
      "'optimizer_offload': True,\n"
      "(TaskRunner pid=139996)                                                  'param_offload': "
      "False},\n"
      "(TaskRunner pid=139996)                                  'ppo_micro_batch_size_per_gpu': "
      "4,\n"
      "(TaskRunner pid=139996)                                  'strategy': 'fsdp',\n"
      "(TaskRunner pid=139996)                                  'ulysses_sequence_parallel_size': "
      "2},\n"
      "(TaskRunner pid=139996)                        'model': {'enable_gradient_checkpointing': "
      "True,\n"
      "(TaskRunner pid=139996)                                  'use_remove_padding': True},\n"
      "(TaskRunner pid=139996)                        'rollout': {'gpu_memory_utilization': 0.6,\n"
      "(TaskRunner pid=139996)                                    'tensor_model_parallel_size': "
      "2}},\n"
      "(TaskRunner pid=139996)  'data': {'max_prompt_length': 512, 'max_response_length': 1024},\n"
      "(TaskRunner pid=139996)  'trainer': {'n_gpus_per_node': 8, 'nnodes': 2, 'save_freq': "
      "-1}}\n");
  CHECK(
      differences(
          config,
          "framework=verl fsdp=fsdp1 micro_batch=4 ulysses=2 recompute=full packed_sequences=true "
          "rollout_memory_fraction=0.6 rollout_tensor_parallel=2 optimizer_offload=true "
          "param_offload=false seq_length=1536 world=16 gpus_per_node=8 save_interval=(unset)") ==
      "");
}

TEST_CASE("NeMo-RL: the dict after 'Final config:'") {
  const RunConfig config = read_log(
      "Final config:\n{'cluster': {'gpus_per_node': 8, 'num_nodes': 2},\n 'grpo': "
      "{'max_num_steps': 100},\n 'policy': {'dtensor_cfg': {'activation_checkpointing': True,\n"
      "                            'context_parallel_size': 1,\n                            "
      "'cpu_offload': False,\n                            'enabled': True,\n"
      "                            'tensor_parallel_size': 2},\n            'generation': "
      "{'vllm_cfg': {'gpu_memory_utilization': 0.6,\n"
      "                                        'tensor_parallel_size': 4}},\n            "
      "'max_total_sequence_length': 4096,\n            'megatron_cfg': {'enabled': False},\n"
      "            'precision': 'bfloat16',\n            'train_global_batch_size': 512,\n         "
      "   'train_micro_batch_size': 4}}\n");
  CHECK(
      differences(
          config,
          "framework=nemo-rl fsdp=fsdp2 world=16 gpus_per_node=8 tensor_parallel=2 "
          "context_parallel=1 recompute=full fsdp_offload=false rollout_memory_fraction=0.6 "
          "rollout_tensor_parallel=4 seq_length=4096 dtype=bf16 micro_batch=4 global_batch=512") ==
      "");
  CHECK(read_log("Final config:\nsomething else\n").empty());
}

TEST_CASE("MaxText's Config param lines") {
  std::string log;
  for (const char* line : {"base_emb_dim: 4096",
                           "dtype: bfloat16",
                           "emb_dim: 8192",
                           "head_dim: 128",
                           "ici_fsdp_parallelism: -1",
                           "ici_tensor_parallelism: 1",
                           "max_target_length: 4096",
                           "mlp_activations: ['silu', 'linear']",
                           "mlp_dim: 28672",
                           "model_name: llama2-70b",
                           "num_decoder_layers: 80",
                           "num_experts: 1",
                           "num_kv_heads: 8",
                           "num_query_heads: 64",
                           "opt_type: adamw",
                           "per_device_batch_size: 7.0",
                           "quantization: ",
                           "remat_policy: full",
                           "steps: 30",
                           "vocab_size: 32000",
                           "weight_dtype: float32"})
    log += "I0317 09:59:16.242788 125344476638336 pyconfig.py:413] Config param " +
           std::string(line) + "\n";
  CHECK(differences(read_log(log),
                    "framework=jax layers=80 hidden=8192 ffn=28672 heads=64 kv_heads=8 "
                    "head_dim=128 micro_batch=7 seq_length=4096 recompute=full dtype=fp32 "
                    "autocast=bf16 experts=0 gated_mlp=true "
                    "optimizer=adamw train_steps=30 vocab=32000 tensor_parallel=1 "
                    "data_parallel_shard=(unset)") == "");
}

TEST_CASE("command lines: launchers, list form, hydra; usage texts and advice are not commands") {
  struct Row {
    const char* name;
    const char* line;
    const char* want;
  };
  const Row rows[] = {
      {"torchrun",
       "+ torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size 2 "
       "--micro-batch-size 4 --bf16",
       "tensor_parallel=2 micro_batch=4 world=16 dtype=bf16 framework=megatron-lm"},
      {"list",
       "[2023-04-14 13:11:27,885] [ERROR] [launch.py:434:sigkill_handler] ['/usr/bin/python3', "
       "'-u', 'main.py', '--local_rank=0', '--per_device_train_batch_size', '4', "
       "'--gradient_checkpointing'] exits with return code = -9",
       "micro_batch=4 recompute=full framework=huggingface"},
      {"hydra",
       "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 "
       "actor_rollout_ref.rollout.gpu_memory_utilization=0.4 trainer.nnodes=1 "
       "trainer.n_gpus_per_node=8",
       "micro_batch=8 rollout_memory_fraction=0.4 world=8 framework=verl"},
      {"titan",
       "torchrun --nproc_per_node=8 -m torchtitan.train --training.local_batch_size 2 "
       "--training.seq_len=4096",
       "micro_batch=2 seq_length=4096 framework=torchtitan"},
      {"usage",
       "usage: pretrain_gpt.py [-h] [--micro-batch-size MICRO_BATCH_SIZE] [--num-layers N]",
       "micro_batch=(unset) framework=(unset)"},
      {"advice",
       "Out of memory: lower --micro-batch-size 4 or raise --tensor-model-parallel-size 2",
       "micro_batch=(unset) framework=(unset)"},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) { CHECK(differences(read_log(row.line), row.want) == ""); }
  }
}

TEST_CASE("the allocator's setting is read, the advice of an out-of-memory text is not") {
  CHECK(
      differences(
          read_log(
              "+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512\n"),
          "expandable_segments=true alloc_conf=expandable_segments:True,max_split_size_mb:512") ==
      "");
  CHECK(read_log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. If "
                 "reserved but unallocated memory is large try setting "
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
                 "fragmentation.  See documentation for Memory Management\n")
            .empty());
}

TEST_CASE("single lines of libraries") {
  const RunConfig config = read_log(
      "PyTorch version: 2.4.0+cu121\n"
      "You are using a CUDA device ('NVIDIA A100-SXM4-80GB') that has Tensor Cores. To properly "
      "utilize them\n"
      "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8\n"
      "model: llama layers=16 hidden=4096 vocab=128256 parameters=4.540B dtype=bfloat16\n"
      "trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622\n");
  CHECK(differences(config,
                    "torch_version=2.4.0+cu121 gpu=NVIDIA~A100-SXM4-80GB world=8 "
                    "trainable_parameters=4194304 parameters=6742609920 framework=lightning "
                    "layers=16 hidden=4096 vocab=128256 dtype=bf16") == "");
}
