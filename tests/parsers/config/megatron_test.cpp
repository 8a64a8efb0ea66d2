#include <doctest/doctest.h>

#include <algorithm>

#include "parsers/config/config_file.hpp"
#include "read_log.hpp"

using namespace triage::parsers;
using namespace triage::parsers::test;

TEST_CASE(
    "Megatron-LM's argument block of a recorded run gives exact values with origin and place") {
  const RunConfig config = read_log(data_file("megatron-dense.log"));
  CHECK(differences(
            config,
            "framework=megatron-lm layers=24 hidden=4096 ffn=14336 heads=32 kv_heads=8 "
            "head_dim=128 vocab=128255 padded_vocab=128256 vocab_divisor=128 "
            "tied_embeddings=false gated_mlp=true linear_bias=false qkv_bias=false norm=rmsnorm "
            "qk_norm=false position_embedding=rope max_positions=4096 "
            "mtp_layers=0 experts=0 mla=false seq_length=4096 micro_batch=4 global_batch=32 "
            "gradient_accumulation=1 world=8 tensor_parallel=1 "
            "pipeline_parallel=1 virtual_pipeline=1 context_parallel=1 expert_parallel=1 "
            "data_parallel=8 sequence_parallel=false distributed_optimizer=true "
            "fsdp=none optimizer=adam optimizer_fused=false precision_aware_optimizer=false "
            "main_grads_dtype=fp32 exp_avg_dtype=fp32 dtype=bf16 "
            "recompute=none loss_fusion=none cuda_graphs=none attention=unfused "
            "transformer_impl=local attention_dropout=0 hidden_dropout=0 "
            "overlap_grad_reduce=false grad_accumulation_fusion=false optimizer_offload=false "
            "train_steps=3 dataloader_workers=2 torch_version=2.11.0+cu130 "
            "parameters_per_rank=6285365248 parameters=(unset) fp8=(unset) expert_ffn=(unset) "
            "experts_per_token=(unset) mla_q_rank=(unset) "
            "save_interval=(unset) sliding_window=(unset)") == "");
  REQUIRE(config.find(Key::micro_batch));
  CHECK(config.find(Key::micro_batch)->origin == "megatron arguments");
  CHECK(config.find(Key::micro_batch)->place.file == "test.log");
  CHECK(config.find(Key::micro_batch)->place.line == 485);
  CHECK(config.raw().at("tensor_model_parallel_size").value == "1");
  CHECK(config.raw().size() > 830);
  CHECK(config.conflicts().empty());
}

TEST_CASE("an argument block of 2021, a set -x command and the parameter lines of all ranks") {
  const RunConfig config = read_log(data_file("megatron-2021.log"));
  CHECK(differences(config,
                    "layers=64 hidden=16384 heads=32 seq_length=1024 micro_batch=1 world=256 "
                    "tensor_parallel=4 pipeline_parallel=64 data_parallel=1 dtype=fp16 "
                    "vocab=50257 padded_vocab=50688 recompute=full ffn=65536 head_dim=512 "
                    "parameters_per_rank=805433344") == "");
  CHECK(config.conflicts().empty());
}

TEST_CASE(
    "lines of other ranks and other programs inside the block do not end it; a cut block keeps "
    "what it has") {
  const std::string block =
      "[default0]:------------------------ arguments ------------------------\n"
      "[default0]:  micro_batch_size ................................ 2\n"
      "[default3]:WARNING: something else\n"
      "[default3]:  micro_batch_size ................................ 9\n"
      "[default0]:  num_layers ...................................... 12\n"
      "[default0]:/usr/lib/python3/x.py:3: UserWarning: hm\n"
      "[default0]:  recompute_granularity ........................... selective\n"
      "[default0]:  recompute_modules ............................... ['core_attn', 'moe_act']\n"
      "[default0]:  megatron_fsdp_use_a_name_with_more_than_48_characters  True\n"
      "[default0]:  num_experts ..................................... 8\n"
      "[default0]:  moe_router_topk ................................. 2\n"
      "[default0]:  moe_layer_freq .................................. [0, 1, 1, 1]\n";
  const RunConfig config = read_log(block);
  CHECK(differences(
            config,
            "micro_batch=2 layers=12 recompute=selective recompute_modules=[core_attn,~moe_act] "
            "experts=8 experts_per_token=2 dense_layers=1") == "");
  CHECK(config.raw().contains("megatron_fsdp_use_a_name_with_more_than_48_characters"));
}

