"""What was measured: a name, a value, a unit, where it was seen. Absent means not measured.

`CATALOG` lists every name there is: what it means, and how to get it where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whyidle.model.evidence import Value
from whyidle.model.finding import CAUSES, Location


@dataclass(frozen=True, slots=True)
class Quantity:
    """A thing that can be measured."""

    unit: str
    meaning: str
    how: str  # how a person gets it where it is missing


GPU = "record with ProfilerActivity.CUDA on a machine with a GPU"
HOST = "record with ProfilerActivity.CPU as well as CUDA"
STEPS = "call prof.step() once per iteration"
SHAPES = "record with record_shapes=True"
STACKS = "record with with_stack=True"
LOADER = "record the loop over the DataLoader, with ProfilerActivity.CPU"
TWO_STEPS = "call prof.step() once per iteration, for at least two"
SIZES = "record two steps or more with a PyTorch that notes the sizes of collectives, or all ranks together"
SAME = "record three steps or more that do the same"
SAME_RANKS = "record all ranks together, in steps that do the same"
SPEEDS = "record collectives of 16 MiB and more on GPUs that whyidle knows the links of, with PyTorch 2.3 or later"
TRAINING = "record forward, backward and Optimizer.step, with ProfilerActivity.CPU as well as CUDA"
RANKS = "record all ranks together, two steps or more"
LOG = "run the job under `whyidle run`"
LOG_WORKERS = "run the job under `whyidle run`, with a DataLoader that has workers"
LOG_GPU = "run the job under `whyidle run`, on a machine with an NVIDIA GPU"
LOG_CUDA = "run the job under `whyidle run`, on a GPU"
LOG_RANKS = "run the job under `whyidle run`, with two ranks or more that take their steps together"
LOOK = "run the job under `whyidle run --workers`"
LINUX = "run the job under `whyidle run`, on Linux"
KNOWN_GPU = "record on a GPU that whyidle knows the peaks of"
KNOWN_SHAPES = "record with record_shapes=True, on a GPU that whyidle knows the peaks of"
CURVE = "record the GPU's utilization for 5 minutes: `nvidia-smi dmon -o DT > gpu.txt`"
CURVE_LONG = "record the GPU's utilization for longer, or more often: `nvidia-smi dmon -o DT > gpu.txt`"
CURVE_GPUS = "record the utilization of all GPUs of the job together: `nvidia-smi dmon -o DT > gpu.txt`"
CURVE_CLOCKS = "record clocks, power and memory, too: `nvidia-smi dmon -s pucvm -o DT > gpu.txt`"
CURVE_ACTIVITY = "record DCGM's activity counters: `dcgmi dmon -e 203,1001,1002,1004,1005 > gpu.txt`"
CURVE_LOG = "give the trainer's own log of its steps, too"
LIVE = "look at the running job: `whyidle watch --pid PID`"
LIVE_STACKS = "look at the running job where py-spy is installed and allowed: `whyidle watch --pid PID`"
MODEL = "record with a PyTorch that notes the GPU's properties (1.9 or later)"

CATALOG: dict[str, Quantity] = {
    # time base
    "window_s": Quantity("s", "length of the judged window, per rank", GPU),
    "steps": Quantity("steps", "iterations in the window", STEPS),
    "step_time_s": Quantity("s", "median step, the first dropped when there are at least four", STEPS),
    "step_time_mean_s": Quantity("s", "mean step", STEPS),
    "gpu_busy_share": Quantity("of window", "union of kernels, copies and fills", GPU),
    "gpu_idle_share": Quantity("of window", "1 - gpu_busy_share", GPU),
    "gpu_span_busy_share": Quantity("of GPU span", "busy from the first to the last GPU operation", GPU),
    "outside_span_share": Quantity("of window", "before the first and after the last GPU operation", GPU),
    **{
        f"idle_{cause}_share": Quantity("of window", f"GPU idle, cause {cause}", GPU if cause == "unknown" else HOST)
        for cause in CAUSES
    },
    # input
    "data_wait_share": Quantity("of window", "in DataLoader.__next__ or a range that loads data, GPU busy or not", LOADER),
    "idle_loader_zero_share": Quantity("of window", "GPU idle while the launching thread makes a batch itself (num_workers=0)", LOADER),
    "idle_loader_workers_share": Quantity("of window", "GPU idle while it waits for a DataLoader's workers", LOADER),
    "idle_data_range_share": Quantity("of window", "GPU idle while it is in the user's own range that loads data", "put torch.profiler.record_function('load_data') around your own loading"),
    "loader_batches_per_step": Quantity("per step", "calls of DataLoader.__next__", STEPS),
    "loader_first_wait_share": Quantity("of idle_loader_workers", "part of that in the first batch of the recording", "record at least two batches, with ProfilerActivity.CPU"),
    "loader_start_waits": Quantity("count", "batches that take about as long as the first, where these recur evenly; else 1", "record at least two batches, with ProfilerActivity.CPU"),
    "loader_start_wait_share": Quantity("of idle_loader_workers", "part of that in these batches", "record at least two batches, with ProfilerActivity.CPU"),
    # copies
    "h2d_share": Quantity("of window", "host-to-device copies", GPU),
    "h2d_exposed_share": Quantity("of window", "the part of them beside which no kernel runs", GPU),
    "d2h_exposed_share": Quantity("of window", "copies back to the host beside which no kernel runs", GPU),
    "h2d_pageable_share": Quantity("of window", "host-to-device copies from pageable memory", GPU),
    "h2d_pageable_exposed_share": Quantity("of window", "the part of them beside which no kernel runs", GPU),
    "h2d_bytes_per_step": Quantity("B/step", "bytes copied to the device", STEPS),
    "h2d_bytes_per_s": Quantity("B/s", "how fast host-to-device copies above 64 KiB are", GPU),
    "h2d_link_share": Quantity("of link", "that, of what the link to the host carries on paper", KNOWN_GPU),
    "d2h_bytes_per_s": Quantity("B/s", "how fast copies back to the host above 64 KiB are", GPU),
    "d2h_link_share": Quantity("of link", "that, of what the link to the host carries on paper", KNOWN_GPU),
    "h2d_small_per_step": Quantity("per step", "host-to-device copies of at most 64 KiB", STEPS),
    "h2d_small_exposed_share": Quantity("of window", "the part of such copies beside which no kernel runs", GPU),
    "h2d_small_lost_share": Quantity("of window", "GPU idle while the host gets such a copy ready, or behind those that it waited for and that a host running ahead would have filled", HOST),
    # waits of the host for the GPU; lost: GPU idle behind them that a host running ahead would have filled
    "sync_scalar_per_step": Quantity("per step", "blocking reads of one value: .item(), float(t), print(t)", STEPS),
    "sync_scalar_lost_share": Quantity("of window", "GPU idle behind them that a host running ahead would have filled", HOST),
    "sync_readback_per_step": Quantity("per step", "copies of tensors back to the host: .cpu(), .tolist(), .numpy()", STEPS),
    "sync_readback_lost_share": Quantity("of window", "GPU idle behind them that a host running ahead would have filled", HOST),
    "sync_data_dependent_per_step": Quantity("per step", "blocking operators on whose data a size or a branch depends: nonzero, unique, masked_select, if t:", STEPS),
    "sync_data_dependent_lost_share": Quantity("of window", "GPU idle behind them that a host running ahead would have filled", HOST),
    "sync_grad_clip_per_step": Quantity("per step", "blocking reads between backward and optimizer step", STEPS),
    "sync_grad_clip_lost_share": Quantity("of window", "GPU idle behind them that a host running ahead would have filled", HOST),
    "sync_upload_per_step": Quantity("per step", "host-to-device copies above 64 KiB", STEPS),
    "sync_upload_lost_share": Quantity("of window", "GPU idle behind those that the host waited for, that a host running ahead would have filled", HOST),
    "sync_framework_per_step": Quantity("per step", "synchronization outside any operator: torch.cuda.synchronize(), a framework's hook", STEPS),
    "sync_framework_lost_share": Quantity("of window", "GPU idle behind it that a host running ahead would have filled", HOST),
    "sync_host_share": Quantity("of window", "GPU idle behind all such waits while the host launches or runs Python", HOST),
    # launches
    "launches_per_step": Quantity("per step", "kernels, copies and fills launched", STEPS),
    "gpu_limited_share": Quantity("of busy", "GPU-busy time that the step waits for: not followed by a gap in which a late host, that had not waited for the GPU, launches next", HOST),
    "kernel_median_s": Quantity("s", "median kernel", GPU),
    "kernel_mean_s": Quantity("s", "mean kernel", GPU),
    "kernel_short_share": Quantity("of kernels", "kernels of less than 10 µs", GPU),
    "launch_latency_s": Quantity("s", "median time from launch call to start, on an idle stream", HOST),
    "launch_bound_share": Quantity("of window", "GPU idle in gaps below 1 ms: dispatch, autograd, launch latency", HOST),
    "host_stall_share": Quantity("of window", "GPU idle in gaps of 1 ms and more: dispatch, autograd", HOST),
    "usual_kernel_gap_share": Quantity("of window", "the part of idle_kernel_gap that any GPU takes from kernel to kernel: up to 2.5 µs of each pause", GPU),
    "backward_stall_share": Quantity("of window", "the part of host_stall in which the backward pass is between two nodes", HOST),
    "optimizer_launches_per_step": Quantity("per step", "launches inside Optimizer.step", STEPS),
    "optimizer_tensorwise_per_step": Quantity("per step", "the part of these that treat one tensor, element by element", STEPS),
    "optimizer_tensorwise_share": Quantity("of window", "kernels of these", STEPS),
    "optimizer_latency_share": Quantity("of window", "the part of launch_bound in which a launch of Optimizer.step is under way", STEPS),
    "optimizer_kernel_gap_share": Quantity("of window", "the part of idle_kernel_gap before what Optimizer.step launched", STEPS),
    "optimizer": Quantity("text", "class of the optimizer whose steps take the host longest", "record with PyTorch 1.9 or later"),
    "idle_zero_grad_share": Quantity("of window", "the part of idle_optimizer_host while gradients are set to zero", HOST),
    "zero_grad_share": Quantity("of window", "kernels and fills that set gradients to zero", HOST),
    "zero_grad_fills_per_step": Quantity("per step", "launches of these", STEPS),
    "gc_pauses": Quantity("count", "calls of the garbage collector, and ranges named for it", STACKS),
    # compute
    "compiled": Quantity("bool", "kernels or ranges of torch.compile are present", GPU),
    "elementwise_share": Quantity("of window", "elementwise, copy and reduction kernels that torch.compile can merge: not the optimizer's, no gathers", GPU),
    "matmul_share": Quantity("of window", "kernels of matrix products and convolutions", GPU),
    "tensor_core_share": Quantity("of matmul", "the part of that time on tensor or matrix cores, by kernel name", GPU),
    "tensor_cores": Quantity("text", "what the GPUs that did work have for fp32 work: none, fp16 (Volta, Turing), tf32 (Ampere on) or xf32 (CDNA 3)", MODEL),
    "half_share": Quantity("of matmul", "those on tensor cores of 16-bit operands, by name", GPU),
    "fp32_share": Quantity("of window", "matrix products and convolutions of fp32 numbers beside the tensor cores, by name", GPU),
    "fp32_compared_share": Quantity("of window", "large fp32 products of known sizes, where there are 16-bit ones to compare with", SHAPES),
    "fp32_slow_share": Quantity("of window", "what these take beyond the rate of the 16-bit ones, in FLOP/s", SHAPES),
    "misaligned_share": Quantity("of window", "16-bit matrix products with a layer size that is no multiple of 8", SHAPES),
    "misaligned_compared_share": Quantity("of window", "those of them that are large, where there are aligned ones of the same kind to compare with", SHAPES),
    "misaligned_slow_share": Quantity("of window", "what these take beyond the rate of aligned ones, in FLOP/s", SHAPES),
    "misaligned_size": Quantity("text", "what that size is in most of that time: outputs, hidden or heads; empty if there is none", SHAPES),
    "misaligned_product": Quantity("text", "the sizes of that product", SHAPES),
    "cast_share": Quantity("of window", "kernels that only change a floating-point type", HOST),
    "casts_per_step": Quantity("per step", "such kernels", STEPS),
    "recompute_share": Quantity("of window", "forward kernels run again during backward (activation checkpointing)", HOST),
    "conv_search_share": Quantity("of window", "convolution algorithm search (cudnn.benchmark) after the first step, less what ordinary calls take", TWO_STEPS),
    "mergeable_share": Quantity("of window", "elementwise kernels, none of torch.compile's and no casts, that would go if chains of them were merged: all but the longest of each", GPU),
    "layout_share": Quantity("of window", "NCHW/NHWC conversion kernels around convolutions", GPU),
    "underfilled_share": Quantity("of window", "kernel time times the part of the multiprocessors without a block", "record on an NVIDIA GPU"),
    "underfilled_twice_share": Quantity("of window", "what kernels would take less per item with twice the blocks, but for those of the optimizer", "record on an NVIDIA GPU"),
    # arithmetic, by the sizes of operators
    "flops_known_share": Quantity("of products", "time of kernels of products, convolutions and attention whose sizes are known", SHAPES),
    "flops_per_step": Quantity("FLOP/step", "of these, of one rank, that the model needs: recomputation left out, of causal attention the half; where 90% of their time is accounted for", SHAPES),
    "mfu": Quantity("of peak", "FLOP that the model needs over the dense peak of the type of number that most of them are in, over the window", KNOWN_SHAPES),
    "mfu_peak": Quantity("text", "that peak, of one GPU", KNOWN_SHAPES),
    "roofline_share": Quantity("of known operators", "least time of operators of known sizes by this GPU's arithmetic and memory, over what they take", KNOWN_SHAPES),
    "compute_bound_share": Quantity("of window", "kernels of operators of known sizes that arithmetic limits", KNOWN_SHAPES),
    "memory_bound_share": Quantity("of window", "those that memory limits", KNOWN_SHAPES),
    "latency_bound_share": Quantity("of window", "those that reach less than 30% of either and are shorter than 10 µs or smaller than the GPU", KNOWN_SHAPES),
    # the same kernels, at the same place in every step
    "kernel_slowdown": Quantity("times", "how much longer they take in the last third of the steps than in the first, and do not go back", SAME),
    "slower_share": Quantity("of window", "what kernels take longer than they would in the first steps", SAME),
    "gpu_slowdown": Quantity("times", "how much longer they take on the slowest GPU than on the others, in all steps alike", SAME_RANKS),
    "slow_gpus": Quantity("text", "the ranks on which they take 5% longer and more; empty if there are none", SAME_RANKS),
    # compilation in steady state
    "recompile_steps": Quantity("steps", "steps after the first in which torch.compile or Triton compiles", TWO_STEPS),
    "recompile_share": Quantity("of window", "GPU idle while they do", TWO_STEPS),
    "recompile_late_share": Quantity("of window", "the part of that in the second half of the steps", TWO_STEPS),
    "compiled_versions": Quantity("versions", "most versions that torch.compile has made of one function", "record a job that is compiled, with a PyTorch that numbers what it compiles"),
    # memory
    "alloc_calls_per_step": Quantity("per step", "cudaMalloc and cudaFree after the first step", TWO_STEPS),
    "alloc_lost_share": Quantity("of window", "GPU idle inside them", TWO_STEPS),
    # pauses
    "checkpoint_share": Quantity("of window", "in torch.save or a range named for it, GPU busy or not", HOST),
    "evaluation_share": Quantity("of window", "in a range named for evaluation, GPU busy or not", HOST),
    "evaluation_busy_share": Quantity("of window", "GPU work that is launched in such a range", HOST),
    # collectives
    "collective_share": Quantity("of window", "NCCL or RCCL kernels", GPU),
    "collective_exposed_share": Quantity("of window", "the part of them beside which no other kernel runs", GPU),
    "collective_kind": Quantity("text", "which of them are exposed longest: gradients, shards (all-gather, reduce-scatter), all_to_all or all_reduce", GPU),
    "shards_exposed_share": Quantity("of window", "all-gathers and reduce-scatters beside which no other kernel runs", GPU),
    "collective_wait_share": Quantity("of window", "collectives that wait for a peer: longer than on the rank that entered last; of one rank alone at least what is longer than the fastest of its kind; with no other kernel beside it", SIZES),
    "link_speed_share": Quantity("of expected", "speed of the fastest large collective, of what links of these GPUs reach", SPEEDS),
    "busbw_bytes_per_s": Quantity("B/s", "bus bandwidth of the fastest large collective, as nccl-tests defines it", SPEEDS),
    "link": Quantity("text", "whether its ranks are inside a node or between nodes", SPEEDS),
    "link_exposed_share": Quantity("of window", "large collectives that carry data, with no other kernel beside them", SPEEDS),
    "grad_syncs_per_update": Quantity("per update", "backward passes per Optimizer.step in which ranks exchange the same gradients", TRAINING),
    "grad_sync_again_share": Quantity("of window", "collectives that exchange gradients in all but the last of these, with no other kernel beside them", TRAINING),
    "grad_sync_late_share": Quantity("of window", "gradients that travel with no other kernel beside them, launched when their backward pass was as good as over", TRAINING),
    "grad_sync_late_part": Quantity("of gradient exchange", "collectives of gradients that are launched so late, whatever runs beside them", TRAINING),
    "backward_alone_share": Quantity("of window", "kernels of the backward pass with no collective beside them", TRAINING),
    "grad_sync": Quantity("text", "the collective by which ranks exchange gradients: all_reduce or reduce_scatter", TRAINING),
    # ranks that come late, from one collective that all ranks share to the next
    "late_share": Quantity("of window", "how much later than the others the late ranks of each step come to its collectives", RANKS),
    "late_data_share": Quantity("of window", "the part of that in which late ranks wait for data longer than the others", RANKS),
    "late_compute_share": Quantity("of window", "the part in which their GPUs compute longer", RANKS),
    "late_gc_share": Quantity("of window", "the part in which their garbage collection takes longer", RANKS),
    "late_host_share": Quantity("of window", "the part in which their GPUs idle longer for any other reason", RANKS),
    "late_steps": Quantity("steps", "steps in which a rank comes late", RANKS),
    "late_different_ranks": Quantity("ranks", "ranks that come last in one of these", RANKS),
    "late_ranks": Quantity("text", "the ranks that nearly always come late; empty if there are none", RANKS),
    # what a job that was watched by `whyidle run` did around its steps, from the first to the last; of the rank that waits longest for data
    "watched_s": Quantity("s", "length of the watched time, from the end of the first step to the end of the last", LOG),
    "watched_steps": Quantity("steps", "steps in it", LOG),
    "on_gpu": Quantity("bool", "the job computes on a GPU", LOG),
    "host_data_share": Quantity("of watched", "the training thread waits for a batch, GPU busy or not", LOG),
    "host_prepare_share": Quantity("of watched", "between a batch and the forward pass: copies to the GPU, preparation", LOG),
    "host_forward_share": Quantity("of watched", "in the forward pass of training", LOG),
    "host_backward_share": Quantity("of watched", "in the backward pass", LOG),
    "host_optimizer_share": Quantity("of watched", "in Optimizer.step, less what of the above lies in it", LOG),
    "host_save_share": Quantity("of watched", "in torch.save and other writers of checkpoints", LOG),
    "host_evaluation_share": Quantity("of watched", "evaluation: forward passes without gradients, and the batches for them", LOG),
    "host_start_share": Quantity("of watched", "in DataLoader.__iter__, where workers start", LOG),
    "host_gc_share": Quantity("of watched", "in the garbage collector, whatever else is under way", LOG),
    "host_environment_share": Quantity("of watched", "in the step of a reinforcement-learning environment", LOG),
    "host_other_share": Quantity("of watched", "in none of these: the rest of the loop", LOG),
    "host_gaps_share": Quantity("of watched", "in code of the loop of which nothing is recorded, less what is taken for a wait for data", LOG),
    "host_gap_share": Quantity("of watched", "the part of that at the place in the loop where most of it passes, and where no model runs unseen", LOG),
    "host_gap": Quantity("text", "that place, by what is recorded before and after it", LOG),
    "startup_s": Quantity("s", "from the start of the command to the end of the first step", LOG),
    "samples_per_s": Quantity("samples/s", "over the watched time, all ranks together", LOG),
    "tokens_per_s": Quantity("tokens/s", "over the watched time, all ranks together", LOG),
    # what of it the GPU waited for (of a job without a GPU: the whole of it)
    "lost_data_zero_share": Quantity("of watched", "waiting for a loader without workers", LOG),
    "lost_data_workers_share": Quantity("of watched", "waiting for a loader's workers, but for the first batch of each epoch", LOG),
    "lost_data_first_share": Quantity("of watched", "waiting for the first batch of each epoch, and for workers to start", LOG),
    "lost_data_other_share": Quantity("of watched", "waiting for data that comes from no DataLoader of PyTorch: the time between steps in which nothing is known to run", LOG),
    "lost_save_share": Quantity("of watched", "writing checkpoints", LOG),
    "lost_evaluation_share": Quantity("of watched", "evaluating while the GPU waits: for its data, its metrics", LOG),
    "late_loader_share": Quantity("of watched", "how much longer the ranks that wait longest for data wait than any other, where all take their steps together", LOG_RANKS),
    "late_loader_ranks": Quantity("text", "these ranks", LOG_RANKS),
    "saves": Quantity("count", "checkpoints written in the watched time", LOG),
    "saves_in_background": Quantity("bool", "torch.distributed.checkpoint.async_save writes checkpoints already", LOG),
    "save_bytes_per_s": Quantity("B/s", "how fast they were written", LOG),
    "evaluations": Quantity("count", "evaluations in the watched time", LOG),
    "evaluation_data_share": Quantity("of watched", "waiting for the batches of evaluations, the GPU busy or not", LOG),
    "evaluation_batch_seconds": Quantity("s", "mean wait for one of these", LOG),
    "evaluation_workers": Quantity("workers", "of the loader that evaluations wait for longest", LOG),
    "epochs": Quantity("count", "times that the training loader was begun in the watched time", LOG),
    "batches_per_epoch": Quantity("batches", "of the training loader", LOG),
    # the loader that the training waits for, and its workers
    "num_workers": Quantity("workers", "of the training loader", LOG),
    "persistent_workers": Quantity("bool", "the training loader keeps its workers between epochs", LOG),
    "prefetch_factor": Quantity("batches", "that each worker makes ahead", LOG_WORKERS),
    "batch_seconds": Quantity("s", "mean time in which one worker, or the training process where there is none, makes a batch", LOG),
    "batch_spread": Quantity("ratio", "sd over mean of that time", LOG),
    "batch_cpu_share": Quantity("of batch_seconds", "computing", LINUX),
    "batch_run_delay_share": Quantity("of batch_seconds", "ready to compute, waiting for a CPU", LINUX),
    "batch_blocked_share": Quantity("of batch_seconds", "neither: waiting for storage, the network or a lock", LINUX),
    "look_read_share": Quantity("of samples", "workers in a call that reads files or sockets", LOOK),
    "look_lock_share": Quantity("of samples", "workers waiting for a lock or a queue of their own", LOOK),
    "look_site": Quantity("text", "the line of the user's code in which workers spend most time: file:line function", LOOK),
    "storage_read_bytes_per_s": Quantity("B/s", "read from storage by the job's processes, not from the page cache", LINUX),
    "data_file_system": Quantity("text", "file system of the data set", LINUX),
    # CPUs
    "cpus_allowed": Quantity("CPUs", "that the job may use at once: the least of affinity and quota", LINUX),
    "cpus_online": Quantity("CPUs", "of the machine", LINUX),
    "cpu_quota": Quantity("CPUs", "quota of the job's control group; the machine's CPUs where there is none", LINUX),
    "cpus_taken": Quantity("CPUs", "that other programs of the machine use", LINUX),
    "job_cpu_share": Quantity("of cpus_allowed", "CPU time of the job's processes", LINUX),
    "cpu_throttled_share": Quantity("of watched", "the control group was held back by its quota", LINUX),
    "cpu_pressure_share": Quantity("of watched", "some task waited for a CPU (PSI)", LINUX),
    "io_pressure_share": Quantity("of watched", "some task waited for storage (PSI)", LINUX),
    "worker_cpus_allowed": Quantity("CPUs", "that a worker of the loader may use, by its affinity", LINUX),
    "affinity_narrowed": Quantity("bool", "the job's affinity is narrower than that of the shell that started it", LINUX),
    "ranks_on_machine": Quantity("ranks", "training processes of the job on the machine with the most", LOG),
    "compute_threads": Quantity("threads", "that all processes of the job on a machine let PyTorch use at once: ranks and workers", LOG),
    "main_run_delay_share": Quantity("of watched", "the training thread is ready to run and waits for a CPU", LINUX),
    "main_cpu_share": Quantity("of watched", "CPU time of the training process's main thread", LINUX),
    "loading_thread_slowdown": Quantity("times", "how much longer the steps' own work takes while another thread of the process makes a batch", LOG),
    "numa_mismatch": Quantity("bool", "the process may run only on CPUs of another NUMA node than its GPU's", LOG_GPU),
    "tracing": Quantity("text", "a debugger, tracer or coverage tool that looks at every line or call; empty if there is none", LOG),
    "gc_collections": Quantity("count", "full garbage collections in the watched time", LOG),
    # the GPU's counters while it was watched
    "utilization_mean_share": Quantity("of watched", "some kernel ran, by NVML's samples; mean of the job's GPUs", LOG_GPU),
    "clock_share": Quantity("of maximum", "median SM clock of the samples in which the GPU is busy", LOG_GPU),
    "throttle_thermal_share": Quantity("of busy samples", "slowed for its temperature, or by the hardware", LOG_GPU),
    "throttle_power_share": Quantity("of busy samples", "slowed by its power limit", LOG_GPU),
    "power_limit_share": Quantity("of default", "power limit that is set", LOG_GPU),
    "temperature_c": Quantity("°C", "median of the samples in which the GPU is busy", LOG_GPU),
    "foreign_share": Quantity("of samples", "a process that is not the job's is on one of its GPUs", LOG_GPU),
    "foreign_memory_bytes": Quantity("B", "that such processes hold, at most", LOG_GPU),
    "gpus_on_host": Quantity("GPUs", "that NVML sees", LOG_GPU),
    "pcie_width_share": Quantity("of maximum", "PCIe lanes in use, of the GPU with the fewest", LOG_GPU),
    # curves that others recorded: the job's GPUs together, and (subject) each of them
    "curve_s": Quantity("s", "length of the curve, to the end of its last sample", CURVE),
    "curve_samples": Quantity("samples", "of a GPU's utilization, median of GPUs", CURVE),
    "curve_known_share": Quantity("of sampled time", "a utilization was told: no gap, no sample without one", CURVE),
    "curve_interval_s": Quantity("s", "median time between two samples", CURVE),
    "curve_gpus": Quantity("GPUs", "of which there are curves", CURVE),
    "curve_busy_share": Quantity("of curve", "some kernel ran: the mean utilization", CURVE),
    "curve_zero_share": Quantity("of samples", "below 5% utilization", CURVE),
    "curve_idle_share": Quantity("of curve", "1 - curve_busy_share; it is parted over the shapes below and curve_rest_share", CURVE),
    "curve_p05_share": Quantity("utilization", "that 5% of the samples are below, start-up, held GPUs and regular dips left out", CURVE_LONG),
    "curve_p95_share": Quantity("utilization", "that 95% of the samples are below, start-up, held GPUs and regular dips left out", CURVE_LONG),
    "curve_level_share": Quantity("utilization", "median, start-up, held GPUs and regular dips left out", CURVE_LONG),
    "curve_spread_share": Quantity("utilization", "standard deviation, start-up, held GPUs and regular dips left out", CURVE_LONG),
    "curve_startup_share": Quantity("of curve", "idle before the GPU first works for long", CURVE_LONG),
    "curve_startup_s": Quantity("s", "before the GPU first works", CURVE_LONG),
    "curve_held_share": Quantity("of curve", "idle from the last work to the end, the GPU's memory or processes held if that is recorded", CURVE_LONG),
    "curve_held_s": Quantity("s", "from the last work to the end", CURVE_LONG),
    "curve_held_known": Quantity("bool", "whether memory or processes of that time were recorded", CURVE_CLOCKS),
    "curve_held_memory_share": Quantity("of memory", "in use in that time, median", CURVE_CLOCKS),
    "curve_dip_share": Quantity("of curve", "idle in dips to zero that come back regularly", CURVE_LONG),
    "curve_dips": Quantity("count", "of such dips, mean of GPUs that have them", CURVE_LONG),
    "curve_dip_s": Quantity("s", "length of such a dip, median", CURVE_LONG),
    "curve_dip_interval_s": Quantity("s", "from one such dip to the next, median", CURVE_LONG),
    "curve_dip_event": Quantity("text", "what the trainer's log says comes at that interval: checkpoint, evaluation or step", CURVE_LOG),
    "curve_period_s": Quantity("s", "period of utilization that no shorter steps can feign", CURVE_LONG),
    "curve_alias_period_s": Quantity("s", "period of utilization that may be an alias of much shorter steps", CURVE_LONG),
    "curve_period_score": Quantity("correlation", "autocorrelation of utilization at that period", CURVE_LONG),
    "curve_flat_share": Quantity("of curve", "idle of a GPU that works steadily below 95%, or never above 70%", CURVE_LONG),
    "curve_flat_gpus": Quantity("GPUs", "that work so", CURVE_LONG),
    "curve_fluctuating_share": Quantity("of curve", "idle of a GPU that goes up and down by 30 points and more, without a period", CURVE_LONG),
    "curve_correlated_share": Quantity("of curve", "idle in dips of all GPUs together that come without a period", CURVE_GPUS),
    "curve_together_share": Quantity("of dips", "of any GPU, in which nearly all GPUs dip", CURVE_GPUS),
    "curve_change_share": Quantity("of curve", "idle beyond the better level, where utilization shifts from one level to another and stays", CURVE_LONG),
    "curve_slowed_share": Quantity("of curve", "that a lower clock or power takes at most, where it shifts under load and stays", CURVE_CLOCKS),
    "curve_change_counter": Quantity("text", "what shifts: utilization, SM clock or power", CURVE_LONG),
    "curve_change_s": Quantity("s", "from the start of the recording to the shift", CURVE_LONG),
    "curve_change_from": Quantity("%, MHz or W", "level before it", CURVE_LONG),
    "curve_change_to": Quantity("%, MHz or W", "level after it", CURVE_LONG),
    "curve_change_gradual": Quantity("bool", "whether it goes there all the while, and not at once", CURVE_LONG),
    "curve_change_memory_bytes": Quantity("B", "that the GPU's memory in use is more after the shift, medians", CURVE_CLOCKS),
    "curve_lag_share": Quantity("of curve", "idle of GPUs that idle more than their peers, beyond these", CURVE_GPUS),
    "curve_lag_slow_share": Quantity("of curve", "that a GPU at a lower clock than its busy peers takes at most", CURVE_CLOCKS),
    "curve_lag_gpu": Quantity("text", "the GPU that is furthest from its peers", CURVE_GPUS),
    "curve_lag_gpus": Quantity("GPUs", "that are as far below their peers, with it", CURVE_GPUS),
    "curve_lag_counter": Quantity("text", "in what: utilization, SM clock or power", CURVE_GPUS),
    "curve_lag_value": Quantity("%, MHz or W", "of that GPU", CURVE_GPUS),
    "curve_lag_peers": Quantity("%, MHz or W", "median of all GPUs", CURVE_GPUS),
    "curve_lag_windows_share": Quantity("of windows", "in which it is apart from them", CURVE_GPUS),
    "curve_hollow_share": Quantity("of curve", "utilization is at 90% or more, and multiprocessors or tensor cores hardly work", CURVE_ACTIVITY),
    "curve_sm_active_share": Quantity("of cycles", "a warp is on a multiprocessor, mean of them, while utilization is at 90% or more", CURVE_ACTIVITY),
    "curve_tensor_active_share": Quantity("of cycles", "tensor cores work, while utilization is at 90% or more", CURVE_ACTIVITY),
    "curve_dram_active_share": Quantity("of cycles", "device memory is read or written, while utilization is at 90% or more", CURVE_ACTIVITY),
    "curve_rest_share": Quantity("of curve", "idle that no shape holds", CURVE_LONG),
    "curve_cpu_busy_share": Quantity("of CPUs", "of the host, mean", CURVE_LOG),
    "curve_io_wait_share": Quantity("of CPUs", "of the host, waiting for I/O, mean", CURVE_LOG),
    "curve_step_time_s": Quantity("s", "median step, as the trainer's log says", CURVE_LOG),
    "curve_step_time_mean_s": Quantity("s", "mean step, as the trainer's log says", CURVE_LOG),
    "curve_steps": Quantity("steps", "in the trainer's log", CURVE_LOG),
    "curve_log_every": Quantity("steps", "from one that the trainer's log tells of to the next, median", CURVE_LOG),
    "curve_same_part": Quantity("bool", "samples come as often as the log's steps: they see the same part of each", CURVE_LOG),
    "curve_data_wait_share": Quantity("of step", "waiting for data, as the trainer's log says", CURVE_LOG),
    # a job that runs already, looked at from outside for some seconds; of the rank that waits longest, and of its workers
    "live_s": Quantity("s", "length of the look", LIVE),
    "live_main_waits_share": Quantity("of look", "the training process's main thread sleeps and no other thread of it computes, GPU busy or not", LIVE),
    "live_main_read_share": Quantity("of look", "the main thread is in a read of a file, or waits for a page of one", LIVE),
    "live_process_cpu_share": Quantity("of look", "some thread of the training process computes, at most", LIVE),
    "live_loader_wait_share": Quantity("of stacks", "the main thread waits in a DataLoader for its workers", LIVE_STACKS),
    "live_loader_fetch_share": Quantity("of stacks", "the main thread makes a batch itself (num_workers=0)", LIVE_STACKS),
    "live_main_site": Quantity("text", "the line of the user's code at which the main thread was met most", LIVE_STACKS),
    "live_workers": Quantity("workers", "processes of a DataLoader below that process", LIVE),
    "live_workers_cpu_share": Quantity("of their time", "workers compute, mean", LIVE),
    "live_workers_run_delay_share": Quantity("of their time", "workers are ready to compute and wait for a CPU, mean", LIVE),
    "live_workers_blocked_share": Quantity("of their time", "workers are in a read of a file or a socket, or wait for anything else inside a batch, mean", LIVE),
    "live_workers_site": Quantity("text", "the line of the user's code at which workers were met most", LIVE_STACKS),
    "live_file_system": Quantity("text", "file system of the file that the job reads most, or is blocked on", LIVE),
    "live_file": Quantity("text", "that file", LIVE),
    "live_runnable_threads": Quantity("threads", "of the job that run or wait for a CPU, mean", LIVE),
    "live_pool_threads": Quantity("threads", "the same of the process that has most of them", LIVE),
    # PyTorch's own counters
    "alloc_retries": Quantity("count", "times that the allocator had to free its cache and try again, in the watched time", LOG_CUDA),
    "peak_memory_bytes": Quantity("B", "most device memory that PyTorch had allocated, of the rank with most", LOG_CUDA),
    "device_allocations_per_step": Quantity("per step", "cudaMalloc calls of the allocator, in the second half of the watched time", LOG_CUDA),
    "graphs": Quantity("graphs", "that torch.compile made", LOG),
    "graph_breaks": Quantity("count", "places at which torch.compile had to leave the graph", LOG),
    "graph_break_reason": Quantity("text", "the most frequent reason for that", LOG),
    "recompilations_late": Quantity("count", "functions compiled again in the second half of the watched time", LOG),
    "compile_late_share": Quantity("of watched", "compiling, in the second half of the watched time", LOG),
    "recompile_reason": Quantity("text", "the most frequent reason for that", LOG),
    "sync_site": Quantity("per step", "synchronisations at a line of the job's code (the subject)", LOG_CUDA),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured fact. `subject` says of what, where it is not the whole run: "rank 3", a call site, a kernel."""

    name: str
    value: Value
    subject: str = ""
    locations: tuple[Location, ...] = ()

    @property
    def unit(self) -> str:
        """Return the unit, which belongs to the name."""
        return CATALOG[self.name].unit


class Measurements:
    """Everything measured in a run: of the whole run (`one`), and of its parts (`each`)."""

    def __init__(self, items: Iterable[Measurement] = ()) -> None:
        self._whole: dict[str, Measurement] = {}
        self._parts: dict[str, list[Measurement]] = {}
        for item in items:
            if item.name not in CATALOG:
                raise KeyError(item.name)
            if item.subject:
                self._parts.setdefault(item.name, []).append(item)
            else:
                self._whole[item.name] = item

    def __contains__(self, name: str) -> bool:
        return name in self._whole

    def __iter__(self) -> Iterator[Measurement]:
        yield from self._whole.values()
        for parts in self._parts.values():
            yield from parts

    def one(self, name: str) -> Measurement:
        """Return what was measured of the whole run; KeyError if it was not."""
        return self._whole[name]

    def each(self, name: str) -> tuple[Measurement, ...]:
        """Return what was measured of the run's parts; empty if nothing was."""
        return tuple(self._parts.get(name, ()))

    def number(self, name: str) -> float:
        """Return a measured number; KeyError if it was not measured."""
        return float(self._whole[name].value)

    def get(self, name: str, default: float) -> float:
        """Return a number that a rule uses if it is there."""
        return self.number(name) if name in self._whole else default
