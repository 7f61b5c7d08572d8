# ruff: noqa: E501, programs are data
"""Classes are what they are, and not what they are called."""

import pytest
from judged import scored

EMPTY = "class Stack:\n    class Empty(Exception): pass\n    def pop(self): raise KIND.Empty('x')\nclass Queue:\n    class Empty(Exception): pass"
NODES = "class A:\n    class Node: pass\nclass B:\n    class Node: pass\ndef f(): return KIND.Node()"
CASES = {
    "exceptions of two classes": (
        EMPTY.replace("KIND", "Queue"),
        EMPTY.replace("KIND", "Stack"),
        "try:\n    Stack().pop()\n    assert False\nexcept Stack.Empty as error:\n    assert type(error).__name__ == 'Empty'",
    ),
    "inner classes of two classes": (
        NODES.replace("KIND", "B"),
        NODES.replace("KIND", "A"),
        "assert isinstance(f(), A.Node) and A.Node.__name__ == 'Node'",
    ),
    "a class inside a function": (
        "class P: pass\ndef f():\n    class P: pass\n    return P()",
        "class P: pass\ndef f(): return P()",
        "assert isinstance(f(), P)",
    ),
    "an exception inside a function": (
        "class E(Exception): pass\ndef f():\n    class E(Exception): pass\n    raise E('x')",
        "class E(Exception): pass\ndef f(): raise E('x')",
        "try:\n    f()\n    assert False\nexcept E:\n    pass",
    ),
    "an exception defined anew": (
        "class E(Exception): pass\nBase = E\nclass E(Base): pass\ndef f(): raise Base('x')",
        "class E(Exception): pass\nBase = E\nclass E(Base): pass\ndef f(): raise E('x')",
        "try:\n    f()\n    assert False\nexcept E:\n    pass",
    ),
    "a name with a number": (
        "class P: pass\ndef f():\n    class P: pass\n    P(), f\n    return type('P#2', (), {})()",
        "class P: pass\ndef f(): return P()",
        "assert isinstance(f(), P)",
    ),
    "a class by two names": (
        "class P: pass\nclass Q: pass",
        "class P: pass\nQ = P",
        "assert isinstance(P(), Q) and Q is P",
    ),
    "a class by another name": (
        "class Point: pass\ndef _make(): pass\nKind = type('Kind', (), {})\ndef f(): return Point()",
        "class _Point: pass\nKind = _Point\ndef f(): return _Point()",
        "assert isinstance(f(), Kind) and isinstance(Kind(), Kind)",
    ),
    "an end that is no RuntimeError": (
        "class It:\n    def step(self): raise StopIteration",
        "class It:\n    def step(self): raise RuntimeError",
        "try:\n    It().step()\n    assert False\nexcept RuntimeError:\n    pass",
    ),
}


@pytest.mark.parametrize(("wrong", "honest", "test"), CASES.values(), ids=CASES)
def test_a_class_is_no_other_that_is_called_alike(wrong: str, honest: str, test: str) -> None:
    assert scored(wrong, test).status == "incorrect"
    score = scored(honest, test)
    assert score.status == "correct", score.reason
