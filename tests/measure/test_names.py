"""Names as PyTorch, CUDA and ROCm have written them since 2021, and the patterns that must and must not know them."""

from __future__ import annotations

import pytest

from whyidle.measure import names
from whyidle.measure.compute import is_elementwise

# Kernels that use tensor or matrix cores, from four generations of NVIDIA and two of AMD.
TENSOR_CORE = [
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4",
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>(Params)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1_execute",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>>(Params)",
    "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
    "ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_nt",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16",
    "triton_tem_fused_mm_0",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB0",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<MainloopSm90TmaGmmaWarpSpecialized<4>>>",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4>(Params)",
    # names that the patterns did not know at first
    "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x160x64_MI16x16x1_SN_LDSB1",
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32_wt32x32x8",
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_sm100f",
    "fused_moe_kernel",
    "attn_fwd",
    "bwd_kernel_dk_dv",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128",
    "triton_tem_fused_addmm_native_layer_norm_3",
    "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1",
    "turing_h1688cudnn_256x128_ldg8_relu_exp_small_nhwc_tn_v1",
]
PLAIN_MATMUL = [
    "ampere_sgemm_128x64_tn",
    "volta_sgemm_128x64_nn",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(cublasGemvParams)",
    "void gemmSN_NN_kernel<float, 128, 2, 4, 8, 3, 4, false>(cublasGemmSmallNParams)",
    "volta_scudnn_128x64_relu_interior_nn_v1",
    "void dgemmAlphaBeta<double>",
    "maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile148n_nt",
    "void cutlass_simt_sgemm_128x128_8x2_tn_align1",
    "ampere_fp16_sgemm_fp16_32x128_tn",
    "Cijk_Ailk_Bljk_SB_MT64x64x16_SN_1LDSB0",
    "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true, true>(int)",
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)",
]
NO_MATMUL = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float>",
    "triton_poi_fused_add_mul_0",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct)",
    # names that say what a kernel stands next to, not what it is
    "triton_poi_fused_convolution_relu_3",
    "triton_red_fused__scaled_dot_product_efficient_attention_1",
    "triton_per_fused_addmm_native_layer_norm_2",
    "SubTensorOpWithScalar1d",
    "SubTensorOpWithCastTensor1d",
    "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*, int const*, int*)",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(__nv_bfloat16 const*)",
    "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)",
    "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::KernelParams<cutlass::bfloat16_t>>",
    "void epilogue::impl::globalKernel<float, float, float, true>(int, int, long, float*, cublasLtEpilogue_t)",
    "void transpose_readWrite_alignment_kernel<float2, float2>(cublasTransposeParams<float2>)",
    "cask_cudnn::computeWgradBOffsetsKernel(cask_cudnn::ComputeWgradBOffsetsParams)",
    "void cutlass_cudnn_train::Kernel<cutlass_cudnn_train::reduction::kernel::ReduceSplitK<MatrixShape<4, 128>>>",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>",
]


@pytest.mark.parametrize("name", TENSOR_CORE)
def test_tensor_cores_do_matrix_products(name):
    assert names.is_tensor_core(name)
    assert names.is_matmul(name)
    assert not is_elementwise(name)


@pytest.mark.parametrize("name", PLAIN_MATMUL)
def test_matrix_products_beside_tensor_cores(name):
    assert names.is_matmul(name)
    assert not names.is_tensor_core(name)


@pytest.mark.parametrize("name", NO_MATMUL)
def test_no_matrix_product(name):
    assert not names.is_matmul(name)
    assert not names.is_tensor_core(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(TensorIteratorBase&)>",
            True,
        ),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", True),
        ("triton_red_fused_mean_pow_rsqrt_0", True),
        ("triton_for_fused_1", True),
        ("triton__0d1d2de", True),  # PyTorch 2.0 and 2.1 without unique names
        ("triton_", True),
        ("void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float, float>(long)", True),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>>", False),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4, 64, 64>", False),
        ("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index>>", False),
        ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2>", False),
        ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", False),
        ("void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4>", True),
        ("triton_poi_fused_index_select_add_3", True),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>", False),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", False),
        ("ampere_sgemm_128x64_tn", False),
        ("triton_tem_fused_mm_add_0", False),
    ],
)
def test_elementwise(name, expected):
    assert is_elementwise(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::sqrt_functor<float>, array<char*, 2> >", True),
        ("void at::native::unrolled_elementwise_kernel<at::native::addcmul_cuda_kernel(TensorIteratorBase&)>", True),
        ("void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast>", True),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>, Adam>", False),
        ("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>", False),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >", False),
        ("triton_for_fused_0", False),
    ],
)
def test_kernels_of_one_tensor_each(name, expected):
    assert bool(names.TENSORWISE.search(name)) == expected


