"""What a name means: the field's vocabulary of kernels, runtime calls, operators and ranges, as patterns.

Each entry is matched once per distinct string of a trace, never per event. What each must and must not know is listed
in tests/measure/test_names.py.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# kernels
TENSOR_CORE: Final = _any_of(
    r"(?<![a-z])(?:h|w|ig?|dm)?mma(?![a-z])|hmma|wgmma|gmma|utcmma|tcgen05",
    r"(?<![0-9])[shic]?(?:884|1688|16816|161616|16832|8816)(?![0-9])",
    r"sm(?:7[05]|8[069]|90|100|103|120)_xmma|xmma_(?:gemm|implicit|sparse|warp|fprop|dgrad|wgrad|conv)",
    r"(?<!sub)tensorop|nvjet|device_kernel.*(?:sm90|sm100|MainloopSm90|MainloopSm100)|^bmm_\w+_sm1\d\d",
    r"flash_(?:fwd|bwd)|flash::|fmha|cudnn_.*(?:sdpa|flash)",
    r"triton_tem_|triton_mm|_matmul_ogs_|fused_moe_kernel|(?<![a-z])attn_(?:fwd|bwd)|bwd_kernel_d[kq]",
    # Tensile spells the types of a product HHS or, since 2024, H_HS; MI is a matrix instruction, which fp32 has, too
    r"cijk_.*_(?:[HB]_?[HB]?S|HB|BB|F8\w*|B8\w*|S_MX)_.*MI(?:16|32)|mfma|igemm_\w*gtcx\w*_(?:fp16|bf16)|xdl",
    r"dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv2d_c1_k1",
)
NOT_TENSOR_CORE: Final = _any_of(
    r"sgemm|simt|gemv|splitkreduce|reducesplitk|elementwise|reduce_kernel|nchwtonhwc|nhwctonchw",
    r"winograd(?!.*(?:hmma|16816|884))|triton_(?:poi|red|per|for|spl)_",
)
MATMUL: Final = _any_of(
    r"(?<!fb)gemm|gemv|xmma|cutlass(?!::\w+_t\b)|dot_kernel|trsm|matmul|^bmm_|fused_moe_kernel",
    r"cudnn.*(?:conv|grad)|scudnn|[sh](?:884|1688|16816)cudnn|convolve|_conv(?!ert)|conv2d|conv3d|implicit_con|winograd|miopen.*conv",
    r"wgrad|dgrad|fprop|nvjet|cijk_|igemm|mfma|xdl|(?<!sub)tensorop|triton_tem_|triton_mm",
    r"flash_?(?:fwd|bwd|attn|mla)|flash::|flashinfer::\w*(?:prefill|decode)|fmha|sdpa|attention|(?<![a-z])attn_",
    r"bwd_kernel_d[kq]|(?<![a-z])(?:h|w|ig?)?mma(?![a-z])",
)
NOT_MATMUL: Final = _any_of(
    r"elementwise|reduce_kernel|nchwtonhwc|nhwctonchw|compute\w*offsets|splitkreduce|reducesplitk|memset|finalize",
    r"triton_(?:poi|red|per|for|spl)_|epilogue::impl|cublastranspose",
    r"^(?!.*triton_(?:tem|mm)).*(?:softmax|layer_?norm|batch_?norm)",  # a template names what is fused into it
)
# Products of fp32 numbers on ordinary units. "ampere_fp16_sgemm_fp16" reads 16 bits; gemv, gemmSN and gemmk1 are
# vectors or narrow ones, which no tensor core does faster.
FP32_PRODUCT: Final = _any_of(
    r"^(?!.*(?:fp16|bf16|half)).*(?:(?<![a-z])sgemm_|scudnn|simt_sgemm)",
    r"implicit_convolve_sgemm<float|(?:dgrad|wgrad_alg0)_engine<float|winograd\w*<float, ?float>",
)
# of the kernels on tensor cores those of 16-bit operands; "s1688gemm" without a type is TF32, "884" is Volta's fp16
HALF_PRODUCT: Final = _any_of(
    r"^(?!.*tf32).*(?:fp?16|(?<![0-9])[hs]?884(?![0-9])|16816|161616|bfloat|half|nvjet_[ht]|flash|fmha|attn_|cijk_.*_(?:[HB]_?[HB]?S|HB|BB)_)"
)
ELEMENTWISE: Final = _any_of(
    r"elementwise|(?<!all_)reduce_kernel|triton_(?:poi|red|per|for|spl|fused)_|^triton_(?:_\d[\dde]*)?$",  # 2023
    r"cunn_softmax|softmax_warp|layer_?norm|batch_?norm|bn_(?:fw|bw)|RowwiseMoments|GammaBeta|epilogue::impl",
    r"dropout|distribution",
)
# of these what has to have read all of a row before it can write
REDUCES: Final = _any_of(
    r"(?<!all_)reduce_kernel|softmax|layer_?norm|batch_?norm|bn_(?:fw|bw)|RowwiseMoments|GammaBeta|triton_(?:red|per)_"
)
# What moves whole rows or belongs to an optimizer: torch.compile of a model does not merge it with its neighbours.
NOT_MERGED: Final = _any_of(
    r"^(?!triton_).*(?:CatArray|(?<![a-z])index_|index(?:select|func)|gather|scatter|embedding)",
    r"multi_tensor_apply|foreach|(?:fused|multi_?tensor)_?(?:adam|sgd|adagrad|lamb)|adam_?w?_?(?:cuda|functor|kernel)",
)
# Of PyTorch's own kernels those that treat one tensor, element by element.
TENSORWISE: Final = _any_of(r"at::native::(?!index_)\w*elementwise_kernel")
# kernels that copy and change the type: with loads and stores of another type, or named for the type
CONVERSION: Final = _any_of(
    r"lambda\((?:float|double|c10::(?:Half|BFloat16|Float8\w*))\).*(?:Load|Store)WithCast",
    r"(?:bfloat16|float16|float8\w*)_copy_kernel",
)
# what Winograd's convolutions do around their product
TRANSFORM: Final = _any_of(r"winograd\w*(?:data|filter|delta|output|tiles)")
LAYOUT: Final = _any_of(
    r"nchwtonhwc|nhwctonchw|nchw2nhwc|nhwc2nchw|nchwaddpadding|batched_transpose|transpose_(?:nchw|cnhw)"
)
COLLECTIVE: Final = _any_of(
    r"nccl\w*kernel|nccl_|rccl|msccl|allreduce|cross_device_reduce|(?:one|two)_shot_all_reduce|multimem_"
)
GROUP_RANKS: Final = re.compile(r"\[(\d{1,9}(?:, ?\d{1,9})*)")  # "[0, 1, ..., 7]" where there are many
POINT_TO_POINT: Final = _any_of(r"SendRecv|ncclDevKernel_(?:Send|Recv)")
# what some ranks leave before others: the root sends and goes, or only the root gets the result
ONE_SIDED: Final = _any_of(r"nccl\w*Kernel_(?:Broadcast|Reduce)_|SendRecv")
REDUCTION: Final = _any_of(r"all_?reduce|reduce_?scatter|Kernel_Generic")  # RCCL's kernels are generic
SHARDED: Final = _any_of(r"all_?gather|reduce_?scatter")
PASSING: Final = _any_of(r"SendRecv|all_?to_?all|Kernel_(?:Send|Recv)|^(?:send|recv)$")
REDUCE_SCATTER: Final = _any_of(r"reduce_?scatter")
# what PyTorch calls collectives ("Collective name"); of coalesced ones it does not say how much they carry
ALL_REDUCE_CALL: Final = _any_of(r"^all_?reduce$")
ONE_SIDED_CALL: Final = _any_of(r"^(?:broadcast|reduce|gather|scatter|send|recv)$")
GATHER_CALL: Final = _any_of(r"^_?(?:all_?gather|reduce_?scatter)(?:_base|_into_tensor|_tensor)?$")
COMPILED: Final = _any_of(
    r"(?<![a-z])triton_(?:poi|red|per|for|spl|tem|fused)_|^triton_(?:_\d[\dde]*)?$",
    r"CompiledF(?:x|u)|Torch-Compiled Region|_inductor/cudagraph",
)
HOST_TO_DEVICE: Final = _any_of(r"HtoD|HostToDevice|H2D")
DEVICE_TO_HOST: Final = _any_of(r"DtoH|DeviceToHost|D2H")
DEVICE_TO_DEVICE: Final = _any_of(r"DtoD|DeviceToDevice|D2D")
PEER_TO_PEER: Final = _any_of(r"PtoP|P2P")
PAGEABLE: Final = _any_of(r"Pageable")
PINNED: Final = _any_of(r"Pinned")

# models of GPUs
CDNA3: Final = _any_of(r"MI3[0-2]\d")

# runtime calls
KERNEL_LAUNCH: Final = _any_of(r"^(?:cu(?:da)?|hip)\w*Launch(?!HostFunc)")
GRAPH_LAUNCH: Final = _any_of(r"^(?:cuda|cu|hip)GraphLaunch(?:_pt\w+)?$")
BLOCKING: Final = _any_of(
    r"^(?:cuda|hip)(?:Stream|Device|Event)Synchronize(?:_ptsz)?$",
    r"^cu(?:Stream|Ctx|Event)Synchronize(?:_ptsz)?$",
    r"^(?:cuda|hip)Memcpy(?:WithStream|2D|3D|ToSymbol|FromSymbol)?(?:_ptds)?$",
    r"^(?:cu|hip)Memcpy(?:HtoD|DtoH|DtoD)?(?:_v2)?(?:_ptds)?$",
)
ALLOCATOR: Final = _any_of(
    r"^(?:cuda|hip)(?:Malloc|Free|HostAlloc|HostMalloc|HostFree|MallocHost|FreeHost|ExtMalloc|Host(?:Unr|R)egister)\w*$",
    r"^(?:cu|hip)Mem(?:Create|Map|Unmap|Release|SetAccess|Alloc|Free|AddressReserve|AddressFree)\w*$",
)
# cudaMallocAsync is not among them: it takes from the driver's pool, as the caching allocator does from its own.
DEVICE_ALLOCATION: Final = _any_of(
    r"^(?:cuda|hip)(?:Malloc|Free|ExtMallocWithFlags)$",
    r"^(?:cu|hip)Mem(?:Create|Map|Unmap|Release|Alloc|Free)(?!Host|Async|FromPool)\w*$",
)
MODULE_LOAD: Final = _any_of(r"(?:Module|Library)_?Load|Lazy Function Loading|Triggered Module Loading")
CAPTURE: Final = _any_of(r"StreamBeginCapture")
TIMING: Final = _any_of(r"^(?:cuda|cu|hip)EventElapsedTime")

# ranges and Python frames
PROFILER_STEP: Final = re.compile(r"^ProfilerStep#(\d{1,18})$")
LOADER: Final = _any_of(
    r"^enumerate\(DataLoader\)#",
    r"torch/utils/data/dataloader\.py\(\d+\): (?:__next__|__iter__)$",
)
LOADER_IN_PROCESS: Final = _any_of(r"^enumerate\(DataLoader\)#_SingleProcess")
LOADER_WORKERS: Final = _any_of(r"^enumerate\(DataLoader\)#_MultiProcess")
LOADER_FETCH: Final = _any_of(r"torch/utils/data/_utils/fetch\.py\(\d+\)")
DATA_RANGE: Final = _any_of(
    r"^(?!enumerate\().*(?<![a-z])(?:data[_ ]?load(?:er|ing)?|load(?:ing)?[_ ]?(?:data|batch)"
    r"|data_?(?:wait|fetch|prep\w*)|(?:next|get|fetch)_?(?:train_?)?(?:data|batch)(?!_size))(?![a-z])"
)
CHECKPOINT: Final = _any_of(
    r"torch/serialization\.py\(\d+\): save|torch/distributed/checkpoint/\S+: (?:save|async_save)|safetensors/\S+: save",
    r"(?<![a-z])sav(?:e|ing)[_ ]?(?:checkpoint|ckpt|model|state\w*|pretrained)(?![a-z])",
    r"(?<![a-z])(?:(?:checkpoint|ckpt)[_ ]?sav\w*|torch\.save|write_?checkpoint)(?![a-z])",
)
_EVALUATION = (
    r"(?<![a-z])(?:eval(?:uate|uation)?(?:_(?:step|loop|epoch|model))?|validat(?:e|ion)(?:_(?:step|loop|epoch))?"
    r"|val_(?:step|loop|epoch))(?![a-z_])"
)
# Of frames the function counts, not the path, and not in libraries: `model.eval()` sets a flag, sympy has eval().
EVALUATION: Final = _any_of(
    rf"^(?!.*\.py\(\d+\): |<|nn\.Module: ).*{_EVALUATION}",
    rf"^(?!(?:.*/)?(?:torch|sympy|pydantic\w*|numpy|jax)/)(?!nn/).*\.py\(\d+\): .*{_EVALUATION}",
    r"loops/evaluation_loop\.py\(\d+\): run",
)
LOGGING: Final = _any_of(
    r"^(?:.*(?:site|dist)-packages/)?(?:torch/utils/tensorboard|wandb|tensorboard\w*|mlflow|tqdm|comet_ml|neptune|clearml)/\S+\.py\(",
    r"(?:^|/)logging/__init__\.py\(\d+\)",
    r"(?<![a-z])(?:metrics?:publish|log_?metrics?|logging|report_metrics|wandb[._]log)(?![a-z])",
    r"built-in function print",
)
GARBAGE: Final = _any_of(
    r"built-in (?:function|method) (?:gc\.)?collect\b|(?<![a-z])gc\.collect|(?<![a-z])garbage_?collect\w*",
    r"^Python GC$",  # an automatic collection: PyTorch 2.9 with record_python_gc_info
)
COMPILE: Final = _any_of(
    r"torch/_dynamo/convert_frame\.py|_inductor/compile_fx\.py\(\d+\): (?:compile_fx|fx_codegen|_compile)",
    r"triton/(?:compiler/compiler\.py\(\d+\): compile|runtime/jit\.py\(\d+\): _do_compile)",
    r"triton/runtime/autotuner\.py\(\d+\): _bench",
    r"TorchDynamo Compilation|\(dynamo_timed\)|compile_fx(?!\.py)|torch\.compile|inductor_codecache",
)
# frame and version of what runs; older PyTorch names neither, compiled autograd has a frame of its own ("!0/1/2")
REGION: Final = re.compile(r"^Torch-Compiled Region: (?:!\d{1,9}/)?\d{1,9}/(\d{1,9})(?:_\d{1,9})?$")
OPTIMIZER: Final = _any_of(
    r"^Optimizer\.(?:step|zero_grad)#",
    r"(?<![a-z])optim(?:i[sz]er)?[_. ]step(?![a-z_.])|(?<![a-z])optimi[sz]er(?:step)?(?![a-z_./])",
    r"(?:torch/optim|apex/optimizers|accelerate/optimizer)\b(?!/lr_scheduler)\S+: step$|(?<![a-z])zero_grad(?![a-z_])",
)
OPTIMIZER_STEP: Final = _any_of(r"^Optimizer\.step#")
OPTIMIZER_NAME: Final = re.compile(r"^Optimizer\.step#(\w+)\.step")
ZERO_GRAD: Final = _any_of(r"(?<![a-z])zero_grad(?![a-z_])")
# What libraries name for themselves: a range of these does not say where the user's iteration begins.
LIBRARY_RANGE: Final = _any_of(
    r"^(?:Optimizer\.|enumerate\(|nccl:|gloo:|mpi:|ucc:|DistributedDataParallel\.|FullyShardedDataParallel\.|FSDP::)",
    r"Call CompiledFxGraph|Torch-Compiled Region|TorchDynamo|AOTDispatcher|\(dynamo_timed\)",
)
EVALUATED: Final = _any_of(r"^autograd::engine::evaluate_function")
# what runs when the gradient of a parameter is complete; FSDP has nodes of its own for it
ACCUMULATE: Final = _any_of(r"AccumulateGrad$|PostBackward\w*$")
BACKWARD: Final = _any_of(r"^autograd::engine::evaluate_function|Backwards?\d*$|AccumulateGrad$")
CLIP_GRAD: Final = _any_of(r"clip_grad")
RECOMPUTE: Final = _any_of(
    r"^CheckpointFunctionBackward",
    r"checkpoint(?:ing|_activations)?\.py\(\d+\): (?:backward|unpack_hook|recompute\w*)",
)

# operators
SCALAR_READ: Final = _any_of(r"^aten::(?:_local_scalar_dense|item)$")
DATA_DEPENDENT: Final = _any_of(
    r"^aten::(?:nonzero|is_nonzero|masked_select|unique\w*|_unique\w*|where|bincount|repeat_interleave)$"
)
TO_DEVICE: Final = _any_of(r"^aten::(?:to|_to_copy|copy_|pin_memory|_pin_memory)$")
CAST: Final = _any_of(r"^aten::(?:to|_to_copy)$")
# those that compute: linear and matmul call these with batch dimensions folded, which is what has to be aligned
MATMUL_OP: Final = _any_of(r"^aten::(?:mm|addmm|bmm|baddbmm|_scaled_mm)$")
COPY: Final = _any_of(r"^aten::copy_$")
ZERO: Final = _any_of(r"^aten::(?:zero_|_foreach_zero_)$")
PIN: Final = _any_of(r"^aten::_?pin_memory$")
NORM: Final = _any_of(
    r"^aten::(?:linalg_vector_norm|norm|_foreach_norm|stack|_amp_foreach_non_finite_check_and_unscale_)$"
)


@cache
def is_tensor_core(name: str) -> bool:
    """Say whether a kernel of this name uses tensor or matrix cores."""
    return bool(TENSOR_CORE.search(name)) and not NOT_TENSOR_CORE.search(name)


@cache
def is_matmul(name: str) -> bool:
    """Say whether a kernel of this name is a matrix product or a convolution, on any core."""
    return bool(MATMUL.search(name)) and not NOT_MATMUL.search(name)


FORWARD_ONLY: Final = _any_of(
    r"^aten::(?:conv[123]d|linear|batch_norm|layer_norm|group_norm|scaled_dot_product_attention|max_pool2d|embedding)$"
)
CONVOLUTION: Final = _any_of(r"^aten::(?:cudnn_convolution|miopen_convolution|convolution_backward|_convolution)\w*$")
# of "Input Dims" each operand's sizes, of "Input type" each operand's type, "" for what is no tensor
SHAPES: Final = re.compile(r"\[((?:\d{1,18}(?:,\s*\d{1,18})*)?)\]")
TYPES: Final = re.compile(r'"([^"]*)"')
NOT_FP32_FIRST: Final = re.compile(r'^\["(?:double|c10::(?:Half|BFloat16|Float8\w*))"')  # of "Input type"
FLOATING: Final = _any_of(r"^(?:float|double|c10::(?:Half|BFloat16|Float8\w*))$")

# What work.py knows the arithmetic or the memory traffic of. The outer one of a convolution's operators names all that
# it takes; those of attention are listed where their arguments are.
COUNTED_PRODUCT: Final = _any_of(r"^aten::(?:mm|addmm|_addmm_activation|bmm|baddbmm|_scaled_mm)$")
CONVOLUTION_CALL: Final = _any_of(r"^aten::convolution$")
CONVOLUTION_GRADIENT: Final = _any_of(r"^aten::(?:convolution_backward|(?:cudnn|miopen)_convolution_backward)$")
ATTENTION_CALL: Final = _any_of(
    r"^aten::_scaled_dot_product_(?:flash|efficient|cudnn)_attention(?:_backward)?$",
    r"^flash_attn::_flash_attn_(?:for|back)ward$",
)
FILLS: Final = _any_of(r"^aten::(?:fill_|zero_)$")
READS: Final = _any_of(r"^aten::(?:sum|mean|amax|amin|max|min|argmax|argmin|any|all|linalg_vector_norm|norm|cumsum)$")
NORMALIZES: Final = _any_of(
    r"^aten::(?:native_layer_norm|native_group_norm|native_batch_norm|(?:cudnn|miopen)_batch_norm|_softmax|_log_softmax"
    r"|_fused_rms_norm)$"
)
NORMALIZES_BACK: Final = _any_of(
    r"^aten::(?:native_(?:layer|group|batch)_norm_backward|(?:cudnn|miopen)_batch_norm_backward"
    r"|_softmax_backward_data|_log_softmax_backward_data)$"
)
COMPARES: Final = _any_of(r"^aten::(?:eq|ne|lt|gt|le|ge|logical_\w+|isnan|isinf)$")
# by the number of tensors that are read, where they are tensors: a result that is given ("out=") is none of them
ELEMENTWISE_OPS: Final = {
    1: _any_of(
        r"^aten::(?:sqrt|rsqrt|exp|log|log1p|abs|neg|tanh|sigmoid|silu|gelu|relu|clamp|clamp_min|clamp_max|threshold|sin|cos"
        r"|leaky_relu|hardtanh|hardswish|hardsigmoid|erf|reciprocal|elu|native_dropout|tril|triu|isnan|isinf|logical_not"
        r"|bernoulli|normal|uniform)_?$"
    ),
    2: _any_of(
        r"^aten::(?:add|sub|rsub|mul|div|pow|maximum|minimum|eq|ne|lt|gt|le|ge|logical_(?:and|or|xor)|masked_fill"
        r"|(?:tanh|sigmoid|silu|gelu|threshold|leaky_relu|hardtanh|hardswish|hardsigmoid|elu|native_dropout)_backward)_?$"
    ),
    3: _any_of(r"^aten::(?:where|addcmul|addcdiv|lerp)_?$"),
}
COUNTED: Final = _any_of(
    *(
        pattern.pattern
        for pattern in (
            COUNTED_PRODUCT, CONVOLUTION_CALL, CONVOLUTION_GRADIENT, ATTENTION_CALL, COPY, FILLS, READS, NORMALIZES,
            NORMALIZES_BACK, *ELEMENTWISE_OPS.values(),
        )
    )
)  # fmt: skip
# where weights stand among the tensors of operators
WEIGHT_PLACES: Final = {
    "aten::addmm": (0, 2),
    "aten::convolution": (1, 2),
    "aten::native_layer_norm": (2, 3),
    "aten::cudnn_batch_norm": (1, 2),
    "aten::native_batch_norm": (1, 2),
    "aten::linear": (1, 2),
}
# what makes a weight's size out of more than weights: products that sum over the batch
PRODUCES: Final = _any_of(r"^aten::(?:mm|addmm|bmm|baddbmm|_scaled_mm)$|conv|norm")
