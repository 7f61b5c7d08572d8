# ruff: noqa: E501, programs are data
"""What a test learns about functions, classes, objects, exceptions and generators is what the program's say of themselves."""

import pytest
from judged import scored

DECORATED = "import functools\ndef deco(f):\n    WRAPS\n    def w(*a): return f(*a)\n    return w\n@deco\ndef g(x):\n    'd'\n    return x"
HIDING = "class B:\n    def __init__(self): self.x = VALUE\n    def put(self): self.x = 5"
CASES = {
    "a method of a class": (
        "class S: pass",
        "class S:\n    def __len__(self): return 0",
        "assert hasattr(S, '__len__') and hasattr(S(), '__len__')",
    ),
    "no method of a class": ("class S:\n    def __len__(self): return 0", "class S: pass", "assert not hasattr(S, '__len__')"),
    "slots": (
        "class S: pass",
        "class S:\n    __slots__ = ('x',)",
        "assert hasattr(S(), '__slots__') and S.__slots__ == ('x',)",
    ),
    "no dictionary": ("class S: pass", "class S:\n    __slots__ = ('x',)", "assert not hasattr(S(), '__dict__')"),
    "a dictionary": (
        "class S:\n    def __init__(self): self.x = 2",
        "class S:\n    def __init__(self): self.x = 1",
        "assert S().__dict__ == {'x': 1} and vars(S()) == {'x': 1}",
    ),
    "names": ("class S: pass", "class S:\n    def foo(self): pass", "assert 'foo' in dir(S) and 'foo' in dir(S())"),
    "a decorated function": (
        DECORATED.replace("WRAPS", "pass"),
        DECORATED.replace("WRAPS", "@functools.wraps(f)"),
        "assert g.__name__ == 'g' and g.__doc__ == 'd' and g(3) == 3",
    ),
    "a name": ("def f(x): return x", "f = lambda x: x", "assert f.__name__ == '<lambda>'"),
    "parameters": (
        "def f(a, *b): return a",
        "def f(a, b=2): return a",
        "import inspect\ns = inspect.signature(f)\nassert list(s.parameters) == ['a', 'b'] and s.parameters['b'].default == 2",
    ),
    "defaults": ("def f(a, b=[]): return a", "def f(a, b=None): return a", "assert f.__defaults__ == (None,)"),
    "annotations": (
        "def f(a): return str(a)",
        "def f(a: int) -> str: return str(a)",
        "assert f.__annotations__ == {'a': int, 'return': str}",
    ),
    "its code": ("def f(x, y): return x", "def f(x): return x", "assert f.__code__.co_argcount == 1 and f.__closure__ is None"),
    "a coroutine function": (
        "def f(x): return x",
        "async def f(x): return x",
        "import inspect\nassert inspect.iscoroutinefunction(f)",
    ),
    "a generator": (
        "def g(): return map(int, '12')",
        "def g(): yield 1",
        "import types, inspect\nassert isinstance(g(), types.GeneratorType) and inspect.isgenerator(g())",
    ),
    "what a generator is sent": (
        "def g():\n    t = 0\n    while True: t = yield t",
        "def g():\n    t = 0\n    while True: t += yield t",
        "a = g()\nnext(a)\nassert a.send(3) == 3 and a.send(4) == 7",
    ),
    "a generator that is closed": (
        "log = []\ndef g():\n    yield 1\n    log.append('end')\ndef seen(): return log",
        "log = []\ndef g():\n    try: yield 1\n    finally: log.append('end')\ndef seen(): return log",
        "a = g()\nnext(a)\na.close()\nassert seen() == ['end'] and list(a) == []",
    ),
    "what a generator returns": (
        "def g():\n    yield 1",
        "def g():\n    yield 1\n    return 5",
        "def h():\n    got = yield from g()\n    yield got\nassert list(h()) == [1, 5]",
    ),
    "a generator given back": (
        "def g(n): yield from range(n)\ndef take(it, n): return list(range(n))",
        "def g(n): yield from range(n)\ndef take(it, n): return [next(it) for _ in range(n)]",
        "a = g(5)\nassert take(a, 2) == [0, 1] and next(a) == 2",
    ),
    "a cause": (
        "def f(): raise KeyError('k')",
        "def f():\n    try: int('x')\n    except ValueError as e: raise KeyError('k') from e",
        "try:\n    f()\n    assert False\nexcept KeyError as e:\n    assert isinstance(e.__cause__, ValueError) and isinstance(e.__context__, ValueError)",
    ),
    "no cause": (
        "def f(): raise KeyError('k') from ValueError()",
        "def f(): raise KeyError('k')",
        "try:\n    f()\n    assert False\nexcept KeyError as e:\n    assert e.__cause__ is None",
    ),
    "what an exception has by its class": (
        "class E(Exception):\n    code = 500\n    def hint(self): return 'h'\ndef f(): raise E('x')",
        "class E(Exception):\n    code = 404\n    def hint(self): return 'h' + self.args[0]\ndef f(): raise E('x')",
        "try:\n    f()\n    assert False\nexcept E as e:\n    assert e.code == 404 and e.hint() == 'hx'",
    ),
    "an attribute that hides the class's": (
        HIDING.replace("VALUE", "3"),
        HIDING.replace("VALUE", "1"),
        "class D(B):\n    x = 3\nd = D()\nassert d.x == 1\nd.put()\nassert d.x == 5 and D.x == 3",
    ),
}


@pytest.mark.parametrize(("wrong", "honest", "test"), CASES.values(), ids=CASES)
def test_what_the_program_says_of_itself(wrong: str, honest: str, test: str) -> None:
    assert scored(wrong, test).status == "incorrect"
    score = scored(honest, test)
    assert score.status == "correct", score.reason


def test_libraries_do_not_ask_an_object_for_what_it_is() -> None:
    program = "class S:\n    def __init__(self, x): self.x = x\n    def __len__(self): return 3\n    def __getitem__(self, k): return k\ndef f(n): return [max, S(n)]"
    assert scored(program, "import numpy as np\nassert np.all(f(3))").status == "incorrect"
    score = scored(program, "import copy\none = f([1])[1]\ntwo = copy.deepcopy(one)\none.x.append(2)\nassert two.x == [1]")
    assert score.status == "correct", score.reason
