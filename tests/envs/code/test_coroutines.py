# ruff: noqa: E501, programs are data
"""Coroutines run when they are awaited; asynchronous callbacks and generators."""

import pytest
from judged import scored

COUNTING = "class A:\n    def __init__(self): self.n = 0\n    async def go(self):\n        self.n += 1\n        return self.n"
EAGER = (
    COUNTING.replace("async def go", "def go").replace("return self.n", "return done(self.n)") + "\nasync def done(n): return n"
)
CASES = {
    "at the await": (
        EAGER,
        COUNTING,
        "import asyncio\na = A()\nc = a.go()\nassert a.n == 0\nassert asyncio.run(c) == 1 and a.n == 1",
    ),
    "at the call": (COUNTING, EAGER, "a = A()\nc = a.go()\nassert a.n == 1\nc.close()"),
    "an error at the call": (
        "class A:\n    async def go(self): raise ValueError",
        "class A:\n    def go(self): raise ValueError",
        "try:\n    A().go()\n    assert False\nexcept ValueError:\n    pass",
    ),
    "an error at the await": (
        "class A:\n    def go(self): raise ValueError",
        "class A:\n    async def go(self): raise ValueError",
        "import asyncio\nc = A().go()\ntry:\n    asyncio.run(c)\n    assert False\nexcept ValueError:\n    pass",
    ),
    "an asynchronous callback": (
        "async def run(cb): return [await cb(0), 1]",
        "async def run(cb): return [await cb(i) for i in range(2)]",
        "import asyncio\nasync def cb(x):\n    await asyncio.sleep(0.001)\n    return x + 1\nassert asyncio.run(run(cb)) == [1, 2]",
    ),
    "an asynchronous generator": (
        "async def g(n):\n    for i in range(n + 1): yield i",
        "async def g(n):\n    for i in range(n): yield i",
        "import asyncio\nasync def m(): return [x async for x in g(3)]\nassert asyncio.run(m()) == [0, 1, 2]",
    ),
    "and what it is sent": (
        "async def g():\n    x = yield 1\n    yield x",
        "async def g():\n    x = yield 1\n    yield x * 2",
        "import asyncio\nasync def m():\n    a = g()\n    await a.__anext__()\n    return await a.asend(4)\nassert asyncio.run(m()) == 8",
    ),
    "awaited twice": (
        "class R:\n    def __await__(self):\n        yield from ()\n        return 1\ndef f(): return R()",
        "async def f(): return 1",
        "import asyncio\nasync def m():\n    c = f()\n    await c\n    try:\n        await c\n        return False\n    except RuntimeError:\n        return True\nassert asyncio.run(m())",
    ),
}


@pytest.mark.parametrize(("wrong", "honest", "test"), CASES.values(), ids=CASES)
def test_coroutines_are_as_in_plain_python(wrong: str, honest: str, test: str) -> None:
    assert scored(wrong, test).status == "incorrect"
    score = scored(honest, test)
    assert score.status == "correct", score.reason
