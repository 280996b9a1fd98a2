from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.infer.one_by_one import loop_of_items
from whyidle.lint.rules.reached import bindings
from whyidle.lint.source import Source

FACTORIES = {"pipeline": "transformers", "LLM": "vllm"}  # what makes something that generates when called


class NoBatching(Check):
    """A language model generates for one prompt after the other.

    ## Why it costs time
    A decoding step reads all weights, whether for one sequence or for fifty: with one at a time the GPU does a fraction
    of what it can, and waits for the host between its many short kernels.

    ## How we know
    `generate`, or a pipeline, is called once per item of a loop over prompts, in a program that does not train. How
    many prompts there are, and how long, cannot be seen.

    ## When to ignore it
    Few prompts, prompts of very different length that padding would waste, or no memory for the caches of several.
    """

    cost = "launch"
    sees = (Called,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        assert isinstance(event, Called)
        if event.where.guard in {"rare", "error"} or job.trains or job.gpu == "no":
            return
        made_by = _made_by(event)
        if not made_by and not (event.name == ".generate" and "transformers" in job.frameworks):
            return
        loop = loop_of_items(event.source, event.node)
        if loop is None or _pads(loop):
            return
        over = ast.unparse(loop.iter)
        yield Hit(
            node=event.node,
            message="The model generates for one item at a time: a batch takes little longer than one of them.",
            severity="low",
            confidence=0.6,
            also=(loop.iter,),
            title="generate for many prompts at once",
            change=_change(made_by, event, over),
            risk="memory for the caches of all prompts of a batch; padding has to stand on the left",
        )

    cases = (
        Invalid(
            "tokenized and generated one by one",
            """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")

def answer(prompts):
    answers = []
    for prompt in prompts:
        inputs = tokenizer(prompt, return_tensors="pt").to("cuda")
        with torch.no_grad():
            output = model.generate(**inputs, max_new_tokens=64)  # !
        answers.append(tokenizer.decode(output[0]))
    return answers
""",
        ),
        Invalid(
            "an engine that batches by itself, if it may",
            """
import torch
from vllm import LLM, SamplingParams

llm = LLM(model="meta-llama/Llama-3.1-8B-Instruct")
params = SamplingParams(max_tokens=256)

def main(rows):
    for row in rows:
        result = llm.generate(row["prompt"], params)  # !
        row["answer"] = result[0].outputs[0].text
""",
        ),
        Invalid(
            "a pipeline",
            """
from transformers import pipeline

generator = pipeline("text-generation", model="gpt2", device=0)

def main(dataset):
    return [generator(row["question"], max_new_tokens=32)[0]["generated_text"] for row in dataset]  # !
""",
        ),
        Valid(
            "in batches",
            """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")

def answer(prompts, batch_size=32):
    for start in range(0, len(prompts), batch_size):
        inputs = tokenizer(prompts[start : start + batch_size], return_tensors="pt", padding=True).to("cuda")
        yield from tokenizer.batch_decode(model.generate(**inputs, max_new_tokens=64))

def again(chunks):
    for part in chunks:
        yield model.generate(**tokenizer(part, return_tensors="pt", padding=True).to("cuda"))
""",
        ),
        Valid(
            "three examples to look at",
            """
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
prompts = ["Once upon a time", "The capital of France is", "def fibonacci(n):"]
for prompt in prompts:
    inputs = tokenizer(prompt, return_tensors="pt").to("cuda")
    print(tokenizer.decode(model.generate(**inputs)[0]))
""",
        ),
        Valid(
            "all at once",
            """
from vllm import LLM

llm = LLM(model="meta-llama/Llama-3.1-8B-Instruct")

def main(prompts):
    for output in llm.generate(prompts):
        print(output.outputs[0].text)
""",
        ),
    )


def _made_by(event: Called) -> str:
    """Return the library whose pipeline or engine is called; "" where it is neither."""
    function = event.node.func
    if isinstance(function, ast.Attribute) and function.attr in {"generate", "chat"}:
        function = function.value
    elif not isinstance(function, ast.Name):
        return ""
    return _factories(event.source).get(function.id, "") if isinstance(function, ast.Name) else ""


@lru_cache(4)  # asked at each call of a name
def _factories(source: Source) -> dict[str, str]:
    """Return the variables of a file that get a pipeline or an engine, and of what library."""
    if not any(f"{made}(" in source.text for made in FACTORIES):  # most files: bindings take time
        return {}
    found: dict[str, str] = {}
    for name, values in bindings(source.tree).items():
        made = (ast.unparse(value.func).rpartition(".")[2] for value in values if isinstance(value, ast.Call))
        libraries = (FACTORIES[one] for one in made if one in FACTORIES)
        found[name] = next((library for library in libraries if library in source.text), "")
    return found


def _pads(loop: ast.For | ast.comprehension) -> bool:
    """Say whether something in a loop is padded, so that it is a batch already."""
    words = (node for node in ast.walk(loop) if isinstance(node, ast.keyword))
    return any(word.arg in {"padding", "batch_size"} for word in words)


def _change(made_by: str, event: Called, over: str) -> str:
    called = ast.unparse(event.node.func)
    if made_by == "vllm":
        return f"outputs = {called}([...], params)  # all prompts of {over} in one list"
    if made_by == "transformers":
        return f"outputs = {called}([...], batch_size=32)  # all prompts of {over} in one list, or a generator of them"
    return (
        'tokenizer.padding_side = "left"\n'
        "inputs = tokenizer(prompts[i : i + 32], return_tensors='pt', padding=True).to(model.device)\n"
        f"outputs = {called}(**inputs)"
    )
