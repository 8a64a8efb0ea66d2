// Lines as programs print them, with their launchers' prefixes, through the whole way of a line: which kind and role the shipped
// rules give them, and which lines of healthy runs must stay silent. Independent of the examples in the rules themselves.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/lines/line.hpp"
#include "parsers/records/prefix.hpp"
#include "signatures/match/matcher.hpp"
#include "signatures/match/rule_reader.hpp"

using namespace triage;
using namespace triage::signatures;

namespace {

const std::shared_ptr<const SignatureSet>& shipped() {
  static const std::shared_ptr<const SignatureSet> set = [] {
    std::vector<parsers::Error> faults;
    return SignatureSet::compile(read_rules(embedded_rule_files()).rules, {}, faults);
  }();
  return set;
}

std::vector<Finding> findings(std::string_view line) {
  Matcher matcher(shipped());
  std::vector<Candidate> candidates;
  std::vector<Finding> out;
  if (matcher.scan(line, candidates) == 0) return out;
  parsers::Peeler peeler(2026);
  parsers::Line whole;
  whole.text = line;
  const parsers::Record record = peeler.peel(whole);
  matcher.match(record, context_of(record), candidates.front().rules, out);
  return out;
}

bool counts(const Finding& finding) {
  return finding.role == Role::root || finding.role == Role::cascade || finding.role == Role::confirmation;
}

struct Row {
  std::string_view line, kind;
  Role role;
};

constexpr Row kFaults[] = {
    // collectives
    {"[rank1]:[E318 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=_ALLGATHER_BASE, NumelIn=4, NumelOut=32, Timeout(ms)=600000) ran for 600050 milliseconds before timing out.", "nccl.timeout", Role::cascade},
    {"[rank4]:[E318 11:22:33.123456789 ProcessGroupNCCL.cpp:1477] [PG ID 1 PG GUID 1 Rank 0] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5", "nccl.remote", Role::cascade},
    {"[rank0]:[E318 ProcessGroupNCCL.cpp:1413] [PG ID 0 PG GUID 0 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=5", "nccl.heartbeat", Role::cascade},
    {"[1,5]<stderr>:node1:2121:2400 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node2<40562>", "nccl.remote", Role::cascade},
    {"[rank1]: NET/IB : Got completion from peer 192.168.1.3<50712> with status=12 opcode=32767 len=0 vendor err 129 (Recv) localGid ::ffff:192.168.1.2", "nccl.net", Role::root},
    {"node1:2121:2400 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out", "nccl.net", Role::root},
    {"node1:2121:2400 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory", "nccl.system", Role::root},
    {"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1275, internal error - please report this issue to the NCCL developers, NCCL version 2.18.5", "nccl.internal", Role::root},
    {"Duplicate GPU detected : rank 3 and rank 2 both on CUDA device 5000", "nccl.usage", Role::root},
    {"0: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=3, OpType=BROADCAST).", "nccl.desync", Role::root},
    {"[rank0]: torch.distributed.DistBackendError: [0] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer", "dist.store", Role::cascade},
    {"torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500).", "dist.rendezvous", Role::root},
    {"torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", "dist.rendezvous", Role::root},
    {"[default3]:[rank3]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:41890", "dist.peer_closed", Role::cascade},
    {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 1800000ms for send operation to complete", "dist.gloo_timeout", Role::cascade},
    {"[rank3]: RuntimeError: create:build/CMakeFiles/torch_npu/compiler_depend.ts:129 HCCL function error: hcclCommInitRootInfoConfig(), error code is 7", "nccl.internal", Role::cascade},
    {"EI0002: [PID: 88] 2025-02-11-07:11:30.100.001 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [3].", "nccl.timeout", Role::cascade},
    {"EI0006: [PID: 88] 2025-02-11-07:11:30.100.001 Getting socket times out. Reason: Remote Rank did not send the data in time.", "nccl.timeout", Role::root},
    {"EI0019: [PID: 88] 2025-02-11-07:11:30.100.001 Failed to enable listening for the host network adapter socket. Reason: The IP address 10.0.0.3 and port 60000 have already been bound.", "dist.rendezvous", Role::root},
    {"RuntimeError: Detected mismatch between collectives on ranks. Rank 5 is running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[64], TensorDtypes=Float), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[32], TensorDtypes=Float).", "nccl.desync", Role::root},
    {"node2:900:988 [4] transport/p2p.cc:275 NCCL WARN Cuda failure 'invalid argument'", "nccl.system", Role::root},
    {"jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0. This usually happens because a task triggered the barrier too early or too slowly.", "dist.rendezvous", Role::root},
    {"RuntimeError: connect() timed out. Original timeout was 1800000 ms.", "dist.rendezvous", Role::root},
    // process ends
    {"E0101 10:00:00.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 3 (pid: 4677) of binary: /usr/bin/python3", "proc.sigkill", Role::confirmation},
    {"[2024-05-01 10:00:00,123] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -6) local_rank: 0 (pid: 1234) of binary: /opt/conda/bin/python", "proc.sigabrt", Role::confirmation},
    {"W1212 03:27:32.718000 4609 torch/distributed/elastic/multiprocessing/api.py:891] Sending process 4675 closing signal SIGTERM", "proc.sigterm", Role::cascade},
    {"[gpu07:3039 :0:3095] Caught signal 11 (Segmentation fault: invalid permissions for mapped object at address 0x7f)", "proc.sigsegv", Role::root},
    {"srun: error: gpu-node-3: tasks 24-31: Segmentation fault (core dumped)", "proc.sigsegv", Role::confirmation},
    {"prterun noticed that process rank 3 with PID 2121 on node gpu7 exited on signal 9 (Killed).", "proc.sigkill", Role::confirmation},
    {"/var/spool/slurmd/job123/slurm_script: line 45: 12345 Killed                  python train.py", "proc.sigkill", Role::confirmation},
    {"Killed", "proc.sigkill", Role::confirmation},
    {"train.sh: line 33:  4242 Bus error               (core dumped) python3 main.py", "proc.sigbus", Role::confirmation},
    {"munmap_chunk(): invalid pointer", "proc.sigabrt", Role::root},
    {"torch.distributed.elastic.multiprocessing.api.SignalException: Process 1713 got signal: 15", "proc.sigterm", Role::confirmation},
    // schedulers
    {"slurmstepd: error: *** JOB 1234 ON gpu-01 CANCELLED AT 2025-01-02T03:04:05 DUE TO PREEMPTION ***", "sched.preempted", Role::root},
    {"srun: error: Node failure on gpu-17", "sched.node_fail", Role::root},
    {"slurmstepd: error: *** JOB 77 ON gpu-01 CANCELLED AT 2025-01-02T03:04:05 ***", "sched.cancelled", Role::root},
    {"=>> PBS: job killed: walltime 3619 exceeded limit 3600", "sched.time_limit", Role::root},
    {"Message:          Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.", "sched.evicted", Role::root},
    // devices
    {"[Tue Mar  4 10:11:12 2025] NVRM: Xid (PCI:0000:4f:00): 45, pid=2121, name=python3, Ch 00000003 caused by previous Xid 95", "gpu.xid.95", Role::root},
    {"RuntimeError: HCCS LINK ERROR. error code is 507057", "cuda.ecc", Role::root},
    {"RuntimeError: /te/common/gemm/cublaslt_gemm.cu:301 in function cublas_gemm: cuBLAS Error: the library was not initialized", "gpu.oom.cublas", Role::root},
    {"[rank2]: RuntimeError: /te/common/fused_attn/fused_attn_fp8.cu:2 in function operator(): cuDNN Error: [cudnn_frontend] Error: No valid engine configs for Matmul_. For more", "env.version", Role::root},
    // numerics, configuration, user code
    {"[rank7]: AssertionError: {'id': 12, 'status': 'INFLIGHT', 'numel': 10, 'ds_numel': 10, 'shape': (10,)}", "user.exception", Role::root},
    {"ValueError: Must flatten tensors with uniform requires_grad when use_orig_params=False", "user.exception", Role::root},
    {"[rank6]: RuntimeError: The state of _OptimStateKey(unflat_param_names=('lm_head.weight',), is_fsdp_managed=True) is empty. This should happen when use_orig_params=True.", "ckpt.mismatch", Role::root},
    {"AssertionError: req MetadataIndex(fqn='optimizer.state.exp_avg.layers.0.weight', offset=torch.Size([0, 0]), index=0) mismatch sizes torch.Size([64, 8]) vs torch.Size([32, 8])", "ckpt.mismatch", Role::root},
    {"[rank5]: RuntimeError: Rank 5, node gpu-7, device 5, iteration 812: Unexpected result nan (message='found NaN in local forward loss calculation')", "num.nan", Role::root},
    {"Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", "num.nan", Role::root},
    {"ValueError: num_attention_heads (12) must be a multiple of tensor_model_parallel_size (8).", "config.divisibility", Role::root},
    {"(TaskRunner pid=4242) ray.exceptions.RaySystemError: System error: No module named 'my_reward'", "env.import", Role::root},
    {"ray.exceptions.RaySystemError: System error: Failed to create placement group 'a1b2c3d4' because name 'pool' already exists.", "config.name", Role::root},
    {"ray.exceptions.RaySystemError: System error: Broken pipe", "sched.node_fail", Role::root},
    {"[rank0]: RuntimeError: strides should be multiple of 16 bytes", "config.alignment", Role::root},
    {"[rank0]: RuntimeError: mat_b strides should be multiple of 16 bytes", "config.alignment", Role::root},
    {"AssertionError: 151643 is not divisible by 4", "config.divisibility", Role::root},
    {"RuntimeError: Expected is_sm80 || is_sm90 || is_sm100 to be true, but got false.", "config.attention", Role::root},
    {"RuntimeError: grouped gemm is not supported on ROCM", "env.version", Role::root},
    {"RuntimeError: torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+", "cuda.no_kernel_image", Role::root},
    {"RuntimeError: Backend fake does not yet support sequence numbers.", "config.backend", Role::root},
    {"[rank0]: torch._dynamo.exc.TorchRuntimeError: Failed running call_function <built-in function add>(*(FakeTensor(..., size=(8,)), FakeTensor(..., size=(9,))), **{}):", "user.exception", Role::root},
    {"torch._dynamo.exc.Unsupported: Attempted to call function marked as skipped", "user.exception", Role::root},
    {"torch._dynamo.exc.InternalTorchDynamoError: RecursionError: maximum recursion depth exceeded", "env.compile", Role::root},
    {"AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 2 * 4", "config.batch_size", Role::root},
    {"pretrain_gpt.py: error: unrecognized arguments: --use-flash-attn-v3", "config.arguments", Role::root},
    {"[rank0]: RuntimeError: mat1 and mat2 shapes cannot be multiplied (4096x512 and 1024x4096)", "user.exception", Role::root},
    {"RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!", "user.exception.device", Role::root},
    {"[rank0]: RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", "user.exception.device", Role::root},
    {"[rank0]: RuntimeError: Input type (CUDABFloat16Type) and weight type (torch.cuda.HalfTensor) should be the same", "user.exception.dtype", Role::root},
    {"[rank0]: RuntimeError: Input type (float) and bias type (c10::Half) should be the same", "user.exception.dtype", Role::root},
    {"[rank3]: RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::BFloat16", "user.exception.dtype", Role::root},
    {"[rank3]: RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float", "user.exception.dtype", Role::root},
    {"[rank5]: RuntimeError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error", "gpu.nvlink", Role::root},
    {"[rank593]: torch.AcceleratorError: CUDA error: context is destroyed", "cuda.init", Role::root},
    {"[rank0]: RuntimeError: Checkpoint background process is dead. Exit code: 1", "proc.exit", Role::root},
    {"subprocess.CalledProcessError: Command '['/usr/bin/python3', 'train.py']' died with <Signals.SIGHUP: 1>.", "proc.sighup", Role::confirmation},
    {"Runtime Error: floatingPointError: Loss became infinite or NaN at iteration=42!", "num.nan", Role::root},
    {"[rank2]:     assert metadata is not None", "ckpt.missing", Role::root},
    {"2024-01-08 13:32:56.555: W external/xla/xla/x.cc:58] INTERNAL: external/xla/xla/service/gpu/nccl_utils.cc:297: NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: invalid usage", "nccl.usage", Role::root},
    {"F tensorflow/core/kernels/random_op_gpu.h:220] Non-OK-status: GpuLaunchKernel(Fill<T>, num_blocks) status: Internal: out of memory", "gpu.oom.driver", Role::root},
    {"1.7e+09 DEBUG events Error pod train-worker-3 container pytorch exitCode: 1 terminated message: x", "proc.exit", Role::confirmation},
    // data, environment, network
    {"datasets.exceptions.DatasetGenerationCastError: An error occurred while generating the dataset", "data.corrupt", Role::root},
    {"datasets.data_files.EmptyDatasetError: The directory at /data/sft doesn't contain any data files", "data.missing", Role::root},
    {"2024-02-06 14:51:05.332 (worker_1) : wandb: ERROR Error communicating with wandb process", "net.hub", Role::root},
    {"torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpa/main.c', '-O3', '-shared', '-fPIC']' returned non-zero exit status 1.", "env.compile", Role::root},
    {"[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '/mnt/data/imagenet/train'", "data.missing", Role::root},
    {"PIL.UnidentifiedImageError: cannot identify image file '/data/x.jpg'", "data.corrupt", Role::root},
    {"IndexError: index out of range in self", "data.index", Role::root},
    {"[rank1]: ValueError: Image features and image tokens do not match: tokens: 1300, features 2600", "data.multimodal", Role::root},
    {"RuntimeError: Failed: Assertion error /opt/DeepEP/csrc/deep_ep.cpp:640 'num_rdma_bytes > 0'", "config.kernel", Role::root},
    {"Assertion failed: /opt/DeepEP/csrc/kernels/intranode.cu:88, condition: recv_offset >= 0", "cuda.device_assert", Role::root},
    {"Error invalid configuration argument at line 90 in file /src/bitsandbytes/csrc/ops.cu", "cuda.launch_failure", Role::root},
    {"Message: The node was low on resource: memory. Container train was using 90Gi, which exceeds its request of 0.", "host.oom.k8s", Role::root},
    {"ModuleNotFoundError: No module named 'transformer_engine'", "env.import", Role::root},
    {"ImportError: /x/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops9_pad_enum4callE", "env.version", Role::root},
    {"RuntimeError: Failed to find C compiler. Please specify via CC environment variable.", "env.compile", Role::root},
    {"huggingface_hub.utils._errors.LocalEntryNotFoundError: Connection error, and we cannot find the requested files in the disk cache.", "net.hub", Role::root},
    {"OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files", "net.hub", Role::root},
};

constexpr std::string_view kSilent[] = {
    " iteration        2/    1000 | elapsed time per iteration (ms): 128917.0 | learning rate: 3.750E-05 | lm loss: 1.251770E+01 | number of nan iterations:   0 |",
    "  check_for_nan_in_loss_and_grad .................. True",
    "  exit_signal_handler ............................. False",
    "[INFO] [config.py:752:print]   checkpoint_tag_validation_fail  False",
    "[W socket.cpp:426] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).",
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node0]:29500 (errno: 111 - Connection refused).",
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded",
    "[rank0]:[W1203 10:00:00.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
    "'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), '(Request ID: 7d76f590)')' thrown while requesting HEAD https://huggingface.co/x/resolve/main/config.json",
    "wandb: Network error (ConnectionError), entering retry loop.",
    "node1:10:20 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
    "worker-0:301:382 [3] NCCL INFO [Service thread] Connection closed by localRank 3",
    "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
    "/opt/conda/lib/python3.8/site-packages/torch/cuda/memory.py:373: FutureWarning: torch.cuda.memory_cached has been renamed to torch.cuda.memory_reserved",
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    "Token indices sequence length is longer than the specified maximum sequence length for this model (4097 > 2048). Running this sequence through the model will result in indexing errors",
    "    except KeyboardInterrupt:",
    "from torch.distributed.elastic.multiprocessing.errors import record",
    "Consider increasing the timeout to avoid a timeout error.",
    "[exiting program at iteration 5000] datetime: 2025-01-02 03:04:05 ",
    "Killing subprocess 43950",
    "Invalidate trace cache @ step 0 and module 12: cache has only 12 modules",
    "wandb: ERROR Error while calling W&B API: run x was previously created and deleted (<Response [409]>)",
    "/opt/conda/lib/python3.10/site-packages/bitsandbytes/cextension.py:34: UserWarning: The installed version of bitsandbytes was compiled without GPU support.",
    "UserWarning: optim_state[_OptimStateKey(unflat_param_names=('w',), is_fsdp_managed=True)] is not on rank1.",
    "[Gloo] Rank 0 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7",
    "[2025-06-17 23:04:48] server_args=ServerArgs(model_path='x', watchdog_timeout=300, download_dir=None)",
    "INFO:jax._src.xla_bridge:Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so",
};

}  // namespace

TEST_CASE("lines of known faults get their kind and role") {
  REQUIRE(shipped());
  for (const Row& row : kFaults) {
    const std::string line(row.line);
    INFO(line);
    std::string got;
    bool found = false;
    for (const Finding& finding : findings(row.line)) {
      if (counts(finding)) got += finding.rule + " " + finding.kind + " " + std::string(role_name(finding.role)) + "; ";
      found = found || (finding.kind == row.kind && finding.role == row.role);
    }
    INFO(got);
    CHECK(found);
  }
}

TEST_CASE("a line of a known fault fires one kind of root only") {
  REQUIRE(shipped());
  for (const Row& row : kFaults) {
    const std::string line(row.line);
    INFO(line);
    for (const Finding& finding : findings(row.line))
      if (finding.role == Role::root) CHECK(finding.kind == row.kind);
  }
}

TEST_CASE("lines of healthy runs fire no fault") {
  REQUIRE(shipped());
  for (const std::string_view text : kSilent) {
    const std::string line(text);
    INFO(line);
    std::string got;
    for (const Finding& finding : findings(text))
      if (counts(finding)) got += finding.rule + " ";
    CHECK(got == "");
  }
}
