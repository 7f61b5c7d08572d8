# ruff: noqa: E501, programs are data
"""Programs for `blame.py`: a reference, spoilt in one of many ways."""

from __future__ import annotations

import random
import re

# What a name may be instead of what it should be; `{n}` is the name, `{v}` a value, `{e}` an exception.
FORMS = """
async def {n}(*a, **k): return {v}

async def {n}(*a, **k): yield {v}

def {n}(*a, **k): yield {v}

def {n}(*a, **k): raise {e}

def {n}(*a, **k):
    yield 1
    raise {e}

def {n}(): return {v}

def {n}(*, only): return {v}

def {n}(*a, **k): return {n}

def {n}(*a, **k): return {n}(*a, **k)

class {n}: pass

class {n}:
    def __init__(self, *a, **k): self.a, self.k, self.x = a, k, {v}

class {n}:
    def __new__(cls, *a, **k): return {v}

class {n}:
    def __init__(self, *a, **k): raise {e}

class {n}(Exception): pass

class {n}(BaseException): pass

class {n}(ValueError): pass

class {n}(SystemExit): pass

class {n}(StopIteration): pass

class {n}(UnicodeDecodeError): pass

class {n}(KeyError, ValueError): pass

class {n}(type): pass

class {n}(metaclass=Meta): pass

class {n}(list): pass

class {n}(str): pass

class {n}(int): pass

class {n}(dict): pass

class {n}(tuple): pass

class {n}(enum.Enum):
    A = {v}
    B = 2

class {n}(enum.Flag):
    A = 1
    B = 2

class {n}(Hostile): pass

class {n}(Liar): pass

class {n}(typing.NamedTuple):
    x: int = 0
    y: object = None

class {n}(threading.Thread): pass

class {n}(abc.ABC):
    @abc.abstractmethod
    def m(self): pass

class {n}(typing.Protocol): pass

class {n}(typing.Generic[typing.TypeVar("T")]): pass

@dataclasses.dataclass
class {n}:
    x: object = None
    y: object = None

@property
def {n}(self): return {v}

@staticmethod
def {n}(*a, **k): return {v}

@classmethod
def {n}(cls, *a, **k): return {v}

@contextlib.contextmanager
def {n}(*a, **k): yield {v}

@functools.lru_cache
def {n}(*a, **k): return {v}

@functools.singledispatch
def {n}(*a, **k): return {v}

{n} = {v}

{n} = lambda *a, **k: {v}

{n} = functools.partial(lambda *a, **k: {v})

{n} = {e}

{n} = sys

{n} = types.ModuleType("{n}")

{n} = len

{n} = print

{n} = exit

{n} = input

{n} = eval

{n} = open

{n} = int

{n} = str

{n} = type

{n} = object

{n} = super

{n} = property

{n} = iter([])

{n} = iter([{v}])

{n} = str.upper

{n} = "".join

{n} = dict.fromkeys

{n} = Hostile

{n} = Hostile()

{n} = Liar()

{n} = Liar

{n} = ValueError

{n} = Exception

{n} = BaseException

{n} = SystemExit

{n} = KeyboardInterrupt

{n} = typing.List[int]

{n} = typing.Any

{n} = int | str

{n} = NotImplemented

{n} = os._exit

{n} = sys.exit

{n} = collections.Counter

{n} = collections.namedtuple("{n}", "x y")

{n} = itertools.count

{n} = itertools.repeat

{n} = enum.Enum("{n}", "A B")

{n} = weakref.ref(Hostile)

{n} = threading.Lock()

{n} = random.Random(0)

{n} = (lambda: (yield))()

{n} = Meta("{n}", (), {{}})

{n} = Liar.__call__

{n} = asyncio.sleep

{n} = asyncio.run

{n} = Awaitable

{n} = types.SimpleNamespace(x={v})

{n} = operator.attrgetter("x")

{n} = operator.itemgetter(0)

{n} = re.compile

def {n}(*a, **k): return copy.deepcopy

from os import getcwd as {n}

import json as {n}

global {n}
del {n}

del {n}
def __getattr__(name): raise {e}

class Solution:
    def {n}(self, *a, **k): return {v}
del {n}

class Solution:
    def __init__(self): raise {e}
    def {n}(self, *a, **k): return {v}
del {n}

class Solution:
    {n} = property(lambda self: {v})
del {n}

class Solution(Liar): pass
del {n}

Solution = {v}
"""
# What is done with the answer of the reference, on one of the calls or on all.
ANSWERS = """
return {v}

raise {e}

return [r]

return (r,)

return {{"a": r}}

return lambda *a, **k: r

return iter([r])

return iter(r)

return (x for x in r)

return type(r)

return Wrapped(r)

return Held(r)

return type("Sub", (type(r),), {{}})(r)

return type("Sub", (type(r),), {{"__eq__": lambda s, o: True, "__hash__": None}})(r)

return type("Sub", (type(r),), {{"__len__": boom, "__iter__": boom, "__getattribute__": boom}})(r)

return str(r)

return repr

return np.array(r)

return [r, {v}]

return a and a[0]

return a, k

return not r

return r.__class__

return r.__eq__

return r.__str__

return None

return [r] * 3 + [{v}]

yield r

[x.append({v}) for x in a if isinstance(x, list)]; return r

[x.append(x) for x in a if isinstance(x, list)]; return r

[x.clear() for x in a if isinstance(x, (list, dict, set))]; return {v}

[x.update({{"k": {v}}}) for x in a if isinstance(x, dict)]; return r

[x.__setitem__(slice(None), [{v}, {v}]) for x in a if isinstance(x, list)]; return r

[x({v}) for x in a if callable(x)]; return r

[x() for x in a if callable(x)]; return r

[KEPT.append(x) or x(KEPT) for x in a if callable(x)]; return r

[setattr(x, n, {v}) for x in a for n in ("x", "y", "value", "items") if hasattr(x, "__dict__")]; return r

[setattr(r, n, {v}) for n in ("x", "y", "__class__") if hasattr(r, "__dict__")]; return r

KEPT.append(a); return KEPT

globals().update(dict.fromkeys(list(globals()), {v})); return r

globals().pop(random.choice([n for n in globals() if n[0] != "_"]), None); return r

sys.setrecursionlimit(40); return r

print({v}); return r

print("x" * 10**6); return r

sys.stdout = None; return r

sys.stdout = Hostile(); return r

sys.stdout.write("\\ud800"); return r

os.close(1); return r

os.write(1, b"\\xff\\0"); return r

[os.close(i) for i in range(64)]

os._exit(0)

os._exit(3)

sys.exit({v})

os.kill(os.getpid(), 9)

os.kill(os.getpid(), 11)

os.kill(os.getpid(), signal.SIGSTOP)

os.kill(os.getppid(), 9); return r

os.kill(-1, 9); return r

os.abort()

os.fork(); return r

os.execv(sys.executable, [sys.executable, "-c", "print(1)"])

os.write(3, b"x" * 99); return r

[os.write(i, b'{{"passed": true}}') for i in range(3, 9) if okay(i)]; return r

[os.write(i, b"\\0\\0\\0\\2{{}}") for i in range(3, 9) if okay(i)]; return r

[os.write(i, b"\\xff\\xff\\xff\\xff") for i in range(3, 9) if okay(i)]; return r

threading.Thread(target=lambda: time.sleep(9)).start(); return r

threading.Thread(target=boom).start(); return r

atexit.register(boom); return r

atexit.register(os._exit, 5); return r

tamper(value={v}); return r

tamper(raw=[{raw}]); return r

builtins.len = builtins.isinstance = builtins.type = boom; return r

builtins.__import__ = boom; return r

json.dumps = json.loads = boom; return r

BaseException.__str__; raise type("E", (Exception,), {{"__str__": boom, "__repr__": boom, "args": property(boom)}})()

raise type("AssertionError", (BaseException,), {{}})({v})

raise type("Stopped", (BaseException,), {{}})({v})

raise type("TestFault", (Exception,), {{}})({v})

raise type("\\ud800", (Exception,), {{}})("\\ud800")

raise type("x" * 100000, (Exception,), {{}})({v})

raise ValueError({v})

raise AssertionError({v}) from {e}

raise ExceptionGroup("g", [ValueError({v}), TypeError()])

raise BaseExceptionGroup("g", [KeyboardInterrupt()])

e = ValueError("zero"); e.args = ({v},); e.code = {v}; e.__cause__ = e; raise e

e = {e}; e.x = e.raised_by_test = {v}; e.raised_by_test = 0; raise e

r = r.__class__; r.__name__; return r

return [a, k, r, {v}, {v}]

return types.MappingProxyType({{1: r}})
"""
VALUES = (
    "None 0 -1 1.5 True '' 'abc' '\\ud800' b'\\xff' bytearray(b'a') nan -inf 10**400 10**5000 1j ... NotImplemented [] {} () set() frozenset([1]) range(3) range(10**30) "
    "slice(1) [[]] cyclic() deep() [deep()] {1:{2:{3:()}}} {(1,(2,)):3} {None:1,True:2} {nan:nan} D('sNaN') F(1,3) datetime.date(1,1,1) datetime.timedelta(1) datetime.date "
    "datetime.datetime.now(datetime.timezone.utc) D('1E+99999') D F re.compile('a') re.match('a','a') object object() type Meta Hostile Hostile() Liar Liar() Held(1) Held Wrapped(3) Awaitable() "
    "ValueError ValueError('a') KeyError(Liar()) SystemExit SystemExit(0) KeyboardInterrupt() StopIteration(3) GeneratorExit UnicodeDecodeError lambda:0 lambda*a:Liar() (lambda*a:boom) "
    "(x*x*for*x*in*'ab') iter([1,2]) iter('ab') iter({}) map(str,[1]) zip([1],[2]) enumerate('a') reversed([1]) filter(None,[1]) itertools.count() itertools.repeat(1,3) itertools.chain([1]) "
    "sys os sys.stdout open('/dev/null') threading.Lock() threading.local() weakref.ref(Hostile) memoryview(b'ab') {}.keys() {1:2}.items() {1:2}.values() collections.deque([1]) "
    "collections.Counter('aab') collections.OrderedDict(a=1) collections.defaultdict(list) collections.ChainMap({}) collections.UserDict(a=1) collections.UserList([1]) array.array('i',[1]) "
    "types.SimpleNamespace(x=1) types.MappingProxyType({1:2}) E.A E F_.B Nt(1,2) Nt Dc(1) coroutine() coroutine agen() agen gen() gen Hostile.__init__ ''.join 'a'.upper [].append {}.get len print "
    "str int list.append str.upper property(len) staticmethod(len) functools.partial(int,'3') functools.lru_cache(len) typing.List typing.Any int|str list[int] "
    "np.array([1,2]) np.array([]) np.zeros((0,1)) np.float64(2) np.int8(3) np.bool_(True) np.array(['a']) np.array([None,Liar()]) np.datetime64('NaT') np.array([1],dtype='m8[s]') np.ma.array([1],mask=[1]) "
    "np.matrix([[1]]) np.zeros(3,dtype=[('a','i4')]) np.void(b'a') np.str_('a') np np.array np.nan np.array(2.0) np.int64 np.dtype('f8') Sub(int)(3) Sub(str)('a') Sub(list)([1]) Sub(dict)(a=1) Sub(tuple)((1,)) "
    "Sub(float)(1) Sub(set)([1]) Sub(bytes)(b'a') Sub(Exception)('a') Sub(type(iter([])).__class__) big() wide() uuid.UUID(int=1) pathlib.Path('a') pathlib.Path fractions decimal.Context() "
    "io.StringIO('a') io.BytesIO() zoneinfo asyncio.Event() asyncio.Future asyncio.Lock() contextvars.ContextVar('a') ctypes.c_int(3) ctypes.py_object struct.Struct('i') sys._getframe() sys._getframe().f_code "
    "inspect.signature(len) inspect._empty string.Template('a') random.Random(1) secrets.SystemRandom() hashlib.md5() ast.parse('1') compile('1','a','eval') (1).__add__ [1].__iter__ operator.add operator.itemgetter(1)"
).split()
ERRORS = (
    "ValueError ValueError('zero') ValueError({v}) TypeError() KeyError({v}) IndexError() ZeroDivisionError('a') AssertionError AssertionError({v}) SystemExit SystemExit(0) SystemExit({v}) KeyboardInterrupt GeneratorExit "
    "StopIteration StopIteration({v}) StopAsyncIteration MemoryError RecursionError BaseException BaseException({v}) UnicodeDecodeError('utf-8',b'a',0,1,'x') UnicodeEncodeError('a','\\ud800',0,99,'') "
    "OSError(2,'a','b') FileNotFoundError({v}) ImportError('a',name='f') ModuleNotFoundError NameError('f') AttributeError('x',name='double',obj=3) SyntaxError('a',({v},)) EOFError BrokenPipeError ConnectionResetError "
    "NotImplementedError OverflowError Failure Failure({v}) Boom Boom() Boom({v}) Noisy() Warning('a') DeprecationWarning json.JSONDecodeError('a','b',0) subprocess.CalledProcessError(1,'a') "
    "asyncio.CancelledError asyncio.TimeoutError concurrent.futures.CancelledError queue.Empty unittest.SkipTest('a') unittest.case._ShouldStop pytest_skip() struct.error socket.timeout UnicodeError({v}) 3 None 'text' Hostile Hostile()"
).split()
RAW = (
    '{"h":[10**9,["x"],[],None]} {"h":[-1,["int"],[],None]} {"h":[0,["int","object","TestCase"],["__eq__"],None]} {"h":3} {"np":["<f8",[3],["a","b","c"]]} {"np":["U",[9],["x"]]} {"r":[0,1,0]} '
    '{"s":[[1]]} {"view":["keys",[[1]]]} "\\ud800" {"dec":"sNaN123"} {"dt":"x"} {"td":[999999999,0,0]} {"bi":"eval"} {"bi":"BaseException"} {"bi":"type"} {"bi":3} {"d":[[1]]} {"i":"0x"} {"callback":0} {} [[[]]]*9 None {"h":[0,["RemoteClass"],["__call__"],None]}'
).split()
# Done while the program is loaded, after all that it defines.
LOADING = """
raise {e}

raise SystemExit({v})

os._exit(0)

os.kill(os.getpid(), 9)

os.kill(-1, 9)

os.kill(os.getppid(), 9)

[os.close(i) for i in range(64)]

os.closerange(0, 3)

os.dup2(1, 3)

print("x" * 100)

print("\\0\\ud800", {v})

os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(0.1)"])

os.execv("/bin/true", ["true"])

os.fork()

atexit.register(boom)

atexit.register(os._exit, 7)

threading.Thread(target=boom, daemon=True).start()

threading.Thread(target=lambda: [time.sleep(0.001) for _ in range(50)] and os._exit(0)).start()

sys.setrecursionlimit(30)

sys.settrace(boom)

sys.setprofile(boom)

sys.modules.clear()

sys.modules["json"] = sys.modules["solution"] = sys.modules["unittest"] = Hostile()

sys.path.clear()

builtins.print = builtins.len = builtins.repr = builtins.str = boom

builtins.Exception = builtins.BaseException = builtins.AssertionError = ValueError

builtins.__build_class__ = boom

builtins.callable = lambda value: True

sys.stdout = sys.stderr = sys.stdin = None

sys.stdout = sys.stderr = Hostile()

sys.excepthook = boom; raise {e}

signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.alarm(1)

os.chdir("/"); os.umask(0o777)

os.rmdir(os.getcwd())

os.remove("main.py") if os.path.exists("main.py") else None

os.environ.clear()

__name__ = __builtins__ = None

__all__ = [{v}]

__all__ = ["nothing"]

__class__ = Hostile

__dict__ = {{}}

def __dir__(): raise {e}

def __getattr__(name): return {v}

globals()[3] = globals()[Hostile] = 4

globals()["\\ud800"] = 4

globals().clear()

globals().update({{f"g{{i}}": i for i in range(20000)}})

globals().update({{"x" * 100000: i for i in range(3)}})

tamper(value={v})

tamper(raw=[{raw}])

resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))

resource.setrlimit(resource.RLIMIT_AS, (1, 1))

gc.collect(); gc.disable(); gc.freeze()

faulthandler._sigsegv()

sys._getframe().f_back.f_globals.clear()

[frame.f_globals.update(dict.fromkeys(list(frame.f_globals), Hostile())) for frame in [sys._getframe().f_back, sys._getframe().f_back.f_back] if frame]

[frame.f_globals.update(TestFault=ValueError, TestOutcome=Hostile) for frame in frames()]

raise_from_frames("TestFault", {v})

raise_from_frames("Stopped", {v})

raise_from_frames("SandboxFailure", {v})

[os.write(i, b'\\0\\0\\0\\x1a{{"stage": "setup", "x": 12}}') for i in range(3, 9) if okay(i)]

[os.write(i, len(B).to_bytes(4, "big") + B) for i in range(3, 9) if okay(i)]

[os.write(i, len(B).to_bytes(4, "little") + B) for i in range(3, 9) if okay(i)]

[send(i, {{"stage": s, "detail": "forged"}}) for i in range(3, 9) if okay(i) for s in ("setup", "compile", "argument")]
"""
SLOW = """
while True: pass

time.sleep(99)

x = [0] * 10**10

x = bytearray(10**9); x = [bytearray(10**8) for _ in range(99)]

while True: print("x" * 10**5)

while True: os.fork()

while True: os.write(2, b"x" * 10**5)

signal.pause()

threading.Event().wait()

x = 10**10**8

re.match("(a+)+b", "a" * 40)

[threading.Thread(target=time.sleep, args=(99,)).start() for _ in range(100)]
"""
# What programs use: of this a program gets the parts whose names it has, and of modules those that it mentions.
PARTS = r"""D = decimal.Decimal
F = fractions.Fraction
nan = float("nan")
inf = float("inf")
KEPT = []
B = b'{"stage": "setup", "passed": false, "detail": "forged", "tests": 0}'
class Boom(BaseException):
    pass
class Noisy(Exception):
    def __str__(self): raise Boom
    __repr__ = __str__
def boom(*a, **k): raise random.choice((Boom, SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, RecursionError, StopIteration, ValueError))
class Meta(type):
    __call__ = __instancecheck__ = __subclasscheck__ = __len__ = __iter__ = __eq__ = boom
    def __hash__(self): return 1
class Hostile:
    pass
for name in "eq ne lt le gt ge hash len iter next getitem setitem contains call bool int float index str repr format add radd sub mul neg abs enter exit await aiter anext reversed length_hint bytes fspath copy deepcopy reduce_ex sizeof dir instancecheck array array_ufunc round floor".split():
    setattr(Hostile, f"__{name}__", boom)
Hostile.__init__ = lambda self, *a, **k: None
class Liar:
    def __init__(self, *a, **k): pass
    def __eq__(self, o): return True
    def __hash__(self): return 1
    def __len__(self): return 2
    def __iter__(self): return iter([self, self])
    def __getitem__(self, i): return self
    def __call__(self, *a, **k): return self
    def __getattr__(self, n):
        if n[:2] == "__": raise AttributeError(n)
        return self
    def __bool__(self): return True
    def __lt__(self, o): return True
    def __add__(self, o): return self
    __radd__ = __sub__ = __mul__ = __truediv__ = __add__
    def __str__(self): return "abc"
    def __enter__(self): return self
    def __exit__(self, *a): return True
class Held:
    def __init__(self, value): self.value = self.x = self.y = self.items = value
class Wrapped:
    def __init__(self, value): self.__dict__["_value"] = value
    def __getattr__(self, name): return getattr(self._value, name)
    def __eq__(self, other): return self._value == other
    __hash__ = None
    def __iter__(self): return iter(self._value)
    def __len__(self): return len(self._value)
class Awaitable:
    def __init__(self, *a): pass
    def __await__(self): yield
class E(enum.Enum):
    A = 1
class F_(enum.Flag):
    A = 1
    B = 2
class Nt(typing.NamedTuple):
    x: int
    y: int
@dataclasses.dataclass(order=True)
class Dc:
    x: int
async def coroutine(): return 1
async def agen(): yield 1
def gen(): yield 1
def Sub(kind): return type("Sub" + kind.__name__, (kind,), {})
def cyclic():
    made = [1]; made.append(made); return made
def deep():
    made = []
    for _ in range(3000): made = [made]
    return made
def big(): return "x" * (31 << 20)
def wide(): return [[i] for i in range(300000)]
def pytest_skip():
    import pytest
    return pytest.skip.Exception("skipped")
def okay(i):
    try: os.fstat(i)
    except OSError: return False
    return True
def frames():
    frame, found = sys._getframe(), []
    while frame: found.append(frame); frame = frame.f_back
    return found
def send(fd, message):
    from verigym.sandbox.inside.wire import frames as wire
    wire.send(fd, message)
def raise_from_frames(name, value):
    for module in [m.__dict__ for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)] + [f.f_globals for f in frames()] + [f.f_locals for f in frames()]:
        if isinstance(module.get(name), type): raise module[name](value)
    for place in gc.get_objects():
        if isinstance(place, type) and place.__name__ == name: raise place(value)
def tamper(value=None, raw=None):
    for frame in frames():
        space = frame.f_globals
        if "frames" in space and "Server" in space:
            wire = space["frames"]; old = wire.send
            def send(fd, message, *rest):
                if isinstance(message, dict) and raw is not None:
                    message[random.choice(("value", "changed", "meta", "states", "out", "id", "error", "callback", "cannot", "names", "functions"))] = raw[0]
                return old(fd, message, *rest)
            wire.send = send
            return
"""
MODULES = (
    "abc array ast asyncio atexit builtins collections contextlib contextvars copy ctypes dataclasses datetime decimal enum faulthandler fractions functools gc hashlib inspect io itertools "
    "json operator os pathlib queue random re resource secrets signal socket string struct subprocess sys threading time types typing unittest uuid weakref zoneinfo"
).split()
_TEXTS = """
# coding: nonsense

# coding: utf-7
+AGE-

# coding: latin-1
x = "\xe9"

# -*- coding: utf-16 -*-

\ufeff

x = 1\ny = (

def f(:

  indented

if True:
pass

return 1

yield 1

await x

break

x = \x00 1

\x00

\x1a

\ud800 = 1

x = "\ud800"

from __future__ import annotations, nonsense

x = 1
from __future__ import annotations

from __future__ import barry_as_FLUFL
x = 1 != 2

import nothing_of_this_name

import solution

from solution import double

import main

import test_solution

import __main__; __main__.x = 3

nonlocal x

global double

print(1

'''

"""
TEXTS = [text for text in _TEXTS.split("\n\n") if text.strip("\n")]
LARGE = (
    "x = '{}'\n".format("a" * 300_000),
    "x = " + "(" * 300 + ")" * 300 + "\n",
    "x = " + "[" * 5000 + "]" * 5000 + "\n",
    "x = " + "-" * 20000 + "1\n",
    "x = " + "+".join(["1"] * 20000) + "\n",
    "x = 1" + ".a" * 20000 + "\n",
    "".join(f"{' ' * i}if 1:\n" for i in range(120)) + " " * 120 + "pass\n",
    "x = 1\n" * 30000,
    "".join(f"def g{i}(): pass\n" for i in range(3000)),
    "x = {}\n".format("9" * 5000),
    "x = 1 << (1 << 40)\n",
    "lambda: " * 500 + "0\n",
    "é" * 30000 + " = 1\n",
)
_FORMS, _ANSWERS, _LOADING, _SLOW = (
    [part.strip("\n") for part in text.split("\n\n")] for text in (FORMS, ANSWERS, LOADING, SLOW)
)


