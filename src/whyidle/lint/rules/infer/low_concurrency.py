from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around, function_of
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.nodes import every
from whyidle.lint.rules.infer.one_by_one import loop_of_items
from whyidle.lint.rules.reached import bindings
from whyidle.lint.source import Source

POSTS = {"requests.post", "requests.request", "httpx.post", ".post"}
ASKED = {"prompt", "messages", "inputs", "text"}
HOW = {
    "max_tokens", "max_new_tokens", "max_completion_tokens", "sampling_params", "n_predict", "temperature",
    "parameters", "model",
}  # fmt: skip
ENDPOINTS = (".completions", ".responses")


class LowConcurrency(Check):
    """A program asks a language model's server for one answer after the other.

    ## Why it costs time
    Engines such as vLLM or SGLang decode many requests in the time of one: a decoding step reads all weights whether it
    serves one request or fifty. With one request in flight most of the GPU is idle.

    ## How we know
    A request with a prompt stands in a loop over prompts, and waits for its answer there. Whether others ask the same
    server meanwhile cannot be seen. Loops that wait, time each request, or need the last answer for the next question
    are left alone, and so is a service whose GPUs are not yours, as far as its address is spelled out.

    ## When to ignore it
    Few prompts, or a server that others keep busy.
    """

    cost = "launch"
    sees = (Called,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        assert isinstance(event, Called)
        if event.where.guard in {"rare", "error"} or job.trains:
            return
        asks = (event.name in POSTS and _has_prompt(event.source, event.node)) or (
            event.name == ".create" and event.receiver_text.endswith(ENDPOINTS) and _own_server(event.source)
        )
        loop = loop_of_items(event.source, event.node) if asks else None
        if loop is None:
            return
        item = ast.unparse(loop.target)
        yield Hit(
            node=event.node,
            message="The server gets one request at a time: each prompt waits for the answer to the one before.",
            severity="low",
            confidence=0.6,
            also=(loop.iter,),
            title="keep many requests in flight",
            change="from concurrent.futures import ThreadPoolExecutor\n\n"
            "with ThreadPoolExecutor(64) as pool:  # ask: what this loop does with one item\n"
            f"    answers = list(pool.map(ask, {ast.unparse(loop.iter)}))  # one {item} each",
            risk="answers come in the order of the prompts, errors when their turn comes",
        )

    cases = (
        Invalid(
            "a loop over prompts",
            """
import requests

def ask(prompts, url):
    out = []
    for p in prompts:
        r = requests.post(url, json={"prompt": p, "max_tokens": 128})  # !
        out.append(r.json())
    return out
""",
        ),
        Invalid(
            "a client of a server of one's own, in a function",
            """
from openai import OpenAI

client = OpenAI(base_url="http://localhost:8000/v1", api_key="none")

def complete(question):
    answer = client.chat.completions.create(  # !
        model="meta-llama/Llama-3.1-8B-Instruct",
        messages=[{"role": "user", "content": question}],
        max_tokens=256,
    )
    return answer.choices[0].message.content

def main(questions):
    for question in questions:
        print(complete(question))
""",
        ),
        Valid(
            "many at a time",
            """
from concurrent.futures import ThreadPoolExecutor
import requests

def ask(prompt):
    return requests.post("http://localhost:8000/v1/completions", json={"prompt": prompt, "max_tokens": 128}).json()

def main(prompts):
    with ThreadPoolExecutor(32) as pool:
        return list(pool.map(ask, prompts))
""",
        ),
        Valid(
            "a conversation",
            """
from openai import OpenAI

client = OpenAI(base_url="http://localhost:8000/v1", api_key="none")

def talk(lines):
    messages = []
    for line in lines:
        messages.append({"role": "user", "content": line})
        answer = client.chat.completions.create(model="m", messages=messages, max_tokens=256)
        messages.append(answer.choices[0].message)
    return messages
""",
        ),
        Valid(
            "somebody else's GPUs, and another kind of request",
            """
import requests
from openai import OpenAI

client = OpenAI()

def main(prompts, rows):
    for prompt in prompts:
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": prompt}], max_tokens=9)
    for row in rows:
        requests.post("http://localhost:9000/rows", json={"id": row})
""",
        ),
        Valid(
            "tried again, and timed one by one",
            """
import time
import requests

def ask(url, prompt):
    for attempt in range(5):
        r = requests.post(url, json={"prompt": prompt, "max_tokens": 128})
        if r.ok:
            return r.json()

def latency(url, prompts):
    for p in prompts:
        start = time.perf_counter()
        requests.post(url, json={"prompt": p, "max_tokens": 1})
        print(time.perf_counter() - start)
""",
        ),
    )


def _has_prompt(source: Source, call: ast.Call) -> bool:
    """Say whether a request has what language models are asked with, and goes to no address of the open internet."""
    if any(isinstance(one, ast.Constant) and str(one.value).startswith("https://") for one in call.args):
        return False
    path = around(source, call)
    names = bindings(function_of(path)) if path else {}
    keys: set[object] = set()
    for word in call.keywords:
        if word.arg in {"json", "data"}:
            for node in ast.walk(word.value):
                for value in names.get(node.id, ()) if isinstance(node, ast.Name) else (node,):
                    keys |= {one.value for one in _keys(value)}
    return bool(keys & ASKED) and bool(keys & HOW)


def _keys(node: ast.AST) -> Iterator[ast.Constant]:
    if isinstance(node, ast.Dict):
        yield from (key for key in node.keys if isinstance(key, ast.Constant))


def _own_server(source: Source) -> bool:
    """Say whether a client is made for a server with an address of its own, which is not one on the open internet."""
    for node in every(source, ast.Call):
        if ast.unparse(node.func).rpartition(".")[2] == "OpenAI":
            for word in node.keywords:
                if word.arg == "base_url":
                    return not (isinstance(word.value, ast.Constant) and str(word.value.value).startswith("https://"))
    return False
