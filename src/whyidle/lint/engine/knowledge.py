"""What the names of PyTorch and its neighbours mean: which calls make tensors, modules and loaders."""

from __future__ import annotations

import re

# Functions of torch that make a tensor out of nothing; on the host unless `device=` says otherwise.
FACTORIES = frozenset(
    "tensor as_tensor zeros ones empty full arange linspace logspace eye rand randn randint randperm normal "
    "from_numpy frombuffer asarray scalar_tensor tril_indices triu_indices hann_window hamming_window".split()
)
# Attributes and methods of tensors that the host knows without asking the GPU.
KNOWN_ON_HOST = frozenset(
    "shape dtype ndim layout is_cuda is_cpu requires_grad is_leaf names itemsize nbytes grad_fn size dim stride numel "
    "nelement element_size data_ptr get_device is_contiguous is_floating_point is_complex storage_offset type "
    "is_sparse ndimension is_pinned is_meta output_nr retains_grad backward register_hook".split()
)
# Attributes of that kind by how they are called: of tensors ("is_xpu") and of what subclasses and holders of them add.
COUNTS = re.compile(
    r"^is_(?!nonzero)|numel$|_shape$|^num_|^get_num_|^count_|^estimate_|flops$|_ops$|placements$|_mesh$"
)
# Methods that give truth values, element by element or as one.
BOOLEAN = frozenset(
    "eq ne gt lt ge le greater less greater_equal less_equal not_equal isnan isinf isfinite isposinf isneginf isclose "
    "logical_and logical_or logical_not logical_xor any all bool isin is_nonzero signbit".split()
)
# Methods whose result the host holds.
READS = frozenset("item tolist".split())
MODULE_WRAPPERS = frozenset(
    "DistributedDataParallel DataParallel FullyShardedDataParallel FSDP DDP compile fully_shard AveragedModel "
    "convert_sync_batchnorm OptimizedModule ModelEmaV2 ModelEmaV3 ModelEma".split()
)
SAME_MODULE = frozenset(
    "to cuda cpu half float double bfloat16 train eval requires_grad_ type apply share_memory compile xpu mps "
    "to_empty".split()
)
MODULE_FACTORY = re.compile(
    r"(^|\.)(torchvision\.models|timm\.models|segmentation_models_pytorch|transformers\.(Auto)?Model\w*"
    r"|open_clip\.create_model|hub\.load)(\.|$)|"
    r"(^|[._])(create|build|get|make|load|init|setup)_?(\w*_)?(model|net|network|backbone|unet|vae|criterion|loss_fn|"
    r"encoder|decoder|generator|discriminator)s?$|(^|\.)(timm\.create_model|Model|Net)$",
    re.IGNORECASE,
)
NOT_A_MODEL = re.compile(r"tokeni[sz]er|processor|config|scheduler|dataset|feature_?extractor", re.IGNORECASE)
LOADERS = re.compile(
    r"(^|\.)(\w*DataLoader|\w*DataLoader2|MultiEpochsDataLoader|FastDataLoader|InfiniteDataLoader|NodeLoader|"
    r"NeighborLoader|WebLoader|GraphDataLoader)$"
)
LOADER_FACTORY = re.compile(
    r"(^|[._])(create|build|get|make|setup|prepare|load|init)?_?(\w*_)?(data_?)?loaders?$|(^|[._])dataloaders?$",
    re.IGNORECASE,
)
LOADER_ARGUMENTS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip
# Calls that take options from the command line by the fields of dataclasses.
DECLARED = re.compile(
    r"^tyro\.|ArgumentParser$|TrlParser$|(^|\.)(CLI|cli)$|^(simple_parsing|pyrallis|draccus|chz|jsonargparse|datargs)\.|"
    r"^\.(add_arguments|parse_args_into_dataclasses|add_class_arguments)$"
)
METRICS = re.compile(r"^(torchmetrics|torcheval\.metrics|ignite\.metrics|evaluate\.load|datasets\.load_metric)")
ACCELERATORS = re.compile(r"(^|\.)(Accelerator|Fabric)$")
SCALERS = re.compile(r"(^|\.)(\w*GradScaler|NativeScaler\w*|LossScaler|ApexScaler)$")
AUTOCAST = re.compile(r"(^|[._])(autocast|amp_?autocast|autocast_\w+|mixed_precision|amp_ctx|autocast_ctx|amp)$")
NO_GRAD = re.compile(r"(^|\.)(no_grad|inference_mode|set_grad_enabled)$")
# Wrappers that hand on what they iterate.
PASSING = frozenset(
    "tqdm trange track iter list tuple sorted reversed islice cycle chain log_every skip_first_batches prange "
    "progress_bar alive_it DataPrefetcher data_prefetcher device_prefetcher rich_track _wrap_loader auto "
    "setup_dataloaders prefetch infinite_loader inf_loop repeater repeat_dataloader".split()
)
# Bases of classes whose steps a framework calls.
STEP_METHODS = frozenset("training_step train_step train_batch run_step compute_loss optimize_parameters".split())
# Methods that a framework calls beside each training step.
STEP_HOOKS = frozenset(
    "on_train_batch_start on_train_batch_end on_after_backward on_before_optimizer_step on_before_zero_grad "
    "on_step_end on_substep_end".split()
)
EVAL_METHODS = frozenset(
    "validation_step test_step predict_step evaluate validate test val eval evaluation validation eval_step "
    "prediction_step compute_metrics".split()
)
MODULE_BASES = re.compile(
    r"(^|\.)(\w*Module|\w*Model|\w*Layer|PreTrainedModel|\w*Net|nn\.\w+"
    r"|(?!DataCollator)\w+For(CausalLM|MaskedLM|PreTraining|ConditionalGeneration|QuestionAnswering|\w+Classification))$"
)
DATASET_BASES = re.compile(r"(^|\.)\w*(Dataset|ImageFolder)$")
# Functions of torch itself that take and give tensors; what stands in its other modules does not.
TENSOR_FUNCTIONS = re.compile(
    r"^torch\.(?!(cuda|backends|distributed|utils|autograd|profiler|hub|jit|random|multiprocessing|accelerator|_dynamo|"
    r"compiler|nn|optim|version|amp|package)\.|(manual_seed|save|load|set_|get_|is_(?!tensor)|no_grad|inference_mode|Generator|"
    r"use_|compile|Size|dtype|finfo|iinfo|float|bfloat16|half|Stream|Event))"
)