TEST_CASE("a restarted run with changed settings: the later block counts and the change is told") {
  const std::string head =
      "------------------------ arguments ------------------------\n  num_layers "
      "...................................... 12\n  seq_length "
      "...................................... 4096\n";
  const std::string tail = "-------------------- end of arguments ---------------------\n";
  const RunConfig config =
      read_log(head + "  micro_batch_size ................................ 4\n" + tail + head +
               "  micro_batch_size ................................ 2\n" + tail);
  CHECK(config.integer(Key::micro_batch) == 2);
  REQUIRE(config.conflicts().size() == 1);
  CHECK(config.conflicts()[0].key == Key::micro_batch);
  CHECK(value_text(config.conflicts()[0].kept.value) == "2");
  CHECK(value_text(config.conflicts()[0].other.value) == "4");
  CHECK(config.conflicts()[0].kept.place.line == 9);
}

TEST_CASE("single lines of Megatron, megatron-core and NeMo") {
  const RunConfig config = read_log(
      "INFO:megatron.core.distributed.distributed_data_parallel:Setting up DistributedDataParallel "
      "with config DistributedDataParallelConfig(grad_reduce_in_fp32=True, "
      "overlap_grad_reduce=True, overlap_param_gather=True, use_distributed_optimizer=True, "
      "num_distributed_optimizer_instances=1, bucket_size=40000000, nccl_ub=False)\n"
      "[NeMo I 2024-08-01 10:00:00 nemo_logging:381] Setting up optimizer with config "
      "OptimizerConfig(optimizer='adam', lr=0.0003, bf16=True, params_dtype=torch.bfloat16, "
      "use_precision_aware_optimizer=True, main_grads_dtype=torch.bfloat16, "
      "exp_avg_dtype=torch.float16, timers=<megatron.core.timers.Timers object at 0x7f>)\n"
      "[NeMo I 2024-08-01 10:00:00 nemo_logging:381] Padded vocab_size: 128256, original "
      "vocab_size: 128250, dummy tokens: 6.\n"
      "[NeMo I 2024-08-01 10:00:00 megatron_init:310] All tensor model parallel group ranks: [[0, "
      "1, 2, 3], [4, 5, 6, 7]]\n"
      "[NeMo I 2024-08-01 10:00:00 megatron_init:320] All pipeline model parallel group ranks: "
      "[[0], [1], [2], [3], [4], [5], [6], [7]]\n"
      "[rank0]:  > number of parameters on (tensor, pipeline) model parallel rank (0 ,0): "
      "2008089600\n"
      "[rank1]:  > number of parameters on (tensor, pipeline) model parallel rank (1 ,0): "
      "2008089700\n"
      "[rank2]:  > number of parameters on (tensor, pipeline) model parallel rank (2 ,0): "
      "2008089600\n");
  CHECK(differences(config,
                    "distributed_optimizer=true overlap_grad_reduce=true overlap_param_gather=true "
                    "ddp_bucket=40000000 optimizer_instances=1 nccl_user_buffers=false optimizer=adam "
                    "precision_aware_optimizer=true main_grads_dtype=bf16 exp_avg_dtype=fp16 "
                    "dtype=bf16 padded_vocab=128256 vocab=128250 tensor_parallel=4 "
                    "pipeline_parallel=1 parameters_per_rank=2008089700 framework=nemo") == "");
}

TEST_CASE("Megatron-LM's options as a command line") {
  const std::vector<std::string> words = {"torchrun",
                                          "--nproc_per_node",
                                          "8",
                                          "--nnodes=2",
                                          "pretrain_gpt.py",
                                          "--num-layers",
                                          "32",
                                          "--hidden-size",
                                          "4096",
                                          "--num-attention-heads",
                                          "32",
                                          "--group-query-attention",
                                          "--num-query-groups",
                                          "8",
                                          "--seq-length",
                                          "8192",
                                          "--micro-batch-size",
                                          "1",
                                          "--global-batch-size",
                                          "128",
                                          "--bf16",
                                          "--tensor-model-parallel-size",
                                          "2",
                                          "--pipeline-model-parallel-size",
                                          "2",
                                          "--num-layers-per-virtual-pipeline-stage",
                                          "4",
                                          "--sequence-parallel",
                                          "--use-distributed-optimizer",
                                          "--num-distributed-optimizer-instances",
                                          "2",
                                          "--swiglu",
                                          "--disable-bias-linear",
                                          "--untie-embeddings-and-output-weights",
                                          "--no-gradient-accumulation-fusion",
                                          "--recompute-granularity",
                                          "selective",
                                          "--recompute-modules",
                                          "core_attn",
                                          "mlp",
                                          "--normalization",
                                          "RMSNorm",
                                          "--vocab-size",
                                          "128000",
                                          "--attention-dropout",
                                          "0",
                                          "--cross-entropy-loss-fusion",
                                          "--cross-entropy-fusion-impl",
                                          "te"};
  const RunConfig config = read_megatron_arguments(words);
  CHECK(differences(
            config,
            "layers=32 hidden=4096 heads=32 kv_heads=8 head_dim=128 ffn=10880 seq_length=8192 "
            "micro_batch=1 global_batch=128 dtype=bf16 tensor_parallel=2 "
            "pipeline_parallel=2 virtual_pipeline=4 sequence_parallel=true "
            "distributed_optimizer=true optimizer_instances=2 gated_mlp=true linear_bias=false tied_embeddings=false "
            "grad_accumulation_fusion=false recompute=selective recompute_modules=[core_attn,~mlp] "
            "norm=rmsnorm vocab=128000 padded_vocab=128000 attention_dropout=0 "
            "hidden_dropout=0.1 loss_fusion=te world=16 data_parallel=4 gradient_accumulation=32 "
            "experts=0 gpus_per_node=8") == "");
  CHECK(config.find(Key::hidden_dropout)->origin == "default of megatron-lm");
  CHECK(config.find(Key::data_parallel)->origin ==
        "derived: world / (tensor x pipeline x context)");
}

