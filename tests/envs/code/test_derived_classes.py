# ruff: noqa: E501, programs are data
"""Classes that a test derives from the program's."""

import pytest
from judged import scored

SHAPES = """
import abc

class Shape(abc.ABC):
    unit = "cm"
    made = 0

    def __init__(self, name):
        self.name = name
        self.log = []
        Shape.made += 1

    @abc.abstractmethod
    def area(self): ...

    @classmethod
    def named(cls, *args):
        return cls(*args)

    @property
    def label(self):
        return f"{self.name}: {self.area()} {self.unit}"

    def scaled(self, factor):
        self.log.append(factor)
        return self.area() * factor

    def __lt__(self, other):
        return self.area() < other.area()

    def __str__(self):
        return f"<{self.name}>"

def largest(shapes):
    return max(shapes, key=lambda shape: shape.area())

def make(kind, *args):
    return kind(*args)

def total(shapes):
    return sum(shape.area() for shape in shapes)
"""
SQUARE = """
class Square(Shape):
    def __init__(self, side):
        super().__init__("square")
        self.side = side
        self.seen = []

    def area(self):
        self.seen.append(self.side)
        return self.side ** 2

"""


@pytest.mark.parametrize(
    "test",
    [
        "s = Square(3)\nassert s.label == 'square: 9 cm' and s.scaled(2) == 18 and s.log == [2] and s.seen == [3, 3]",
        "one, two = Square(1), Square(2)\nassert largest([one, two]) is two and one < two and sorted([two, one])[0] is one",
        "made = make(Square, 4)\nassert type(made) is Square and made.area() == 16 and made.seen == [4]",
        "made = Square.named(5)\nassert isinstance(made, Square) and isinstance(made, Shape) and issubclass(Square, Shape)",
        "assert str(Square(1)) == '<square>' and Square(1).unit == 'cm'",
        "class Loud(Square):\n    unit = 'm'\n    def __str__(self):\n        return super().__str__().upper()\n"
        "    def scaled(self, factor):\n        return super().scaled(factor) + 1\n"
        "s = Loud(2)\nassert str(s) == '<SQUARE>' and s.scaled(2) == 9 and s.label == 'square: 4 m'",
        "class Bad(Shape):\n    pass\ntry:\n    Bad('x')\n    assert False\nexcept TypeError:\n    pass",
        "class Raising(Square):\n    def area(self):\n        raise KeyError('area')\n"
        "try:\n    total([Raising(1)])\n    assert False\nexcept KeyError as error:\n    assert error.args == ('area',)",
        "class Mixin:\n    def area(self):\n        return 7\nclass Mixed(Mixin, Shape):\n    pass\n"
        "assert total([Mixed('a'), Mixed('b')]) == 14",
    ],
    ids=[
        "methods",
        "given back",
        "made by the program",
        "by a class method",
        "inherited",
        "super",
        "abstract",
        "raised",
        "mixin",
    ],
)
def test_a_class_of_the_tests_derives_from_the_programs(test: str) -> None:
    score = scored(SHAPES, SQUARE + test)
    assert score.status == "correct", score.reason


@pytest.mark.parametrize(
    "program,test",
    [
        (SHAPES.replace("shape.area() for", "2 for"), "assert total([Square(1), Square(3)]) == 10"),
        (SHAPES.replace("max(", "min("), "one, two = Square(1), Square(2)\nassert largest([one, two]) is two"),
        (SHAPES.replace("return kind(*args)", "return Shape"), "assert isinstance(make(Square, 4), Square)"),
        # A class of the program's that is called as the test's is another.
        (
            SHAPES.replace("return kind(*args)", "return type('Square', (), {'area': lambda self: 16})()"),
            "assert isinstance(make(Square, 4), Square)",
        ),
        (
            SHAPES.replace("return kind(*args)", "return type('test.0', (), {'area': lambda self: 16})()"),
            "assert isinstance(make(Square, 4), Square)",
        ),
        (
            SHAPES.replace("class Shape(abc.ABC):", "class Shape(abc.ABC):\n    def __eq__(self, other): return True"),
            "assert make(Square, 4) == Square(5)",
        ),
    ],
    ids=["not asked", "another", "a class", "of the same name", "of a made-up name", "equal to everything"],
)
def test_and_says_what_the_program_did(program: str, test: str) -> None:
    assert scored(program, SQUARE + test).status == "incorrect"


REGISTRY = """
class Plugin:
    known = {}

    def __init_subclass__(cls, name=None, **rest):
        super().__init_subclass__(**rest)
        Plugin.known[name or cls.__name__] = cls

    @classmethod
    def make(cls, name):
        return Plugin.known[name]()
"""
MIXED = """
class Named:
    def __init__(self, name): self.name = name

class Shown:
    def show(self): return f"<{self.name}>"

class Priced:
    @property
    def price(self): return 3
"""


@pytest.mark.parametrize(
    ("program", "wrong", "test"),
    [
        (
            REGISTRY,
            REGISTRY.replace("Plugin.known[name or cls.__name__] = cls", "pass"),
            "class One(Plugin, name='one'):\n    def go(self): return 4\nclass Two(Plugin): pass\n"
            "assert sorted(Plugin.known) == ['Two', 'one'] and Plugin.make('one').go() == 4 and isinstance(Plugin.make('one'), One)",
        ),
        (
            REGISTRY.replace(
                "Plugin.known[name or", "if not hasattr(cls, 'go'): raise TypeError('no go')\n        Plugin.known[name or"
            ),
            REGISTRY,
            "class One(Plugin):\n    def go(self): return 4\ntry:\n    class Two(Plugin): pass\n    assert False\nexcept TypeError:\n    pass",
        ),
        (
            MIXED,
            MIXED.replace("<{", "[{"),
            "class Both(Shown, Named): pass\nb = Both('x')\nassert b.show() == '<x>' and isinstance(b, Shown) and isinstance(b, Named)",
        ),
        (
            MIXED,
            MIXED.replace("return 3", "return 4"),
            "class Dear(Priced):\n    @property\n    def price(self): return super().price + 1\nassert Dear().price == 4",
        ),
    ],
    ids=["noticed", "refused", "two bases", "a property by super"],
)
def test_what_deriving_does(program: str, wrong: str, test: str) -> None:
    score = scored(program, test)
    assert score.status == "correct", score.reason
    assert scored(wrong, test).status == "incorrect"
