"""Table of reasoning-gym 0.1.25's tasks: how each is judged. Other tasks are refused, with the reason if it is known.

Most tasks have one right answer. A function of `comparing.py` compares it with the model's answer, in this process and without
tolerance. If many answers are right, the library's own scorer decides, in a separate process (`worker.py`), and only a score
of exactly 1 counts. The scorer gets only answers that match the task's pattern, so that the library passes no unexpected names
to `eval` and to SymPy's parser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue

from verigym.envs.contract.errors import UsageError, did_you_mean

SCORER = "scorer"


class Task(NamedTuple):
    """How a task is judged."""

    how: str
    """A kind of `comparing.KINDS`, or `SCORER`."""
    shape: re.Pattern[str] | None = None
    """SCORER: what the whole answer fits."""


_KINDS = {
    "text": "ab acre bf caesar_cipher circuit_logic color_cube_rotation course_schedule emoji_mystery family_relationships "
    "game_of_life_halting isomorphic_strings letter_jumble mahjong_puzzle modulo_grid path_star ransom_note "
    "sentence_reordering spell_backward string_insertion string_manipulation syllogism time_intervals tsumego zebra_puzzles",
    "joined": "figlet_font needle_haystack",
    "number": "aiw base_conversion basic_arithmetic binary_alternation bitwise_arithmetic calendar_arithmetic chain_sum "
    "count_bits count_primes decimal_arithmetic decimal_chain_sum dice gcd gsm_symbolic largest_island lcm leg_counting "
    "letter_counting maze number_format number_sequence products rectangle_count rotten_oranges self_reference "
    "simple_equations simple_geometry",
    "rounded": "advanced_geometry polynomial_equations",
    "figures": "power_function",
    "probability": "coin_flip",
    "lowest": "fraction_simplification",
    "complex": "complex_arithmetic",
    "grid": "arc_1d arc_agi binary_matrix futoshiki game_of_life manipulate_matrix mini_sudoku pool_matrix rearc "
    "rotate_matrix spiral_matrix string_splitting string_synthesis sudoku survo",
    "items": "list_functions number_filtering number_sorting word_sequence_reversal word_sorting",
    "json": "codeio",
    "groups": "group_anagrams",
    "lists": "palindrome_partitioning",
    "factors": "prime_factorization",
    "roles": "knights_knaves",
    "sum": "countdown puzzle24",
}

_FORMULA = r"(?:[0-9]++(?:\.[0-9]++)?|[A-Za-z](?![A-Za-z_])|(?:exp|log|sqrt|a?(?:sin|cos|tan)h?)(?=\()|[-+*/() ]++)+"
_MOVE = r"(?:fill|empty) [A-Z]|pour [A-Z]->[A-Z]"
_SHAPES = {
    "simple_integration": _FORMULA,
    "intermediate_integration": _FORMULA,
    "polynomial_multiplication": r"(?:[0-9]++|[A-Za-z](?![A-Za-z_])|[-+*/() ]++)+",
    "cryptarithm": r"[A-Z]\s*=\s*[0-9](?:\s*,\s*[A-Z]\s*=\s*[0-9])*",
    "graph_color": r'\{\s*"[0-9]{1,4}"\s*:\s*[0-9]{1,4}(?:\s*,\s*"[0-9]{1,4}"\s*:\s*[0-9]{1,4})*\s*\}',
    "jugs": rf'\[\s*"(?:{_MOVE})"(?:\s*,\s*"(?:{_MOVE})")*\s*\]',
    "knight_swap": r'No|no|\[\s*"[wB],[A-Z][0-9]{1,2},[A-Z][0-9]{1,2}"(?:\s*,\s*"[wB],[A-Z][0-9]{1,2},[A-Z][0-9]{1,2}")*\s*\]',
    "n_queens": r"[Q_ \n]++",
    "palindrome_generation": r"[A-Za-z]++",
    "rubiks_cube": r"[UDLRFBMESXYZudlrfbxyz]'?(?:\s++[UDLRFBMESXYZudlrfbxyz]'?){0,200}",
    "rush_hour": r"[A-Z][+-][0-9](?:[\s,]++[A-Z][+-][0-9]){0,200}",
    "boxnet": r'[\[\]{}]|[\[\]{}A-Za-z0-9_"(),.: \n]++',
    "quantum_lock": r"[A-C](?:\s*+(?:(?:\u2192|->|,)\s*+)?[A-C]){0,200}",
    "shortest_path": r"infeasible|(?:up|down|left|right)(?:\s++(?:up|down|left|right))*",
    "word_ladder": r"[A-Z]++(?:\s*,\s*[A-Z]++)+",
    "sokoban": r"[UDLR]++",
    "tower_of_hanoi": r"Move disk [0-9]{1,3} from Peg [0-9]{1,3} to Peg [0-9]{1,3}"
    r"(?:[^\S\n]*+\n\s*+Move disk [0-9]{1,3} from Peg [0-9]{1,3} to Peg [0-9]{1,3})*",
    "kakurasu": r"[01](?:[ \n]++[01])*",
}

TASKS: Mapping[str, Task] = {
    **{name: Task(kind) for kind, names in _KINDS.items() for name in names.split()},
    **{name: Task(SCORER, re.compile(shape)) for name, shape in _SHAPES.items()},
}
"""Every supported task."""

REFUSED: Mapping[str, str] = {
    "composite": "it is a mixture of other tasks; mix environments instead",
    "propositional_logic": "any copied premise is a conclusion that follows, so copying the prompt would be paid",
}
"""Tasks that are not supported, and why."""

NOTES: Mapping[str, str] = {
    "coin_flip": "Give the exact value.",
    "power_function": "Give three significant figures.",
}
"""Sentence that is added to the questions of a task, by task name. It says how exact an answer must be."""

FIXED: Mapping[str, Mapping[str, JsonValue]] = {"codeio": {"input_prediction_probability": 0.0}}
"""Settings that users cannot change, by task. `codeio` asks only for a program's output: if it asked for the input that gives
a known output, many inputs could be right, and the library knows only one."""


def find_task(name: str) -> Task:
    """Return the entry that says how the task `name` is judged.

    Raises:
        UsageError: the task is not supported (the message says why), or does not exist.
    """
    if name in TASKS:
        return TASKS[name]
    if name in REFUSED:
        raise UsageError(f"task {name!r} of reasoning-gym is not supported: {REFUSED[name]}")
    raise UsageError(f"no task of reasoning-gym that can be judged is called {name!r}{did_you_mean(name, TASKS)}")
