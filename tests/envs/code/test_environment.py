"""The whole way, from a completion to a score, in the real sandbox."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import require

from verigym.envs import Completion, Status
from verigym.envs.code.environment import CodeEnvironment

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "code_verdicts.jsonl").read_text().splitlines()]
TOOLS = {"c": "gcc", "cpp": "g++", "javascript": "node", "bash": "bash", "python": "python3"}
FLOOR = {Status.INCORRECT, Status.LIMIT, Status.NO_ANSWER, Status.TRUNCATED}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    language = case["reference"].get("language", "python")
    require(TOOLS[language])
    env = CodeEnvironment(**case.get("options", {}))
    prompt = env.prompt("Write it.", **case["reference"])
    text = case.get("text") or f"Here it is.\n```{language}\n{case['program']}\n```\n"
    score = env.score(prompt, Completion(text=text, finish_reason=case.get("finish_reason", "stop")))
    assert score.status == case["status"], f"{score.status.value}: {score.reason}"
    assert case["reason"] in score.reason
    if score.status in FLOOR:
        assert score.reward == 0.0
    elif score.status is Status.CORRECT:
        assert score.reward == score.components["passed"] == 1.0
    elif score.status is Status.PARTIAL:
        assert score.reward == score.components["passed"] == pytest.approx(case["reward"])
    else:
        assert score.error is not None and score.error.kind == "gold_invalid"
    if case["reference"].get("policy", {}).get("trust") == "shared":
        assert score.components["trust=shared"] == 1.0
    else:
        assert "trust=shared" not in score.components
    assert score.reason.isprintable() and len(score.reason) < 800


def test_the_example_of_the_page_gives_what_it_says() -> None:
    page = (Path(__file__).parents[3] / "docs/code.md").read_text()
    code = page.partition("```python\nfrom")[2].partition("\n```\n\n`verigym")[0]
    run = subprocess.run([sys.executable, "-c", f"from{code}"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == code.rpartition("  # ")[2].strip()