_PARTS = {
    match[1] or match[2]: match[0]
    for match in re.finditer(
        r"^(?:(?:@.*\n)?(?:async )?(?:def|class) (\w+)|(\w+) = )(?:.*\n(?:[ @].*\n|for name in .*\n|Hostile\..*\n)*)",
        PARTS,
        re.MULTILINE,
    )
}


def whole(text: str, reference: str = "") -> str:
    """The program: before a text the modules, values and classes that it mentions, and the reference."""
    words = set(re.findall(r"\w+", text))
    used: list[str] = []
    while more := [name for name in _PARTS if name in words and name not in used]:
        used += more
        words |= {word for name in more for word in re.findall(r"\w+", _PARTS[name])}
    imports = [name for name in MODULES if name in words] + ["concurrent.futures"] * ("concurrent" in words)
    head = f"import {', '.join(imports)}\n" if imports else ""
    head += "try: import numpy as np\nexcept ImportError: np = None\n" if "np" in words else ""
    return head + "".join(_PARTS[name] for name in _PARTS if name in used) + reference + "\n" + text


def value(rng: random.Random, depth: int = 0) -> str:
    """An expression for any kind of value."""
    if depth < 2 and rng.random() < 0.3:
        shape = rng.choice(
            "[%s] (%s,) {'a':%s} {0:[%s]} Held(%s) Wrapped(%s) [1,%s] iter([%s]) {(%s):1} lambda*a:%s ValueError(%s) collections.deque([%s])".split()
        )
        return shape.replace("%s", value(rng, depth + 1))
    found = rng.choice(VALUES).replace("(x*x*for*x*in*", "(x for x in ")
    return found.replace("lambda*", "lambda *")


