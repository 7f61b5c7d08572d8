r"""Every verdict of tests/cases and of 5,000 texts of the math consistency run, one JSON line each, to compare interpreters.

    python benchmarks/verdicts.py [--out FILE] [--panels math,match] [--texts N] [--hostile N] [--no-sandbox] [--data DIR]

A verdict must not depend on the interpreter, so two Pythons must print the same SHA-256 of these lines. Lines are sorted and
hold no times. What a row needs and this machine lacks (a compiler, a package, the data) is left out, counted and shown.
`--compare FILE` prints the first lines that differ from another run's and exits with 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

from math_consistency import sampled, texts  # noqa: E402
from mathgen.golds import DATA, DATASETS, load  # noqa: E402
from mathgen.hostile import known_bad, mutilated, soup  # noqa: E402
from verdict_parts.panels import CASES, PANELS, SANDBOXED, Lacking, environment, stable_fields  # noqa: E402

from verigym.sandbox import SandboxFailure, open_sandbox  # noqa: E402

GOLDS_PER_SET = 40
SHOWN = 20
MOST_SHOWN = 1000


def line(**fields: Any) -> str:
    """Return one line of the output; a lone surrogate, which some cases hold, is escaped."""
    return json.dumps(fields, sort_keys=True, ensure_ascii=True)


def panel(name: str, lacking: Counter[str]) -> Iterator[str]:
    """Judge each row of a file of cases."""
    rows = (CASES / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            for variant, verdict in PANELS[name](json.loads(row)):
                yield line(panel=name, row=number, variant=variant, verdict=verdict)
        except Lacking as reason:
            lacking[f"{name}: needs {reason}"] += 1


def consistency(count: int, data: Path, lacking: Counter[str]) -> Iterator[str]:
    """Judge golds of the data sets, right rewrites and wrong mutations of them, as benchmarks/math_consistency.py does."""
    made = []
    for dataset in DATASETS if count else ():
        loaded = load(dataset, data)
        if loaded.absent:
            lacking[f"consistency: {loaded.absent}"] += 1
        made += [
            (dataset, gold, number, kind, text)
            for gold in sampled(loaded.golds, GOLDS_PER_SET)
            for number, (kind, _, text) in enumerate(texts(gold, 10, ""))
        ]
    # Evenly over all sets, so that the first sets do not take all places.
    step = max(1.0, len(made) / count) if count else 1.0
    chosen = [made[int(place * step)] for place in range(min(count, len(made)))]
    env = environment("math", string_tier=False)
    for dataset, gold, number, kind, text in chosen:
        score = env.score(env.prompt(gold.question, answer=gold.text), rf"\boxed{{{text}}}")
        place = {"panel": f"consistency {dataset}", "row": gold.row, "variant": f"{kind} {number}"}
        yield line(**place, text=text, verdict=stable_fields(score))


def hostile(count: int) -> Iterator[str]:
    """Judge broken and hostile texts as answers: those that have hung or crashed graders, LaTeX soup, mutilated cases."""
    pairs = [json.loads(row) for row in (CASES / "math_pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    broken = [("soup", pairs[n % len(pairs)]["gold"], soup(str(n))) for n in range(count)]
    broken += [("mutilated", pair["gold"], mutilated(pair["answer"], str(n))) for n, pair in enumerate(pairs[:count])]
    broken += [(name, "5", text) for name, text in known_bad().items()] if count else []
    env = environment("math", string_tier=False)
    for number, (kind, gold, text) in enumerate(broken):
        verdict = stable_fields(env.score(env.prompt("What is it?", answer=gold), rf"\boxed{{{text}}}"))
        if len(verdict["answer"] or "") > MOST_SHOWN:
            verdict["answer"] = hashlib.sha256(verdict["answer"].encode("utf-8", "surrogatepass")).hexdigest()
        yield line(panel="hostile", row=number, variant=kind, verdict=verdict)


def without_sandbox() -> str:
    """Return why programs cannot be run here, or nothing."""
    try:
        open_sandbox("local")
    except SandboxFailure as error:
        return str(error)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the lines go")
    parser.add_argument("--compare", type=Path, help="the lines of another run")
    parser.add_argument("--panels", default=",".join(PANELS), help="names of files of tests/cases, separated by commas")
    parser.add_argument("--texts", type=int, default=5000, help="how many texts of the consistency run; 0 for none")
    parser.add_argument("--hostile", type=int, default=1000, help="how many broken texts of each kind; 0 for none")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of shared data")
    parser.add_argument("--no-sandbox", action="store_true", help="without the cases that run programs")
    given = parser.parse_args()
    names = [name for name in given.panels.split(",") if name]
    if unknown := sorted(set(names) - set(PANELS)):
        parser.error(f"--panels: no cases named {', '.join(unknown)}; there are {', '.join(PANELS)}")
    lacking: Counter[str] = Counter()
    lines: list[str] = []
    reason = "left out by --no-sandbox" if given.no_sandbox else without_sandbox()
    for name in names:
        start, before = time.perf_counter(), len(lines)
        if name in SANDBOXED and reason:
            lacking[f"{name}: {reason}"] += 1
            continue
        lines += panel(name, lacking)
        print(f"{name}: {len(lines) - before} verdicts, {time.perf_counter() - start:.1f} s", file=sys.stderr)
    for name, verdicts in (("consistency", consistency(given.texts, given.data, lacking)), ("hostile", hostile(given.hostile))):
        start, before = time.perf_counter(), len(lines)
        lines += verdicts
        print(f"{name}: {len(lines) - before} verdicts, {time.perf_counter() - start:.1f} s", file=sys.stderr)
    for lack, times in sorted(lacking.items()):
        print(f"left out: {lack} ({times})", file=sys.stderr)
    lines.sort()
    whole = "".join(f"{one}\n" for one in lines)
    if given.out:
        given.out.write_text(whole, encoding="ascii")
    print(f"Python {platform.python_version()}: {len(lines)} verdicts, sha256 {hashlib.sha256(whole.encode()).hexdigest()}")
    return differences(lines, given.compare) if given.compare else 0


def differences(lines: list[str], other: Path) -> int:
    """Print lines that only one of two runs has; return the exit status."""
    theirs = other.read_text(encoding="ascii").splitlines()
    ours_only, theirs_only = sorted(set(lines) - set(theirs)), sorted(set(theirs) - set(lines))
    for sign, only in (("+", ours_only), ("-", theirs_only)):
        for one in only[:SHOWN]:
            print(f"{sign} {one}")
    print(f"{len(ours_only)} lines only here, {len(theirs_only)} only in {other}")
    return 1 if ours_only or theirs_only else 0


if __name__ == "__main__":
    sys.exit(main())
