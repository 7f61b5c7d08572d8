"""What the cheap environments cost: format + length in microseconds, language against one call of its identifier.

CPU time of this process, medians; the last line is one JSON object. `--data` names a file of sentences, one JSON object a line
with `lang` and `text` (gzip); without it the environment's own samples are repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from verigym.envs import Completion, load
from verigym.envs.language.identify import identify
from verigym.envs.language.samples import SAMPLES

CHARACTERS = {"zh": 1500, "ja": 1500, "ko": 2000}  # about a thousand tokens
ROUNDS = 9


def cpu_s(call: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def median_pair(one: Callable[[], object], other: Callable[[], object], times: int) -> tuple[float, float]:
    """Return the median seconds of two calls, taken in turn so that a busy machine hits both."""
    one(), other()
    pairs = [(cpu_s(one, times), cpu_s(other, times)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def texts(data: Path | None) -> dict[str, str]:
    found: dict[str, list[str]] = defaultdict(list)
    if data is not None:
        with gzip.open(data, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                code = "no" if row["lang"] == "nb" else row["lang"]
                if len(row["text"]) >= 60 and code in SAMPLES:
                    found[code].append(row["text"].rstrip(".") + ".")
    else:
        found.update({code: [text] for code, text in SAMPLES.items()})
    long: dict[str, str] = {}
    for code, sentences in sorted(found.items()):
        text = ""
        while len(text) < CHARACTERS.get(code, 4000):
            text += " ".join(sentences) + "\n"
        long[code] = text[: CHARACTERS.get(code, 4000)]
    return long


def layout() -> dict[str, float]:
    thought = "We add the numbers step by step and carry the one to the next column, because 7+8=15. " * 42
    form, length = load("format"), load("length", target=1000)
    asked, wanted = form.prompt("q"), length.prompt("q")
    figures: dict[str, float] = {}
    for name, word, ids in (
        ("token_ids", "one", True),
        ("words", "one", False),
        ("words_beyond_ascii", "\u00f4ne\u2019", False),
    ):
        text = f"<think>{thought.replace('one', word)}</think>\n\nThe answer is \\boxed{{42}}."
        completion = Completion(text=text, token_ids=tuple(range(1000)) if ids else None)
        pair = median_pair(lambda c=completion: form.score(asked, c), lambda c=completion: length.score(wanted, c), 200)
        figures[f"format_and_length_us_{name}"] = round(1e6 * sum(pair), 1)
        print(f"format {1e6 * pair[0]:.1f} us + length {1e6 * pair[1]:.1f} us, {name.replace('_', ' ')}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--languages", nargs="*")
    options = parser.parse_args()
    figures: dict[str, object] = dict(layout())
    env = load("language")
    ratios: dict[str, float] = {}
    for code, text in texts(options.data).items():
        if options.languages and code not in options.languages:
            continue
        prompt = env.prompt("q", language=code)
        ours, floor = median_pair(lambda p=prompt, t=text: env.score(p, t), lambda t=text: identify(t), 3)
        ratios[code] = round(ours / floor, 2)
        print(f"{code}: {1e3 * ours:.2f} ms, one call of the identifier {1e3 * floor:.2f} ms, ratio {ratios[code]}", flush=True)
    figures["language_to_one_call_median"] = round(statistics.median(ratios.values()), 2)
    figures["language_to_one_call_most"] = max(ratios.values())
    figures["languages_above_1.5"] = sum(ratio > 1.5 for ratio in ratios.values())
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