TEST_CASE(
    "Megatron Bridge: the summary of non-default values, and the whole configuration as YAML") {
  const RunConfig summary = read_log(
      "\n"
      "======================================================================\n"
      "Configuration Summary (Non-Default Values vs Megatron Core)\n"
      "======================================================================\n"
      "\n"
      "[optimizer] Non-default values (vs Mcore OptimizerConfig):\n"
      "  adam_beta2: 0.95  (Mcore default: 0.999)\n"
      "  use_distributed_optimizer: True  (Mcore default: False)\n"
      "\n"
      "[ddp] Non-default values (vs Mcore DistributedDataParallelConfig):\n"
      "  overlap_grad_reduce: True  (Mcore default: False)\n"
      "\n"
      "[model] Non-default values (vs Mcore TransformerConfig):\n"
      "  num_layers: 48  (Mcore default: 0)\n"
      "  hidden_size: 2048  (Mcore default: 0)\n"
      "  num_attention_heads: 32  (Mcore default: 0)\n"
      "  num_query_groups: 4  (Mcore default: None)\n"
      "  kv_channels: 128  (Mcore default: None)\n"
      "  num_moe_experts: 128  (Mcore default: None)\n"
      "  moe_router_topk: 8  (Mcore default: 2)\n"
      "  moe_ffn_hidden_size: 768  (Mcore default: None)\n"
      "  moe_token_dispatcher_type: 'alltoall'  (Mcore default: 'allgather')\n"
      "  expert_model_parallel_size: 8  (Mcore default: 1)\n"
      "  attention_backend: <AttnBackend.flash: 1>  (Mcore default: <AttnBackend.auto: 5>)\n"
      "  bf16: True  (Mcore default: False)\n"
      "\n"
      "----------------------------------------------------------------------\n"
      "Other Configuration Values:\n"
      "----------------------------------------------------------------------\n"
      "\n"
      "[train]:\n"
      "  global_batch_size: 512\n"
      "  micro_batch_size: 1\n"
      "  train_iters: 50\n"
      "\n"
      "[dataset]:\n"
      "  seq_length: 4096\n"
      "======================================================================\n"
      "micro_batch_size: 77\n");
  CHECK(differences(summary,
                    "framework=megatron-bridge layers=48 hidden=2048 kv_heads=4 head_dim=128 "
                    "experts=128 experts_per_token=8 expert_ffn=768 moe_dispatcher=alltoall "
                    "expert_parallel=8 dtype=bf16 micro_batch=1 global_batch=512 seq_length=4096 "
                    "tensor_parallel=1 recompute=none overlap_grad_reduce=true "
                    "distributed_optimizer=true train_steps=50 attention=flash") == "");
  CHECK(summary.find(Key::recompute)->origin == "default of megatron-core");
  CHECK(summary.find(Key::layers)->place.line == 14);

  const RunConfig yaml = read_log(
      "------- Task Configuration -------\n"
      "_target_: megatron.bridge.training.config.ConfigContainer\n"
      "checkpoint:\n"
      "  _target_: megatron.bridge.training.config.CheckpointConfig\n"
      "  load: null\n"
      "  save_interval: 500\n"
      "ddp:\n"
      "  bucket_size: null\n"
      "  overlap_grad_reduce: true\n"
      "  use_distributed_optimizer: true\n"
      "  use_megatron_fsdp: true\n"
      "  data_parallel_sharding_strategy: optim_grads_params\n"
      "model:\n"
      "  _target_: megatron.bridge.models.llama.llama_provider.Llama3ModelProvider8B\n"
      "  activation_func:\n"
      "    _call_: false\n"
      "    _target_: torch.nn.functional.silu\n"
      "  bf16: true\n"
      "  gated_linear_unit: true\n"
      "  hidden_size: 4096\n"
      "  normalization: RMSNorm\n"
      "  num_layers: 32\n"
      "  num_moe_experts: null\n"
      "  params_dtype:\n"
      "    _call_: false\n"
      "    _target_: torch.bfloat16\n"
      "  recompute_granularity: selective\n"
      "  recompute_modules:\n"
      "  - core_attn\n"
      "  - layernorm\n"
      "  tensor_model_parallel_size: 2\n"
      "  pipeline_model_parallel_size: 1\n"
      "  vision_config:\n"
      "    hidden_size: 1152\n"
      "    depth: 27\n"
      "  vocab_size: 128256\n"
      "peft:\n"
      "  _target_: megatron.bridge.peft.lora.LoRA\n"
      "  dim: 32\n"
      "  target_modules:\n"
      "  - linear_qkv\n"
      "  - linear_proj\n"
      "train:\n"
      "  global_batch_size: 128\n"
      "  micro_batch_size: 2\n"
      "----------------------------------\n"
      "hidden_size: 3\n");
  CHECK(differences(
            yaml,
            "framework=megatron-bridge layers=32 hidden=4096 gated_mlp=true norm=rmsnorm experts=0 "
            "dtype=bf16 recompute=selective recompute_modules=[core_attn,~layernorm] "
            "tensor_parallel=2 micro_batch=2 global_batch=128 fsdp=megatron "
            "fsdp_strategy=optim_grads_params vision_hidden=1152 vision_layers=27 vocab=128256 "
            "lora_rank=32 "
            "lora_targets=[linear_qkv,~linear_proj] save_interval=500") == "");
}

