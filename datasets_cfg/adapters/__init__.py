"""Adapters: how a row of a published layout becomes the reference of its environment.

A data set names its adapter in the field `shape` of its YAML. An adapter is a pure function of one row. It reads the row's
texts and never runs or unpickles them.
"""

from collections.abc import Mapping

from verigym.datasets_cfg.adapters import contests, functions, instructions, questions, sandboxfusion, theorems
from verigym.datasets_cfg.adapters.base import AdaptedRow, Adapter

ADAPTERS: Mapping[str, Adapter] = {
    "apps": contests.APPS,
    "bigcodebench": functions.BIGCODEBENCH,
    "code_contests": contests.CODE_CONTESTS,
    "gpqa": questions.GPQA,
    "humaneval": functions.HUMANEVAL,
    "knights_and_knaves": questions.KNIGHTS_AND_KNAVES,
    "lean_file": theorems.FILE,
    "lean_proved": theorems.PROVED,
    "lean_statement": theorems.STATEMENT,
    "lettered": questions.LETTERED,
    "livecodebench": contests.LIVECODEBENCH,
    "mbpp": functions.MBPP,
    "mbpp_plus": functions.MBPP_PLUS,
    "mbpp_sanitized": functions.MBPP_SANITIZED,
    "mmlu_pro": questions.MMLU_PRO,
    "rlvr_ifeval": instructions.RLVR_IFEVAL,
    "sandboxfusion_bigcodebench": sandboxfusion.BIGCODEBENCH,
    "sandboxfusion_livecodebench": sandboxfusion.LIVECODEBENCH,
    "sandboxfusion_mbpp": sandboxfusion.MBPP,
    "sandboxfusion_stdio": sandboxfusion.STDIO,
    "taco": contests.TACO,
}

__all__ = ["ADAPTERS", "AdaptedRow", "Adapter"]
