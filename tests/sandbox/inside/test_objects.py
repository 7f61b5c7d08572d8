# ruff: noqa: E501, programs are data
"""Classes of the candidate's, used by a test in another process."""

from __future__ import annotations

CLASSES = """
import enum
class Account:
    "An account."
    MIN = 1
    def __init__(self, balance=0, owner=None): self.balance = balance; self.owner = owner; self.log = [balance]
    def deposit(self, n):
        if n < 0: raise ValueError("negative")
        self.balance += n; self.log.append(n); return self
    def get(self, key): return key + 1
    @property
    def double(self): return 2 * self.balance
    @classmethod
    def rich(cls): return cls(10**6)
    @staticmethod
    def add(a, b): return a + b
    def __len__(self): return len(self.log)
    def __iter__(self): return iter(self.log)
    def __getitem__(self, i): return self.log[i]
    def __str__(self): return f"Account({self.balance})"
    def __enter__(self): return self
    def __exit__(self, *a): self.balance = -1
    def __eq__(self, other): return True
class Saver(Account): pass
class Color(enum.Enum): RED = 1; BLUE = 2
class Node:
    def __init__(self, val, next=None): self.val = val; self.next = next
class Count:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if not self.n: raise StopIteration
        self.n -= 1; return self.n
def length(node): return 0 if node is None else 1 + length(node.next)
def color(n): return Color.RED if n else Color.BLUE
def adder(n): return lambda x: x + n
def build(): return Node(1, Node(2))
def apply(g, x): return g(x)
def inc(x): return x + 1
"""
CLASS_TEST = """
import solution
from solution import Account, Color, Node
a = Account(5)
assert a.balance == 5 and a.deposit(3).balance == 8 and a.double == 16 and len(a) == 2 and list(a) == [5, 3] and a[1] == 3
assert a.deposit(1).balance == 9 and a == a and Account(9) == Account(9) and not (Account(9) != Account(9)) and a != 9 and a == Account(9) and a != Account(8) and a in [a] and bool(a)
assert str(a) == "Account(9)" and f"{a}" == "Account(9)" and 3 in a and 4 not in a and a.get(1) == 2
assert Account.MIN == 1 and Account.rich().balance == 10**6 and Account.add(1, 2) == 3 and Account.__doc__ == "An account."
assert isinstance(a, Account) and isinstance(solution.Saver(), Account) and not isinstance(3, Account) and issubclass(solution.Saver, Account)
try: a.deposit(-1)
except ValueError as e: assert str(e) == "negative"
try: a.nothing
except AttributeError: pass
else: raise AssertionError
with Account(1) as b: assert b.balance == 1
assert b.balance == -1
a.balance = 100; assert a.balance == 100
head = Node(1); head.next = Node(2, Node(3))
assert solution.length(head) == 3 and head.next.next.val == 3 and head.next.next.next is None
assert build().next.val == 2 and color(1) == Color.RED and color(0) is Color.BLUE and Color.RED.value == 1 and Color["RED"] is Color.RED
assert [c.name for c in Color] == ["RED", "BLUE"] and Account(owner=a).owner is a
assert list(solution.Count(3)) == [2, 1, 0] and next(iter(solution.Count(3))) == 2
assert apply(inc, 1) == 2
assert hasattr(a, "deposit") and not hasattr(a, "nothing")
"""


def test_objects_of_the_candidates_are_held_by_number(verdict):
    found = verdict(CLASSES, code=CLASS_TEST)
    assert (found["passed"], found["stage"], found["detail"]) == (True, "done", "")