TEST_CASE("a YAML dump behind a container runtime's clock on every line") {
  std::string log;
  for (const char* line :
       {"_target_: megatron.bridge.training.config.ConfigContainer", "dataset:",
        "  sequence_length: 2048", "model:", "  attention_backend:", "    _args_:", "    - 1",
        "    _call_: true", "  num_layers: 16", "  seq_length: 131072",
        "optimizer:", "  overlap_param_gather: false", "train:", "  micro_batch_size: 3"})
    log += "2025-10-06T03:26:20.123456789Z " + std::string(line) + "\n";
  CHECK(differences(read_log(log),
                    "framework=megatron-bridge layers=16 seq_length=2048 micro_batch=3 "
                    "attention=flash overlap_param_gather=(unset)") == "");
}

TEST_CASE("NeMo 1: the experiment configuration, indented by its log formatter") {
  const RunConfig config = read_log(
      "[NeMo I 2023-08-25 15:23:17 megatron_gpt_pretraining:34] \n"
      "    \n"
      "    ************** Experiment configuration ***********\n"
      "[NeMo I 2023-08-25 15:23:17 megatron_gpt_pretraining:35] \n"
      "    name: megatron_gpt\n"
      "    trainer:\n"
      "      devices: 8\n"
      "      num_nodes: 4\n"
      "      precision: bf16\n"
      "      max_steps: 1000\n"
      "    model:\n"
      "      micro_batch_size: 1\n"
      "      global_batch_size: 256\n"
      "      tensor_model_parallel_size: 4\n"
      "      pipeline_model_parallel_size: 2\n"
      "      virtual_pipeline_model_parallel_size: null\n"
      "      encoder_seq_length: 4096\n"
      "      num_layers: 40\n"
      "      hidden_size: 5120\n"
      "      ffn_hidden_size: 13824\n"
      "      num_attention_heads: 40\n"
      "      activation: fast-swiglu\n"
      "      normalization: rmsnorm\n"
      "      activations_checkpoint_granularity: full\n"
      "      activations_checkpoint_method: block\n"
      "      activations_checkpoint_num_layers: 5\n"
      "      sequence_parallel: true\n"
      "      optim:\n"
      "        name: distributed_fused_adam\n"
      "        lr: 0.0001\n"
      "[NeMo I 2023-08-25 15:23:18 megatron_init:234] Rank 0 has data parallel group: [0]\n");
  CHECK(differences(
            config,
            "framework=nemo world=32 gpus_per_node=8 micro_batch=1 global_batch=256 "
            "tensor_parallel=4 pipeline_parallel=2 virtual_pipeline=1 seq_length=4096 layers=40 "
            "hidden=5120 ffn=13824 heads=40 gated_mlp=true norm=rmsnorm recompute=full "
            "recompute_method=block recompute_layers=5 sequence_parallel=true "
            "distributed_optimizer=true dtype=bf16 data_parallel=4 gradient_accumulation=64 "
            "train_steps=1000") == "");
}
