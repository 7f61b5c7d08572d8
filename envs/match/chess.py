"""Kind `chess`: judges, with python-chess, whether a move in a position is legal, mates, or is one of the best moves."""

from __future__ import annotations

import re
from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.extras import install
from verigym.envs.latex.formatting import strip_formatting
from verigym.envs.match.kind import Kind, MatchReference, Verdict

LONGEST = 10
_NUMBER = re.compile(r"[0-9]{1,3}\.(?:\.\.)?\s*(?=[A-Za-z])")
"""Of a move in a game's score: 12. Nf3, 12... Nf6."""
_FIGURINES = str.maketrans(dict(zip("\u2654\u2655\u2656\u2657\u2658\u265a\u265b\u265c\u265d\u265e", "KQRBN" * 2, strict=True)))


def _chess() -> Any:
    try:
        import chess
    except ImportError:
        raise EnvironmentFailure("unavailable", f"kind='chess' needs the package chess; {install('chess')}") from None
    return chess


def _board(reference: MatchReference) -> Any:
    return _chess().Board(reference.puzzle)


def _best(reference: MatchReference) -> list[str]:
    given = reference.answer if isinstance(reference.answer, list) else [reference.answer]
    return [move for move in given if isinstance(move, str)]


def _check(reference: MatchReference) -> None:
    if reference.puzzle is None:
        raise UsageError("field 'puzzle': kind='chess' needs the position as FEN")
    if (reference.goal == "best") is (reference.answer is None):
        raise UsageError("field 'answer': kind='chess' takes moves with goal='best', and only with it")
    try:
        board = _board(reference)
    except EnvironmentFailure:
        return
    except ValueError as error:
        raise UsageError(f"field 'puzzle': no position: {error}"[:200]) from None
    if not board.is_valid():
        raise UsageError("field 'puzzle': the position cannot arise (kings, pawns or checks)")
    if reference.goal == "best":
        wrong = [move for move in _best(reference) if read_move(board, move) is None] or ([] if _best(reference) else ["none"])
        if wrong:
            raise UsageError(f"field 'answer': {wrong[0]!r} is no legal move of the position")
    elif _gold(reference) is None:
        raise UsageError(f"field 'puzzle': no move reaches goal={reference.goal!r}")


def read_move(board: Any, text: str) -> Any:
    """Return the legal move on `board` that `text` gives in algebraic or UCI notation, or None if it gives none."""
    # The board knows of check and mate, so their signs go.
    text = strip_formatting(text).strip("*_` ").translate(_FIGURINES)
    text = _NUMBER.sub("", text).rstrip("!?").removesuffix(".").rstrip("+#")
    text = text.replace("0-0-0", "O-O-O").replace("0-0", "O-O")
    if not 2 <= len(text) <= LONGEST or not text.isascii():
        return None
    for read in (board.parse_san, board.parse_uci):
        try:
            move = read(text)
        except ValueError:
            continue
        return move or None  # a null move is no move
    return None


def _mates(board: Any, move: Any) -> bool:
    board.push(move)
    mate = bool(board.is_checkmate())
    board.pop()
    return mate


def _judge(reference: MatchReference, answer: str) -> Verdict:
    board = _board(reference)
    move = read_move(board, answer)
    if move is None:
        return Verdict(False, "no legal move of the position")
    if reference.goal == "mate":
        mates = _mates(board, move)
        return Verdict(mates, "mate" if mates else "a legal move that does not mate")
    if reference.goal == "best":
        best = move in [read_move(board, text) for text in _best(reference)]
        return Verdict(best, "one of the best moves" if best else "a legal move, but none of the best")
    return Verdict(True, "a legal move")


def _gold(reference: MatchReference) -> str | None:
    if reference.goal == "best":
        return _best(reference)[0]
    board = _board(reference)
    moves = sorted(board.legal_moves, key=lambda move: str(move.uci()))
    return next((str(board.san(move)) for move in moves if reference.goal == "legal" or _mates(board, move)), None)


def _need() -> None:
    _chess()


CHESS = Kind(frozenset({"puzzle", "goal", "answer"}), _check, _judge, _gold, ("boxed", "tag"), _need)
