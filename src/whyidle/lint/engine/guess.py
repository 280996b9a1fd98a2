"""What a name that nothing defines probably is: by what people call models, loaders, optimizers and losses."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from whyidle.lint.values import ASSUMED, HOST, UNKNOWN, Value

_MODULE = re.compile(
    r"(^|_)(model|net|network|module|generator|discriminator|encoder|decoder|unet|vae|backbone|student|teacher|actor|"
    r"critic|agent|policy|q_network|target_network|criterion|criterions|crit|loss_fn|loss_func|loss_function|"
    r"transformer|gen|dis|disc|lm|gan|resnet|vit|ema_model|raw_model|model_engine|netg|netd|net_g|net_d|qf\d?|"
    r"mse_loss|ce_loss|bce_loss|l1_loss)(_?(g|d|ema|module|without_ddp|engine|\d))?$",
    re.IGNORECASE,
)
_OPTIMIZER = re.compile(r"(^|_)(optim|optimizer|optimizers|optimiser)(_?\w{1,13})?$|_opt$|^opt_\w$", re.IGNORECASE)
_LOADER = re.compile(r"(^|_)(data_?loaders?|loaders?|dl|train_iter|data_iter|dataiter|batches)(_?\w{1,6})?$", re.I)
_SETTINGS = re.compile(
    r"^_?(args?|cfg|config|conf|hparams|hps|hp|flags|opt|opts|options|params|settings|training_args|model_args|"
    r"data_args|script_args|job_config|C)$",
    re.IGNORECASE,
)
_SCALER = re.compile(r"(^|_)(grad_?scaler|loss_?scaler|scaler|amp_scaler)$", re.IGNORECASE)
_SCHEDULER = re.compile(r"(^|_)(scheduler|sched|lr_scheduler|lr_sched|warmup_scheduler)$", re.IGNORECASE)
_DEVICE = re.compile(r"(^|_)(device|dev|gpu|local_rank|device_id|gpu_id)s?$", re.IGNORECASE)
_ENVIRONMENT = re.compile(r"(^|_)(env|envs|environment|vec_env|gym_env)$", re.IGNORECASE)
_LOSS = re.compile(
    r"^((\w+_)?loss(_?(g|d|mean|avg|sum|value|total|\d|a|b|gan|l1|mse|kl|ce|rec|adv|batch|accum))?|err[dg]\w*|lossf)$",
    re.IGNORECASE,
)
TEXT = re.compile(r"(^|_)(names?|paths?|urls?|titles?|captions?|filenames?)$", re.IGNORECASE)
_OUTPUT = re.compile(r"^(logits?|outputs?|preds?|predictions|y_hat|hidden_states|embeddings|log_probs?)$")
_ACCELERATOR = re.compile(r"^(accelerator|fabric)$")
_BATCH = re.compile(r"^(batch|minibatch|mini_batch|batch_data)$")
_METRIC = re.compile(r"(^|_)(metrics?|map_metric|f1_metric|acc_metric)$")

# Annotations of lists and dicts of numbers and texts: `list[int]`, `Optional[Dict[str, List[float]]]`.
_HOST_DATA = re.compile(
    r"^(?=.*\b(int|float|str|bool)\b)((typing\.|t\.)?(List|Dict|Tuple|Set|Sequence|Optional|list|dict|tuple|set)\b"
    r"|int|float|str|bool|None|[\s,\[\]|.])+$"
)

# What people ask of tensors; who asks for anything else has something else.
TENSOR_LIKE = frozenset(
    "abs add all any argmin clone cpu copy_ cos cumsum data dim div double dtype eq exp fill_ float ge gt half "
    "index_add_ int is_contiguous item le log long lt masked_select max mean min mm mul ne neg new_empty new_full "
    "new_tensor nonzero norm numel numpy pow prod qr reciprocal repeat reshape round rsqrt shape sin size sort "
    "split sqrt square std sub sum t tanh to tolist topk tril triu type unbind unique unfold var where zero_ chunk "
    "matmul bmm relu sigmoid_ is_floating_point logical_not logical_and bool sub_ pin_memory record_stream itemsize "
    "T mT stride".split()
)

# Attributes and methods that only tensors have: who uses one says that the name is a tensor.
TENSOR_ONLY = frozenset(
    "device detach backward argmax unsqueeze squeeze view permute masked_fill softmax requires_grad grad is_cuda "
    "cuda new_zeros new_ones new_tensor flatten expand scatter_ gather index_select contiguous log_softmax sigmoid "
    "transpose type_as clamp clamp_ mul_ add_ div_ ndim".split()
)


@lru_cache(4096)  # the same few names make up most of any program
def named(name: str, *, parameter: bool = False) -> Value:
    """Return what something of this name most likely is; unknown for most names."""
    for pattern, kind in (
        (_SETTINGS, "settings"),
        (_SCALER, "scaler"),
        (_SCHEDULER, "scheduler"),
        (_OPTIMIZER, "optimizer"),
        (_LOADER, "loader"),
        (_DEVICE, "device"),
        (_ENVIRONMENT, "environment"),
        (_ACCELERATOR, "accelerator"),
        (_METRIC, "metric"),
    ):
        if pattern.search(name):
            return Value(kind)  # type: ignore[arg-type]
    if _MODULE.search(name) and not name.endswith("_loss"):
        return Value("module", "assumed")
    if parameter and (_LOSS.search(name) or _OUTPUT.search(name)):
        return ASSUMED
    if parameter and _BATCH.search(name):
        return HOST.but(is_batch=True, pinned=None)
    return UNKNOWN


def annotated(annotation: ast.expr | None) -> Value | None:
    """Return what a parameter is by its annotation; None where that says nothing to us."""
    if annotation is None:
        return None
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    if not isinstance(text, str):
        return None
    if _HOST_DATA.match(text):
        return Value("plain")
    bare = text.replace(" ", "").removesuffix("|None").removeprefix("Optional[").rstrip("]")
    last = bare.rpartition(".")[2]
    if re.search(r"\b(Tensor|FloatTensor|LongTensor|BoolTensor)\b", text):
        return ASSUMED if not re.search(r"Callable|Iterator|Generator|Type\[", text) else None
    if last in {"int", "float", "str", "bool", "bytes", "Path", "ndarray", "Namespace", "complex"}:
        return Value("settings") if last == "Namespace" else Value("plain")
    if re.search(r"\bDataLoader\b", text):
        return Value("loader")
    if last in {"Module"} or last.endswith("Model"):
        return Value("module", "assumed")
    if last == "Optimizer":
        return Value("optimizer")
    if last == "device":
        return Value("device")
    return None


def of_parameter(argument: ast.arg, uses: frozenset[str], *, in_forward: bool = False) -> Value:
    """Return what a parameter most likely is: by annotation, by what is done with it, by its name."""
    said = annotated(argument.annotation)
    if said is not None:
        return said
    guess = named(argument.arg, parameter=True)
    if guess.kind == "unknown" and uses & TENSOR_ONLY and uses <= TENSOR_ONLY | TENSOR_LIKE:
        return ASSUMED
    if guess.kind == "settings" and uses & {"step", "zero_grad", "param_groups"}:
        return Value("optimizer")
    if guess.kind == "unknown" and "step" in uses and "zero_grad" in uses:
        return Value("optimizer")
    if guess.kind == "unknown" and in_forward:
        return ASSUMED
    return guess
