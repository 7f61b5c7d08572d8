from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from needs import require

from verigym.sandbox import Limits, Program, RunStatus, Sandbox, languages
from verigym.sandbox.languages import LANGUAGES, language, register_language

QUICK = Limits(wall_s=60, cpu_s=2, memory_mb=256, output_kb=64)
DOUBLE = "#include <bits/stdc++.h>\nusing namespace std;\nint main() { int n; cin >> n; cout << 2 * n << endl; }"


def program(name: str, source: str, **more: object) -> Program:
    known = language(name)
    if known.tool != "{python}":
        require(known.tool)
    return Program(source=source, language=name, **more)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_is_built_once_runs_many_times(box: Sandbox) -> None:
    built, how = box.build(program("cpp", DOUBLE))
    assert built is not None and how.ok, how
    # With this source, compiling again would fail.
    built = replace(built, source="not C++ at all")
    results = [box.run(built, b"%d\n" % number, QUICK) for number in range(20)]
    assert [result.stdout for result in results] == [b"%d\n" % (2 * number) for number in range(20)]


def test_headers_come_with_the_program(box: Sandbox) -> None:
    source = '#include "sub/answer.h"\n#include <stdio.h>\nint main(void) { printf("%d\\n", ANSWER); }'
    result = box.run(program("c", source, files={"sub/answer.h": b"#define ANSWER 42\n"}), limits=QUICK)
    assert result.stdout == b"42\n", result


def test_a_program_larger_than_the_limit_of_files_still_starts(box: Sandbox) -> None:
    source = '#include <stdio.h>\nstatic char data[3 << 20] = {1};\nint main(void) { printf("%d\\n", data[0]); }'
    result = box.run(program("c", source), limits=replace(QUICK, files_mb=1, inodes=4))
    assert result.stdout == b"1\n", result


@pytest.fixture
def small_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bombs are the same under the real limits, but take that much longer."""
    monkeypatch.setattr(languages, "LANGUAGES", dict(LANGUAGES))
    limits = replace(LANGUAGES["cpp"].build_limits, wall_s=60, cpu_s=3, memory_mb=400, files_mb=32)
    register_language(replace(languages.LANGUAGES["cpp"], build_limits=limits))


BOMBS = {
    "template depth": "template <int N> struct F { static const int v = F<N + 1>::v; };\nint main() { return F<0>::v; }",
    "templates": "template <class A, int N> struct F { F<F<A, N>, N - 1> a; F<F<F<A, N>, N>, N - 1> b; };\n"
    "F<int, 40> f;\nint main() {}",
    "includes": '#include "main.cpp"\n#include "main.cpp"\n',
    "macros": "#define A B B B B B B B B\n#define B C C C C C C C C\n#define C D D D D D D D D\n#define D E E E E E E E E\n"
    "#define E F F F F F F F F\n#define F G G G G G G G G\n#define G H H H H H H H H\n#define H I I I I I I I I\n"
    "#define I 1+1+1+1+1+1+1+1+\nint x = A 1;\nint main() {}",
    "endless file": '#include "/dev/zero"\nint main() {}',
    "endless data": '__asm__(".incbin \\"/dev/zero\\"");\nint main() {}',
    "executable of 1 GB": "char data[1 << 30] = {1};\nint main() { return data[5]; }",
    "assembler loop": '__asm__(".rept 100000000\\n.quad 1\\n.endr");\nint main() {}',
    "standard input": '#include "/dev/stdin"',
}


@pytest.mark.parametrize("name", BOMBS)
def test_compile_bombs_are_bounded(box: Sandbox, small_compiler: None, name: str) -> None:
    built, how = box.build(program("cpp", BOMBS[name]))
    assert built is None and how.status is RunStatus.COMPILE, how
    assert how.message
    assert len(how.message) < 5000


def test_the_compiler_sees_nothing_of_the_host(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the expected answer")
    for path in (str(secret), "/etc/shadow", "/root/.profile", "/proc/1/environ"):
        built, how = box.build(program("c", f'__asm__(".incbin \\"{path}\\"");\nint main(void) {{ return 0; }}'))
        assert built is None and how.status is RunStatus.COMPILE, (path, how)