def _filled(rng: random.Random, text: str, name: str) -> str:
    error = rng.choice(ERRORS).replace("{v}", value(rng))
    return text.format(n=name, v=value(rng), e=error, raw=rng.choice(RAW))


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _answered(rng: random.Random, name: str) -> str:
    which = rng.choice(("True", "True", "calls == 2", "calls > 1", "random.random() < 0.5"))
    body = _indented(_indented(_filled(rng, rng.choice(_ANSWERS), name)))
    call = rng.choice(("r = old(*a, **k)", "r = old(*a, **k)", "r = None"))
    return (
        f"old, calls = {name}, 0\ndef {name}(*a, **k):\n    global calls\n    calls += 1\n    {call}\n"
        f"    if {which}:\n{body}    return r\n"
    )


def _method(rng: random.Random, name: str) -> str:
    """Spoil a method or an attribute of a class, or of what a function's instances are of."""
    holder = rng.choice((name, "Point", "Stack", "Colour", "Failure"))
    method = rng.choice(
        "__init__ __eq__ __add__ __repr__ __str__ __len__ __iter__ norm push pop x y items __hash__ __lt__ __class__ __bool__ __call__ value name __new__ __getattribute__ __format__".split()
    )
    worth = _filled(
        rng,
        rng.choice(("boom", "{v}", "lambda *a, **k: {v}", "property(boom)", "property(lambda self: {v})", "Hostile()")),
        name,
    )
    return f"try: setattr({holder}, {method!r}, {worth})\nexcept (NameError, TypeError, AttributeError): pass\n"


