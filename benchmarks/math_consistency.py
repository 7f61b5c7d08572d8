r"""Self-consistency of the math grader: golds against themselves, against right rewrites and against wrong mutations.

    python benchmarks/math_consistency.py [--data DIR] [--sample N] [--sets a,b] [--workers K] [--out FILE] [--json]

The string tier is off, so that every verdict is the parser's and the comparison's. The texts come from tests/mathgen, which
works on text and knows nothing of the grader. What should be accepted and is not, or the other way round, goes to --out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

import verigym

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from mathgen.golds import DATA, DATASETS, Gold, load  # noqa: E402
from mathgen.mutations import mutations  # noqa: E402
from mathgen.rewrites import rewrites  # noqa: E402
from mathgen.text import seeded  # noqa: E402

Sort = Literal["self", "rewrite", "mutation"]
CHUNK = 50
TARGETS: dict[Sort, float] = {"self": 0.998, "rewrite": 0.998, "mutation": 0.0005}


class Verdict(NamedTuple):
    """What the grader said of one text."""

    gold: Gold
    sort: Sort
    name: str
    text: str
    status: str
    reason: str
    seconds: float

    @property
    def accepted(self) -> bool:
        """Whether the grader called the text right."""
        return self.status == "correct"

    @property
    def wrong(self) -> bool:
        """Whether the verdict is not what it should be; a crash of the grader, which is graded as a limit, never is."""
        return self.accepted == (self.sort == "mutation") or "grader raise" in self.reason


def texts(gold: Gold, per_gold: int, salt: str) -> Iterator[tuple[Sort, str, str]]:
    """Yield (sort, name, text) of everything to grade against a gold."""
    yield "self", "self", gold.text
    gold = gold._replace(dataset=gold.dataset + salt)
    for name, text in rewrites(gold, per_gold):
        yield "rewrite", name, text
    for name, text in mutations(gold, per_gold):
        yield "mutation", name, text


def judge(golds: list[Gold], options: dict[str, Any], per_gold: int, salt: str) -> list[Verdict]:
    """Grade everything made from some golds; runs in a worker process."""
    env = verigym.load("math", **options)
    verdicts = []
    for gold in golds:
        prompt = env.prompt(gold.question, answer=gold.text)
        for sort, name, text in texts(gold, per_gold, salt):
            start = time.perf_counter()
            score = env.score(prompt, rf"\boxed{{{text}}}")
            reason = score.error.message if score.error else score.reason
            verdicts.append(Verdict(gold, sort, name, text, score.status.value, reason, time.perf_counter() - start))
    return verdicts


def sampled(golds: list[Gold], count: int) -> list[Gold]:
    """Return some golds, the same in every run; all where fewer are asked than there are."""
    return sorted(seeded("sample", count).sample(golds, count), key=lambda gold: gold.row) if 0 < count < len(golds) else golds


def _rate(part: int, whole: int) -> str:
    return f"{part}/{whole} {part / whole:.4%}" if whole else "-"


def report(console: Console, verdicts: list[Verdict]) -> dict[str, Any]:
    """Print the tables, and return the rates."""
    by_set = Table("set", "golds", "self", "rewrites", "mutations", "limits", "errors", title="accepted")
    total: Counter[tuple[Sort, bool]] = Counter()
    for dataset in dict.fromkeys(verdict.gold.dataset for verdict in verdicts):
        mine = [verdict for verdict in verdicts if verdict.gold.dataset == dataset]
        count: Counter[tuple[Sort, bool]] = Counter((verdict.sort, verdict.accepted) for verdict in mine)
        total += count
        statuses = Counter(verdict.status for verdict in mine)
        cells = [_rate(count[sort, True], count[sort, True] + count[sort, False]) for sort in TARGETS]
        by_set.add_row(
            dataset, str(len({verdict.gold.row for verdict in mine})), *cells, *(str(statuses[s]) for s in ("limit", "error"))
        )
    console.print(by_set)
    by_name = Table("sort", "generator", "wrong", "of", title="generators with verdicts that are not as they should be")
    wrong, of = Counter((v.sort, v.name) for v in verdicts if v.wrong), Counter((v.sort, v.name) for v in verdicts)
    for (sort, name), times in wrong.most_common(60):
        by_name.add_row(sort, name, str(times), str(of[sort, name]))
    console.print(by_name)
    rates: dict[str, float] = {sort: total[sort, True] / (total[sort, True] + total[sort, False]) for sort in TARGETS}
    seconds = sorted(verdict.seconds for verdict in verdicts)
    rates |= {"median_s": seconds[len(seconds) // 2], "p99_s": seconds[int(len(seconds) * 0.99)], "max_s": seconds[-1]}
    return {**rates, "golds": len({v.gold for v in verdicts}), "texts": len(verdicts), "wrong": sum(v.wrong for v in verdicts)}


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console(stderr=args.json)
    golds: list[Gold] = []
    for dataset in args.sets.split(","):
        loaded = load(dataset, args.data)
        console.print(f"{dataset}: {loaded.absent or f'{len(loaded.golds)} golds'}, {loaded.empty} rows without a gold")
        golds += sampled(loaded.golds, args.sample)
    if not golds:
        console.print(f"no data under {args.data}: nothing was measured")
        return {"golds": 0}
    options = {"string_tier": False, "symbolic": not args.no_symbolic}
    chunks = [golds[start : start + CHUNK] for start in range(0, len(golds), CHUNK)]
    verdicts: list[Verdict] = []
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(judge, chunk, options, args.per_gold, args.salt) for chunk in chunks]
        for job in track(jobs, console=console, description="grading", disable=args.json):
            verdicts += job.result()
    if args.out:
        rows = defaultdict(list)
        for verdict in filter(lambda verdict: verdict.wrong, verdicts):
            rows[verdict.sort, verdict.name].append(
                {"sort": verdict.sort, "name": verdict.name, "set": verdict.gold.dataset, "index": verdict.gold.row}
                | {"gold": verdict.gold.text, "text": verdict.text, "status": verdict.status, "reason": verdict.reason}
            )
        lines = [json.dumps(row, ensure_ascii=False) for group in rows.values() for row in group]
        args.out.write_text("\n".join(lines) + "\n" * bool(lines), encoding="utf-8")
    return report(console, verdicts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sample", type=int, default=0, help="golds a set; 0 takes all")
    parser.add_argument("--sets", default=",".join(DATASETS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--per-gold", type=int, default=10, help="rewrites and mutations a gold")
    parser.add_argument("--salt", default="", help="any text, for other rewrites and mutations than the usual ones")
    parser.add_argument("--no-symbolic", action="store_true", help="without the worker process")
    parser.add_argument("--out", type=Path, help="a JSON-lines file for what should have been judged otherwise")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    args = parser.parse_args()
    rates = run(args)
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