# pattern: (names that it must know, names that it must not)
TABLE = {
    "COLLECTIVE": (
        [
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            "ncclDevKernel_Generic(ncclDevComm*)", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
            "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_f32", "void vllm::cross_device_reduce_1stage<float, 8>",
            "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<0>",
            "two_shot_all_reduce_kernel", "multimem_all_reduce_kernel",
        ],
        ["triton_poi_fused_all_reduce_wait_tensor_add_0", "void at::native::reduce_kernel<512, 1>", "sgemm_32x32"],
    ),
    "COMPILED": (
        [
            "triton_poi_fused_add_mul_0", "triton_per_fused_0", "triton_tem_fused_mm_0", "triton__0d1d2d3", "triton_",
            "## Call CompiledFxGraph fud64jsrxcxliekg7lptyw24 ##", "CompiledFunctionBackward",
            "Torch-Compiled Region: 0/0", "torch/_inductor/cudagraph_trees.py(371): run",
        ],
        ["cudaGraphLaunch", "vllm/v1/cudagraph_dispatcher.py(231): dispatch", "triton_kernels/matmul.py(3): f", "mm"],
    ),
    "LAYOUT": (
        [
            "void cudnn::ops::nchwToNhwcKernel<float>", "void nhwcToNchwKernel<float>", "batched_transpose_32x32_half",
            "transpose_NCHW2CNHW_V2_2D_WG_off64", "transpose_CNHW2NCHW_V2_2D_WG_off64",
        ],
        ["max_pool_forward_nchw<float, float>", "bn_fw_tr_1C11_kernel_NCHW"],
    ),
    "HOST_TO_DEVICE": (
        ["Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)", "CopyHostToDevice"],
        ["Memcpy DtoH (Device -> Pageable)", "Memcpy DtoD (Device -> Device)"],
    ),
    "DEVICE_TO_HOST": (
        ["Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pinned)", "CopyDeviceToHost"],
        ["Memcpy HtoD (Host -> Device)", "Memcpy PtoP (Device -> Device)"],
    ),
    "KERNEL_LAUNCH": (
        [
            "cudaLaunchKernel", "cudaLaunchKernel_ptsz", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel",
            "cuLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "hipLaunchKernel", "hipModuleLaunchKernel",
            "hipExtModuleLaunchKernel", "hipExtLaunchKernel", "hipGraphLaunch",
        ],
        ["cudaMemcpyAsync", "cudaLaunchHostFunc", "hipModuleLoadData", "cudaGraphInstantiate", "hipEventRecord"],
    ),
    "BLOCKING": (
        [
            "cudaStreamSynchronize", "cudaStreamSynchronize_ptsz", "cudaDeviceSynchronize", "cudaEventSynchronize",
            "cudaMemcpy", "cudaMemcpy2D", "cuCtxSynchronize", "cuMemcpyDtoH_v2", "hipMemcpyWithStream", "hipMemcpyDtoH",
            "hipStreamSynchronize", "hipDeviceSynchronize",
        ],
        ["cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventQuery", "cuMemcpyHtoDAsync_v2", "hipMemcpyAsync"],
    ),
    "ALLOCATOR": (
        [
            "cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaHostAlloc", "cudaFreeHost", "cudaMallocManaged",
            "cudaHostRegister", "cuMemCreate", "cuMemMap", "cuMemAddressReserve", "cuMemSetAccess", "hipMalloc",
            "hipHostMalloc", "hipExtMallocWithFlags", "hipMemCreate",
        ],
        ["cudaFuncSetAttribute", "cuMemcpyHtoD_v2", "cuMemsetD8Async", "cudaMemGetInfo", "cudaHostGetDevicePointer"],
    ),
    "DEVICE_ALLOCATION": (
        ["cudaMalloc", "cudaFree", "cuMemCreate", "cuMemAlloc_v2", "cuMemUnmap", "hipMalloc", "hipMemCreate"],
        ["cudaMallocAsync", "cudaFreeAsync", "cudaHostAlloc", "cudaFreeHost", "cuMemAllocHost_v2", "cuMemFreeHost"],
    ),
    "MODULE_LOAD": (
        ["cuModuleLoadData", "cuModuleLoadDataEx", "cuLibraryLoadData", "hipModuleLoad", "hipModuleLoadData"],
        ["hipModuleLaunchKernel", "cuModuleGetFunction"],
    ),
    "GRAPH_LAUNCH": (["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"], ["cudaLaunchKernel", "cudaGraphDestroy"]),
    "CAPTURE": (["cudaStreamBeginCapture", "hipStreamBeginCapture"], ["cudaStreamIsCapturing", "cudaStreamEndCapture"]),
    "PROFILER_STEP": (["ProfilerStep#0", "ProfilerStep#1009"], ["ProfilerStep", "ProfilerStep*", "MyProfilerStep#3"]),
    "LOADER": (
        [
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            "torch/utils/data/dataloader.py(701): __next__",
            "/opt/conda/lib/python3.11/site-packages/torch/utils/data/dataloader.py(628): __next__",
        ],
        ["torch/utils/data/dataloader.py(741): __init__", "torch/utils/data/dataset.py(350): __getitem__", "loader"],
    ),
    "DATA_RANGE": (
        [
            "## load_batch ##", "## data_load ##", "data_loading", "dataloader", "Data Loading", "load_data",
            "get_batch", "get_train_batch", "next_batch", "fetch_data", "data_wait",
            "[_TrainingEpochLoop].train_dataloader_next",
        ],
        [
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "load_checkpoint", "load_state_dict",
            "copy_batch_to_gpu", "download_data", "get_batch_size", "upload_batch", "forward", "all2all_tw_data:wait",
        ],
    ),
    "CHECKPOINT": (
        [
            "torch/serialization.py(850): save", "torch/distributed/checkpoint/state_dict_saver.py(80): save",
            "torch/distributed/checkpoint/state_dict_saver.py(180): async_save", "safetensors/torch.py(252): save_file",
            "save_checkpoint", "Save Checkpoint", "saving_checkpoint", "checkpoint_saving", "save_model", "save_ckpt",
            "[Strategy]SingleDeviceStrategy.save_checkpoint", "train.py(40): save_checkpoint",
            "transformers/modeling_utils.py(2500): save_pretrained",
        ],
        [
            "CheckpointFunction", "CheckpointFunctionBackward", "checkpoint_wrapper", "load_checkpoint", "checkpoint",
            "torch/utils/checkpoint.py(1111): unpack_hook", "torch/nn/modules/module.py(1900): _save_to_state_dict",
            "torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py(164): forward", "save_for_backward",
            "torch/serialization.py(1000): load", "gradient_checkpointing",
        ],
    ),
    "EVALUATION": (
        [
            "validation_step", "validation", "## eval ##", "evaluate", "eval_epoch", "val_loop", "Validation",
            "run_eval", "[Strategy]SingleDeviceStrategy.validation_step", "train.py(90): validate",
            "train.py(90): evaluate", "main.py(12): run_validation", "transformers/trainer.py(3456): evaluate",
            "lightning/pytorch/loops/evaluation_loop.py(128): run",
        ],
        [
            "torch/nn/modules/module.py(2600): eval", "nn/modules/module.py(2600): eval",
            "autograd::engine::evaluate_function: AddmmBackward0", "<built-in function eval>",
            "sympy/core/basic.py(300): eval", "pydantic/main.py(80): validate", "work/eval/train.py(3): forward",
            "torch/fx/experimental/symbolic_shapes.py(99): evaluate_expr", "validate_args", "train.py(3): eval_metric",
            "/usr/lib/python3/site-packages/torch/nn/modules/module.py(2600): eval", "interval", "retrieval",
        ],
    ),
    "LOGGING": (
        [
            "wandb/sdk/wandb_run.py(1700): log", "torch/utils/tensorboard/writer.py(350): add_scalar",
            "tensorboardX/writer.py(400): add_scalar", "tqdm/std.py(1181): __iter__", "<built-in function print>",
            "logging/__init__.py(1479): info", "## metrics:publish ##", "log_metrics", "logging", "wandb.log",
        ],
        ["catalogging", "backlog", "dialog", "train.py(3): catalog", "log_softmax"],
    ),
    "GARBAGE": (
        [
            "<built-in function collect>", "<built-in method collect of module object>", "gc.collect",
            "garbage_collect", "Python GC",
        ],
        ["torch/utils/data/_utils/collate.py(120): collate", "collect_env", "<built-in function collections>"],
    ),
    "COMPILE": (
        [
            "torch/_dynamo/convert_frame.py(700): _compile", "torch/_inductor/compile_fx.py(900): compile_fx_inner",
            "triton/compiler/compiler.py(226): compile", "triton/runtime/jit.py(700): _do_compile",
            "triton/runtime/autotuner.py(140): _bench", "compile_fx_inner (dynamo_timed)", "TorchDynamo Compilation",
            "entire_frame_compile (dynamo_timed)", "_compile.compile_inner (dynamo_timed)",
            "CachingAutotuner.benchmark_all_configs (dynamo_timed)",
        ],
        [
            "triton/compiler/compiler.py(465): __getattribute__", "triton/compiler/compiler.py(470): launch_metadata",
            "torch/_inductor/compile_fx.py(2735): wrapper", "Torch-Compiled Region: 0/0",
            "## Call CompiledFxGraph fud64jsrxcxliekg7lptyw24 ##", "torch/_dynamo/eval_frame.py(500): _fn",
        ],
    ),
    "REGION": (
        ["Torch-Compiled Region: 0/0", "Torch-Compiled Region: 12/7", "Torch-Compiled Region: !0/3/1"],
        ["Torch-Compiled Region", "TorchDynamo Cache Lookup", "Torch-Compiled Region: 0"],
    ),
    "OPTIMIZER": (
        [
            "Optimizer.step#AdamW.step", "Optimizer.zero_grad#SGD.zero_grad", "## optimizer ##", "optimizer_step",
            "optimizer.step", "optim_step", "## zero_grad ##", "torch/optim/adamw.py(220): step",
            "torch/optim/optimizer.py(1019): zero_grad", "apex/optimizers/fused_adam.py(140): step",
        ],
        [
            "torch/optim/lr_scheduler.py(150): step", "my/optimizer/model.py(5): forward", "make_optimizers",
            "torch/optim/optimizer.py(480): wrapper", "nn.Module: OptimizerNet_0", "forward",
        ],
    ),
    "OPTIMIZER_NAME": (["Optimizer.step#SGD.step", "Optimizer.step#FusedAdam.step"], ["Optimizer.zero_grad#S.x"]),
    "ZERO_GRAD": (
        [
            "Optimizer.zero_grad#SGD.zero_grad", "## zero_grad ##", "torch/optim/optimizer.py(1019): zero_grad",
            "torch/nn/modules/module.py(2400): zero_grad",
        ],
        ["zero_gradient", "nonzero_grad_mask", "aten::zero_"],
    ),
    "ZERO": (["aten::zero_", "aten::_foreach_zero_"], ["aten::zeros", "aten::zeros_like", "aten::fill_"]),
    "OPTIMIZER_STEP": (["Optimizer.step#SGD.step", "Optimizer.step#FusedAdam.step"], ["Optimizer.zero_grad#S", "step"]),
    "EVALUATED": (["autograd::engine::evaluate_function: AddmmBackward0"], ["AddmmBackward0", "aten::addmm"]),
    "ACCUMULATE": (
        [
            "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "torch::autograd::AccumulateGrad",
            "autograd::engine::evaluate_function: RegisterPostBackwardFunctionBackward",
        ],
        [
            "autograd::engine::evaluate_function: AddmmBackward0",
            "autograd::engine::evaluate_function: SyncBatchNormBackward",
            "autograd::engine::evaluate_function: _ReduceFromModelParallelRegionBackward",
        ],
    ),
    "REDUCTION": (
        [
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_Generic(ncclDevComm*)", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
            "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
        ],
        ["ncclDevKernel_AllGather_RING_LL", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "ncclDevKernel_Broadcast"],
    ),
    "SHARDED": (
        ["ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "_allgather_base"],
        ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "allreduce", "broadcast", "all_to_allv"],
    ),
    "PASSING": (
        ["ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "all_to_allv", "send", "ncclDevKernel_Send"],
        ["allreduce", "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_Generic"],
    ),
    "ALL_REDUCE_CALL": (["allreduce", "all_reduce"], ["allreduce_coalesced", "_allgather_base"]),
    "GATHER_CALL": (
        ["_allgather_base", "all_gather", "_reduce_scatter_base", "reduce_scatter_tensor", "all_gather_into_tensor"],
        ["allreduce", "all_gather_into_tensor_coalesced", "gather", "scatter"],
    ),
    "ONE_SIDED_CALL": (["broadcast", "reduce", "send"], ["allreduce", "_reduce_scatter_base", "_allgather_base"]),
    "REDUCE_SCATTER": (["ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"], ["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]),
    "ONE_SIDED": (
        ["ncclDevKernel_Broadcast_RING_LL", "ncclKernel_Reduce_RING_LL_Sum_float", "ncclDevKernel_SendRecv"],
        ["ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"],
    ),
    "BACKWARD": (
        [
            "autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0", "CopyBackwards",
            "CudnnBatchNormBackward", "torch::autograd::AccumulateGrad", "aten::convolution_backward",
            "CompiledFunctionBackward",
        ],
        ["aten::addmm", "DistributedDataParallel.forward", "BackwardHook", "aten::_backward_hooks_enabled"],
    ),
    "RECOMPUTE": (
        [
            "CheckpointFunctionBackward", "torch/utils/checkpoint.py(1111): unpack_hook",
            "torch/utils/checkpoint.py(1500): recompute_fn", "torch/utils/checkpoint.py(270): backward",
            "deepspeed/runtime/activation_checkpointing/checkpointing.py(590): backward",
        ],
        ["CheckpointFunction", "torch/utils/checkpoint.py(480): checkpoint", "autograd::engine::evaluate_function: A"],
    ),
    "SCALAR_READ": (["aten::item", "aten::_local_scalar_dense"], ["aten::is_nonzero", "aten::items", "item"]),
    "DATA_DEPENDENT": (
        [
            "aten::nonzero", "aten::is_nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
            "aten::repeat_interleave",
        ],
        ["aten::nonzero_static", "aten::index", "aten::item"],
    ),
    "TO_DEVICE": (["aten::to", "aten::_to_copy", "aten::copy_", "aten::pin_memory"], ["aten::topk", "aten::copysign"]),
    "MATMUL_OP": (["aten::mm", "aten::addmm", "aten::bmm"], ["aten::linear", "aten::matmul", "aten::mul"]),
    "CONVOLUTION": (
        ["aten::cudnn_convolution", "aten::miopen_convolution", "aten::convolution_backward"],
        ["aten::conv2d", "aten::convolution_overrideable"],
    ),
    "TRANSFORM": (
        [
            "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn)",
            "void cudnn::winograd_nonfused::winogradWgradOutput4x4<float, float>(cudnn)",
            "void cudnn::winograd::generateWinogradTilesKernel<0, float, float>",
        ],
        ["volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "void cudnn::ops::nchwToNhwcKernel"],
    ),
    "TIMING": (["cudaEventElapsedTime", "cudaEventElapsedTime_v2", "hipEventElapsedTime"], ["cudaEventRecord"]),
    "CDNA3": (["AMD Instinct MI300X", "AMD Instinct MI325X OAM"], ["AMD Instinct MI355X", "AMD Instinct MI210"]),
    "LIBRARY_RANGE": (
        ["Optimizer.step#SGD.step", "enumerate(DataLoader)#_X", "nccl:all_reduce", "DistributedDataParallel.forward"],
        ["train_step", "## forward ##", "iteration", "nccl_test"],
    ),
}  # fmt: skip
ROWS = [
    (p, n, known)
    for p, lists in TABLE.items()
    for known, list_ in zip((True, False), lists, strict=True)
    for n in list_
]


@pytest.mark.parametrize(("pattern", "name", "known"), ROWS, ids=[f"{p}-{n}" for p, n, _ in ROWS])
def test_pattern(pattern, name, known):
    assert bool(getattr(names, pattern).search(name)) == known


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", True),
        ("volta_h884gemm_64x64_ldg8_nn", True),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn", True),
        ("ampere_tf32_s1688gemm_128x64_ldg8_f2f_nn", False),
        ("volta_sgemm_128x64_tn", False),
        ("sgemm_1884x64", False),
    ],
)
def test_products_of_16_bits(name, half):
    assert bool(names.HALF_PRODUCT.search(name)) is half