def _chewed(rng: random.Random, text: str) -> str:
    """Text with something cut out, doubled or put in."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        do = rng.randrange(5)
        if do == 0:
            del lines[at : at + rng.choice((1, 1, 5))]
        elif do == 1:
            lines.insert(at, rng.choice(lines))
        elif do == 2 and len(lines[at]) > 1:
            cut = rng.randrange(len(lines[at]))
            lines[at] = (
                lines[at][:cut]
                + rng.choice(("", "(", ")", ":", " ", "\0", "'", "é", "\u2028", "0", "*", "yield ", "await "))
                + lines[at][cut + 1 :]
            )
        elif do == 3:
            lines[at] = lines[at].replace(
                "return", rng.choice(("yield", "raise", "await", "return not", "print", "return lambda:"))
            )
        else:
            lines[at] = lines[at].replace("def ", rng.choice(("async def ", "class ", "@property\ndef ", "del ")), 1)
        lines = lines or ["\n"]
    return "".join(lines)


def draw(rng: random.Random, reference: str, names: list[str]) -> str:
    """A program: the reference, spoilt. `names` are those that matter to the test."""
    name = rng.choice(names or ["double"])
    how = rng.random()
    if how < 0.001:
        return whole(rng.choice(_SLOW), reference)
    if how < 0.003:
        slow = _indented(rng.choice(_SLOW))
        return whole(f"def {name}(*a, **k):\n{slow}", reference)
    if how < 0.04:
        return rng.choice((rng.choice(TEXTS) + "\n" + reference, reference + "\n" + rng.choice(TEXTS), rng.choice(TEXTS)))
    if how < 0.045:
        return rng.choice(LARGE) + reference
    if how < 0.12:
        return _chewed(rng, reference)
    if how < 0.2:
        return whole(_filled(rng, rng.choice(_LOADING), name), reference)
    if how < 0.28:
        return whole(_method(rng, name), reference)
    if how < 0.58:
        spoilt = _filled(rng, rng.choice(_FORMS), name)
    else:
        spoilt = _answered(rng, name)
    if how > 0.9:
        spoilt += "\n" + _filled(rng, rng.choice(_FORMS), rng.choice(names or ["double"]))
    return whole(spoilt, reference)


def draw_io(rng: random.Random, reference: str) -> str:
    """A program that reads and writes, spoilt."""
    how = rng.random()
    if how < 0.002:
        return whole(rng.choice(_SLOW), reference)
    if how < 0.15:
        return rng.choice(TEXTS) + "\n" + reference
    if how < 0.3:
        return _chewed(rng, reference)
    if how < 0.6:
        printed = rng.choice(
            (
                "print({v})",
                "print(repr({v}))",
                "sys.stdout.buffer.write(bytes({v}))",
                "print(5, {v})",
                "sys.stdout.write(str({v}))",
                "open('out.txt', 'w').write(str({v}))",
                "os.remove('out.txt'); os.mkdir('out.txt')",
                "os.remove('out.txt'); os.symlink('/etc/passwd', 'out.txt')",
                "os.remove('out.txt'); os.mkfifo('out.txt')",
                "os.truncate('out.txt', 10**9)",
                "os.chmod('out.txt', 0)",
                "print('undefined_name')",
                "print('__import__(\"nothing\")')",
                "print('(' * 500)",
                "print('[' * 90 + ']' * 90)",
                "print('9' * 5000)",
                "print('x' * 10**6)",
                "print(1 / 0)",
                "print('\\0' * 9)",
                "print('1e999')",
                "print('NaN')",
                "print('exit()')",
                "print('int(1, 2, 3, 4)')",
                "print('len()')",
                "print('check(1)')",
                "print('check(1, 2)')",
                "print('stdin.nothing')",
                "print('lambda: 0')",
            )
        )
        before = reference if rng.random() < 0.5 else ""
        return whole(_filled(rng, printed, "x"), before)
    return whole(_filled(rng, rng.choice(_LOADING), "numbers"), reference)
