"""Names that programs may use without importing them, as online judges provide them: from `typing` and common modules."""

from __future__ import annotations

import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

MODULES = (
    "array bisect collections copy datetime decimal fractions functools heapq io itertools json math operator random re "
    "statistics string sys time typing"
).split()
_FROM = {
    "typing": "List Dict Set Tuple Optional Any Union Callable Iterable Iterator Generator Sequence Mapping MutableMapping "
    "DefaultDict Deque FrozenSet NamedTuple TypeVar Generic Literal Type Hashable Collection Final ClassVar cast overload",
    "collections": "deque defaultdict Counter OrderedDict namedtuple ChainMap",
    "heapq": "heappush heappop heapify heappushpop heapreplace nlargest nsmallest merge",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "itertools": "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile groupby islice "
    "pairwise permutations product repeat starmap takewhile tee zip_longest",
    "functools": "lru_cache cache reduce partial cmp_to_key wraps total_ordering cached_property",
    "math": "inf nan pi e tau gcd lcm sqrt isqrt ceil floor log log2 log10 exp factorial comb perm hypot dist fabs fmod "
    "isclose isnan isinf sin cos tan asin acos atan atan2 degrees radians prod trunc",
    "string": "ascii_lowercase ascii_uppercase ascii_letters digits punctuation",
    "random": "randint choice shuffle sample randrange",
    "operator": "itemgetter attrgetter mul add sub xor",
    "copy": "deepcopy",
    "datetime": "timedelta",
    "fractions": "Fraction",
    "decimal": "Decimal",
    "statistics": "mean median mode",
    "io": "StringIO",
    "dataclasses": "dataclass",
    "enum": "Enum",
    "abc": "ABC abstractmethod",
    "sortedcontainers": "SortedList SortedDict SortedSet",
}
PLACES = {name: (name, "") for name in MODULES} | {
    name: (module, name) for module, names in _FROM.items() for name in names.split() if name not in MODULES
}


def find(name: str) -> Any:
    """Return the module or object that online judges provide under `name` without an import.

    Raises:
        LookupError: online judges provide nothing under that name.
    """
    try:
        module, attribute = PLACES[name]
        __import__(module)
        return getattr(sys.modules[module], attribute) if attribute else sys.modules[module]
    except (ImportError, AttributeError):
        raise LookupError(name) from None


def provide(code: CodeType, namespace: dict[str, Any]) -> dict[str, Any]:
    """Add to `namespace` the names that `code` uses and that judges provide, each with its object. Return the added items."""
    provided, known = {}, vars(builtins)
    for name in used(code):
        if name in PLACES and name not in known:
            try:
                provided[name] = find(name)
            except LookupError:
                continue
    namespace.update(provided)
    return provided


def used(code: CodeType) -> set[str]:
    """Return all names that `code` and its functions use, as globals or as attributes."""
    names: set[str] = set()
    todo = [code]
    kind = type(code)
    while todo:
        code = todo.pop()
        names.update(code.co_names)
        todo += [const for const in code.co_consts if type(const) is kind]
    return names


def stored(code: CodeType) -> set[str]:
    """Return the global names that `code`, the code of a module, assigns."""
    import dis

    return {step.argval for step in dis.get_instructions(code) if step.opname in ("STORE_NAME", "STORE_GLOBAL", "IMPORT_STAR")}
