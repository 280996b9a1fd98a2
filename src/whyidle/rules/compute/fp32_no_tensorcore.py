from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class Fp32NoTensorcore(Rule):
    """Matrix products and convolutions run in fp32 beside the tensor cores.

    ## Why it costs time
    Tensor cores do matrix products several times faster than the ordinary fp32 units: 156 against 19.5
    TFLOP/s on an A100 with TF32, 125 against 15.7 on a V100 with fp16. By default PyTorch keeps fp32
    matrix products (not convolutions) off TF32, for the sake of their last digits. AMD's MI300 has such
    units, too (XF32); its successor MI350 has left them out.

    ## How we know
    The names of the kernels: `sgemm`, `simt` and the like take the time, and none or few of the kernels
    that use tensor cores (`s16816`, `tensorop`, `xmma`, `nvjet`, …), on a GPU that has them.

    Where most products run in 16 bits, those that are named for fp32 (`sgemm`, `scudnn`, `simt`) were left
    out of it: a layer outside of `autocast`, or turned to fp32 inside. If the recording has the sizes of
    products, large ones are taken to reach the FLOP/s of its 16-bit ones.

    ## When to ignore it
    The matrix products are a small part of the step, or the calculation needs fp32: solvers, physics,
    some losses. Convolutions use TF32 already on Ampere and later, so the setting changes only linear
    layers and attention. Check that training still learns the same. On MI300 it depends on the build of
    PyTorch and hipBLASLt whether the setting does anything: measure it.
    """

    needs = (("matmul_share", "tensor_core_share", "tensor_cores"),)
    uses = ("half_share", "fp32_share", "fp32_compared_share", "fp32_slow_share", *READ)

    mixed = Threshold(0.25, "of matmul", source="judgement: so much in 16 bits is no accident")
    mostly = Threshold(
        0.75, "of matmul", source="judgement: above it the rest is shapes and special kernels, not a setting"
    )
    tf32_left = Threshold(
        0.36, "of kernel time", source="19.5 / 156 TFLOP/s (A100 data sheet), at 35% of the TF32 peak, assumed"
    )
    fp16_left = Threshold(
        0.25, "of kernel time", source="15.7 / 125 TFLOP/s (V100 data sheet), at half of the fp16 peak, assumed"
    )
    bf16_left = Threshold(
        0.125, "of kernel time", source="19.5 / 312 TFLOP/s (A100 data sheet), at half of the bf16 peak, assumed"
    )
    xf32_left = Threshold(
        0.5, "of kernel time", source="163.4 / 653.7 TFLOP/s (MI300X data sheet), at half of the XF32 peak, assumed"
    )
    confidence = Threshold(
        0.85, "probability", source="kernel names: 15 of 15 found, 0 of 13 false; the setting itself is not seen"
    )
    mixed_confidence = Threshold(
        0.7,
        "probability",
        source="named for fp32 beside 16-bit ones: right in 14 of 14 simulated jobs, bench/README.md; "
        "that the layer does not need fp32 is a judgement",
    )
    applies = Threshold(0.8, "probability", source="judgement: most training bears TF32's 10-bit mantissa")
    xf32_applies = Threshold(0.4, "probability", source="judgement: many builds for ROCm ignore the setting")
    autocast_applies = Threshold(
        0.5, "probability", source="judgement: mixed precision changes the numbers; the learning curve has to agree"
    )

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        units = str(m.one("tensor_cores").value)
        if m.get("half_share", 0.0) >= self.mixed and units in {"tf32", "xf32", "fp16"}:
            yield from self._left_out(m, units)
            return
        used = m.number("tensor_core_share")
        left = {"tf32": self.tf32_left, "xf32": self.xf32_left, "fp16": self.fp16_left}.get(units)
        if left is None or used >= self.mostly:
            return
        plain = m.number("matmul_share") * (1 - used)
        lost = saved(m, plain * (1 - left))
        yield from self.finding(
            f"Matrix products beside the tensor cores take {plain:.0%} of the time: "
            f"on them {lost:.0%} of the time could be saved.",
            lost_share=lost,
            confidence=self.confidence * (1 - used),
            seen=(
                f"matrix products and convolutions: {m.number('matmul_share'):.0%} of the time, {used:.0%} of that on "
                f"tensor cores, by kernel name; this GPU has {units} ones{proviso(m)}"
            ),
            locations=m.one("matmul_share").locations,
            fixes=(self._mixed(),) if units == "fp16" else (self._setting(units), self._bfloat16()),
        )

    def _left_out(self, m: Measurements, units: str) -> Iterator[Finding]:
        """Yield what is to be said of fp32 products in a job whose others run in 16 bits."""
        share, compared = m.get("fp32_share", 0.0), m.get("fp32_compared_share", 0.0)
        left = self.fp16_left if units == "fp16" else self.bf16_left
        guessed = max(share - compared, 0.0) * (1 - left)
        slow = min(m.get("fp32_slow_share", 0.0), share) + guessed
        lost = saved(m, slow)
        edit = Edit(
            "scale_device",
            {"class": "fp32"},
            {"factor": 1 - slow / share if share else 1.0} | ({"prior": 1.0} if guessed else {}),
        )
        yield from self.finding(
            f"Matrix products in fp32 take {share:.0%} of the time, beside others in 16 bits: "
            f"like those, {lost:.0%} of the time could be saved.",
            lost_share=lost,
            confidence=self.mixed_confidence,
            seen=(
                f"kernels named for fp32 (sgemm, scudnn, simt): {share:.0%} of the time; "
                f"{m.get('half_share', 0.0):.0%} of the time of products is on tensor cores in 16 bits{proviso(m)}"
            ),
            locations=m.one("fp32_share" if "fp32_share" in m else "matmul_share").locations,
            fixes=(
                self._into_autocast(edit),
                *([] if units == "fp16" else [replace(self._setting(units), edits=(self._tf32(units, "fp32"),))]),
            ),
        )

    def _into_autocast(self, edit: Edit) -> Fix:
        return Fix(
            "compute these layers in 16 bits, like the others",
            'with torch.autocast("cuda", dtype=DTYPE):  # around these layers, too\n'
            "# and inside it no .float(), autocast(enabled=False) or custom_fwd(cast_inputs=torch.float32)",
            effort="code",
            applies=self.autocast_applies,
            risk="fewer digits: somebody may have left them out for a reason; compare the learning curve",
            edits=(edit,),
        )

    def _setting(self, units: str) -> Fix:
        rocm = "\n# ROCm: through hipBLASLt, and not in every build; if nothing changes, export HIPBLASLT_ALLOW_TF32=1"
        return Fix(
            "allow TF32 for matrix products",
            'torch.set_float32_matmul_precision("high")  # once, any time before the products run'
            + (rocm if units == "xf32" else ""),
            effort="setting",
            applies=self.applies if units == "tf32" else self.xf32_applies,
            risk="inputs of matrix products are rounded to 10 bits of mantissa"
            + (", in some builds to fewer" if units == "xf32" else ""),
            edits=(self._tf32(units),),
        )

    def _bfloat16(self) -> Fix:
        return Fix(
            "use bfloat16 where it is safe",
            'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = criterion(model(x), y)',
            effort="code",
            applies=self.autocast_applies,
            risk="fewer digits: compare the learning curve",
            edits=(self._edit("bf16", self.fp16_left),),
        )

    def _tf32(self, units: str, class_: str = "matmul") -> Edit:
        return self._edit("tf32", self.tf32_left if units == "tf32" else self.xf32_left, class_)

    def _edit(self, number: str, left: float, class_: str = "matmul") -> Edit:
        which = {"class": class_, "number": number} | ({"tensor_cores": False} if class_ == "matmul" else {})
        return Edit("scale_device", which, {"factor": left, "prior": 1.0})

    def _mixed(self) -> Fix:
        return Fix(
            "use mixed precision: this GPU has tensor cores for fp16 only",
            'scaler = torch.amp.GradScaler("cuda")  # once\n'
            'with torch.autocast("cuda", dtype=torch.float16):\n'
            "    loss = criterion(model(x), y)\n"
            "scaler.scale(loss).backward()\n"
            "scaler.step(optimizer)  # before it, if gradients are clipped: scaler.unscale_(optimizer)\n"
            "scaler.update()",
            effort="code",
            applies=self.autocast_applies,
            risk="fp16 overflows where fp32 does not: keep the scaler and compare the learning curve",
            edits=(self._edit("fp16", self.fp16_left),),
        )

    cases = (
        Fires("fp32 linear layers on Ampere", matmul_share=0.6, tensor_core_share=0.0, tensor_cores="tf32"),
        Fires(
            "fp32 ResNet on a V100", matmul_share=0.4, tensor_core_share=0.0, tensor_cores="fp16", gpu_limited_share=0.7
        ),
        Fires("fp32 on an MI300", matmul_share=0.6, tensor_core_share=0.0, tensor_cores="xf32"),
        Silent(
            "the GPU waits for the host anyway",
            matmul_share=0.5,
            tensor_core_share=0.0,
            tensor_cores="tf32",
            gpu_limited_share=0.02,
        ),
        Silent("a GPU without tensor cores", matmul_share=0.6, tensor_core_share=0.0, tensor_cores="none"),
        Fires(
            "some layers in fp32 beside 16-bit ones",
            matmul_share=0.7,
            tensor_core_share=0.9,
            half_share=0.9,
            fp32_share=0.07,
            tensor_cores="tf32",
        ),
        Fires(
            "the same, with sizes: a third of their time would do",
            matmul_share=0.7,
            tensor_core_share=0.8,
            half_share=0.8,
            fp32_share=0.14,
            fp32_compared_share=0.14,
            fp32_slow_share=0.09,
            tensor_cores="tf32",
        ),
        Silent(
            "what is not on tensor cores are vectors and narrow products in 16 bits",
            matmul_share=0.7,
            tensor_core_share=0.6,
            half_share=0.6,
            fp32_share=0.0,
            tensor_cores="tf32",
        ),
        Silent("bf16: most of it is there", matmul_share=0.6, tensor_core_share=0.9, tensor_cores="tf32"),
        Silent("matrix products are not what counts", matmul_share=0.03, tensor_core_share=0.0, tensor_cores="tf32"),
    )
