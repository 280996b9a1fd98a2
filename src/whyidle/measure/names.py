"""What a name means: the field's vocabulary of kernels, runtime calls, operators and ranges, as patterns.

Each entry is matched once per distinct string of a trace, never per event. The tensor-core pattern and its vetoes:
checked on 15 names that use them and 13 that do not (tests/measure/test_names.py).
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
    r"tensorop|nvjet|device_kernel.*(?:sm90|sm100|MainloopSm90|MainloopSm100)",
    r"flash_(?:fwd|bwd)|flash::|fmha|cudnn_.*(?:sdpa|flash)",
    r"triton_tem_|triton_mm|_attn_fwd|_attn_bwd",
    r"cijk_.*(?:_HHS|_BBS|_HSS|_BSS|_HB_|_BB_|_F8).*MI(?:16|32)|mfma",
    r"dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv2d_c1_k1",
)
NOT_TENSOR_CORE: Final = _any_of(
    r"sgemm|simt|gemv|splitkreduce|elementwise|reduce_kernel|nchwtonhwc|nhwctonchw|winograd(?!.*(?:hmma|16816|884))"
)
MATMUL: Final = _any_of(
    r"gemm|gemv|xmma|cutlass|cublas|cudnn.*(?:conv|grad)|scudnn|convolve|_conv|conv2d|conv3d|implicit_con|winograd",
    r"wgrad|dgrad|fprop|nvjet|cijk_|flash|fmha|sdpa|attention|_attn_|triton_tem_|triton_mm|igemm|mfma|tensorop|miopen.*conv",
    r"(?<![a-z])(?:h|w|ig?)?mma(?![a-z])",
)
NOT_MATMUL: Final = _any_of(
    r"elementwise|reduce_kernel|nchwtonhwc|nhwctonchw|computeoffsets|splitkreduce|softmax|layer_?norm|batch_?norm|memset"
)
ELEMENTWISE: Final = _any_of(
    r"elementwise|reduce_kernel|triton_(?:poi|red|per)_|cunn_softmax|softmax_warp|layer_?norm|batch_?norm|bn_(?:fw|bw)",
    r"CatArray|index(?:_|select|func)|dropout|foreach|multi_tensor_apply|distribution",
)
CAST_COPY: Final = _any_of(
    r"direct_copy_kernel|float\w*_copy_kernel|copy_kernel_cuda|copy_device_to_device|LoadWithCast"
)
LAYOUT: Final = _any_of(r"nchwtonhwc|nhwctonchw|nchw2nhwc|nhwc2nchw|nchwaddpadding|batched_transpose|transpose_nchw")
COLLECTIVE: Final = _any_of(r"nccl(?:dev)?kernel|ncclKernel|nccl_|rccl|msccl|onenode.*allreduce|cross_device_reduce")
COMPILED: Final = _any_of(r"triton_(?:poi|red|per|for|tem)_|CompiledF(?:x|u)|Torch-Compiled Region|cudagraph")
HOST_TO_DEVICE: Final = _any_of(r"HtoD|HostToDevice|H2D")
DEVICE_TO_HOST: Final = _any_of(r"DtoH|DeviceToHost|D2H")
DEVICE_TO_DEVICE: Final = _any_of(r"DtoD|DeviceToDevice|D2D")
PEER_TO_PEER: Final = _any_of(r"PtoP|P2P")
PAGEABLE: Final = _any_of(r"Pageable")
PINNED: Final = _any_of(r"Pinned")

# runtime calls
KERNEL_LAUNCH: Final = _any_of(r"^(?:cu(?:da)?|hip)\w*Launch(?!HostFunc)")
BLOCKING: Final = _any_of(
    r"^(?:cuda|hip)(?:Stream|Device|Event)Synchronize$",
    r"^cu(?:Stream|Ctx|Event)Synchronize$",
    r"^(?:cuda|hip)Memcpy(?:WithStream|2D|3D|ToSymbol|FromSymbol)?$",
    r"^cuMemcpy(?:HtoD|DtoH|DtoD)?(?:_v2)?$",
)
ALLOCATOR: Final = _any_of(
    r"^(?:cuda|hip)(?:Malloc|Free|HostAlloc|HostMalloc|HostFree|MallocHost|FreeHost|ExtMalloc)\w*$",
    r"^cuMem(?:Create|Map|Unmap|Release|SetAccess|Alloc|Free)\w*$",
)
DEVICE_ALLOCATION: Final = _any_of(
    r"^(?:cuda|hip)(?:Malloc|Free)(?:Async)?$", r"^cuMem(?:Create|Map|Unmap|Release|Alloc|Free)\w*$"
)
MODULE_LOAD: Final = _any_of(r"(?:Module|Library)Load")
CAPTURE: Final = _any_of(r"StreamBeginCapture")

# ranges and Python frames
PROFILER_STEP: Final = re.compile(r"^ProfilerStep#(\d+)$")
LOADER: Final = _any_of(r"^enumerate\(DataLoader\)#", r"torch/utils/data/dataloader\.py\(\d+\): __next__")
LOADER_IN_PROCESS: Final = _any_of(r"^enumerate\(DataLoader\)#_SingleProcess")
LOADER_WORKERS: Final = _any_of(r"^enumerate\(DataLoader\)#_MultiProcess")
DATA_RANGE: Final = _any_of(
    r"(?<![a-z])(?:data_?load(?:er|ing)?|load_?(?:data|batch)|(?:next|get|fetch)_?(?:data|batch)|data_?(?:wait|fetch|prep\w*))(?![a-z])"
)
CHECKPOINT: Final = _any_of(
    r"torch/serialization\.py\(\d+\): save|torch/distributed/checkpoint/\S+: (?:save|async_save)|safetensors/\S+: save",
    r"(?<![a-z])(?:save_?(?:checkpoint|model|state\w*|pretrained)|checkpoint_?sav\w*|torch\.save|write_?checkpoint)(?![a-z])",
)
EVALUATION: Final = _any_of(
    r"(?<![a-z])(?:eval(?:uate|uation)?(?:_(?:step|loop|epoch|model))?|validat(?:e|ion)(?:_(?:step|loop|epoch))?|val_(?:step|loop|epoch))(?![a-z_])"
)
LOGGING: Final = _any_of(
    r"(?:^|/)(?:wandb|tensorboard\w*|mlflow|tqdm|comet_ml)/|logging/__init__\.py\(\d+\)|utils/tensorboard/",
    r"(?<![a-z])(?:metrics?:publish|log_?metrics?|logging|report_metrics)(?![a-z])|built-in function print",
)
GARBAGE: Final = _any_of(
    r"built-in (?:function|method) (?:gc\.)?collect|(?<![a-z])gc\.collect|(?<![a-z])garbage_?collect\w*"
)
COMPILE: Final = _any_of(
    r"torch/_dynamo/convert_frame\.py|_inductor/compile_fx\.py\(\d+\): (?:compile_fx|fx_codegen|_compile)",
    r"triton/compiler/compiler\.py",
    r"TorchDynamo Compilation|compile_fx|torch\.compile|inductor_codecache",
)
OPTIMIZER: Final = _any_of(
    r"^Optimizer\.(?:step|zero_grad)#",
    r"(?<![a-z])optimi[sz]er(?:_?step)?(?![a-z_.])|torch/optim/\S+: (?:step|zero_grad)$",
)
OPTIMIZER_STEP: Final = _any_of(r"^Optimizer\.step#", r"torch/optim/\S+: step$")
BACKWARD: Final = _any_of(r"^autograd::engine::evaluate_function|Backward\d*$|AccumulateGrad$")
CLIP_GRAD: Final = _any_of(r"clip_grad")
RECOMPUTE: Final = _any_of(r"^CheckpointFunctionBackward|checkpoint\.py\(\d+\): (?:backward|unpack_hook|recompute\w*)")

# operators
SCALAR_READ: Final = _any_of(r"^aten::(?:_local_scalar_dense|item)$")
DATA_DEPENDENT: Final = _any_of(
    r"^aten::(?:nonzero|is_nonzero|masked_select|unique\w*|_unique\w*|where|bincount|repeat_interleave)$"
)
TO_DEVICE: Final = _any_of(r"^aten::(?:to|_to_copy|copy_|pin_memory|_pin_memory)$")
CAST: Final = _any_of(r"^aten::(?:to|_to_copy)$")
MATMUL_OP: Final = _any_of(r"^aten::(?:mm|addmm|bmm|baddbmm|linear|matmul|_scaled_mm)$")
PIN: Final = _any_of(r"^aten::_?pin_memory$")
NORM: Final = _any_of(r"^aten::(?:linalg_vector_norm|norm|_foreach_norm|stack)$")


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
DIMENSIONS: Final = re.compile(r"\[(\d+(?:,\s*\d+)+)\]")
