from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class ChannelsLast(Rule):
    """Tensors are converted between NCHW and NHWC around convolutions.

    ## Why it costs time
    Convolutions on tensor cores want channels last (NHWC). PyTorch's default is channels first, so cuDNN
    converts the input before a convolution and the output after it: two passes through memory that
    compute nothing.

    ## How we know
    Kernels named `nchwToNhwc` and `nhwcToNchw` run around the convolutions, and we add up their time.

    ## When to ignore it
    Layers in between know only channels first; then the conversions move and do not vanish. In plain
    fp32, without TF32, channels last may be slower. On AMD GPUs PyTorch asks MIOpen for channels last only
    with `PYTORCH_MIOPEN_SUGGEST_NHWC=1` in the environment, unless its build does so by default.
    """

    needs = (("layout_share",),)
    uses = READ

    confidence = Threshold(0.8, "probability", source="the kernels' names; 8% of the time in one public recording")
    applies = Threshold(0.7, "probability", source="judgement: layers without channels-last kernels remain")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        share = m.number("layout_share")
        lost = saved(m, share)
        yield from self.finding(
            f"Conversions between NCHW and NHWC around convolutions cost {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"layout-conversion kernels (nchwToNhwc and back): {share:.0%} of the time{proviso(m)}",
            locations=m.one("layout_share").locations,
            fixes=(
                Fix(
                    "keep model and images in channels last",
                    "model = model.to(memory_format=torch.channels_last)\n"
                    "images = images.to(memory_format=torch.channels_last)",
                    effort="setting",
                    applies=self.applies,
                    risk=(
                        "code that calls .view() on images has to use .reshape(); "
                        "on AMD it may need PYTORCH_MIOPEN_SUGGEST_NHWC=1"
                    ),
                    edits=(Edit("remove_device", {"class": "layout"}),),
                ),
            ),
        )

    cases = (
        Fires("half-precision convolutions, channels first", layout_share=0.08),
        Silent("channels last already", layout_share=0.0),
        Silent("one odd layer", layout_share=0.012),
        Silent("the GPU waits for the host anyway", layout_share=0.08, gpu_limited_share=0.1),
    )
