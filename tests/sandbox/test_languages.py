from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from needs import require

from verigym.sandbox import Language, Limits, Program, RunStatus, Sandbox, SandboxFailure, languages
from verigym.sandbox.languages import LANGUAGES, language, register_language

QUICK = Limits(wall_s=60, cpu_s=2, memory_mb=256, output_kb=64)

DOUBLE = {
    "python": "print(2 * int(input()))",
    "bash": "read n; echo $((2 * n))",
    "c": '#include <stdio.h>\nint main(void) { int n; scanf("%d", &n); printf("%d\\n", 2 * n); }',
    "cpp": "#include <bits/stdc++.h>\nusing namespace std;\nint main() { int n; cin >> n; cout << 2 * n << endl; }",
    "javascript": 'const n = Number(require("fs").readFileSync(0, "utf8")); console.log(2 * n);',
}
ARGUMENTS = {
    "python": "import sys; print(sys.argv[1:])",
    "bash": "printf '%s\\n' \"$@\"",
    "c": "#include <stdio.h>\nint main(int n, char **v) { while (*++v) puts(*v); }",
    "cpp": "#include <iostream>\nint main(int n, char **v) { while (*++v) std::cout << *v << '\\n'; }",
    "javascript": "for (const word of process.argv.slice(2)) console.log(word);",
}
EXIT_3 = {
    "python": "raise SystemExit(3)",
    "bash": "exit 3",
    "c": "int main(void) { return 3; }",
    "cpp": "#include <cstdlib>\nint main() { exit(3); }",
    "javascript": "process.exit(3)",
}
UNCAUGHT = {
    "python": "[][1]",
    "bash": "set -e; false; echo unreachable",
    "c": "#include <stdlib.h>\nint main(void) { abort(); }",
    "cpp": '#include <stdexcept>\nint main() { throw std::runtime_error("x"); }',
    "javascript": "undefined.x",
}
BROKEN = {
    "python": "def f(:",
    "bash": "if then",
    "c": "int main(void) { return x; }",
    "cpp": "int main() { return x; }",
    "javascript": "function (",
}
ENDLESS = {
    "python": "while True: pass",
    "bash": "while :; do :; done",
    "c": "int main(void) { for (volatile int i;;) i = 1; }",
    "cpp": "int main() { for (volatile int i;;) i = 1; }",
    "javascript": "for (;;);",
}
GREEDY = {
    "python": "a = []\nwhile True: a.append(bytearray(1 << 20))",
    "bash": "s=$(head -c 400000000 /dev/zero | tr '\\0' x)",
    "cpp": "#include <vector>\nint main() { std::vector<int> v; for (;;) v.push_back(1); }",
    "javascript": "const a = []; for (;;) a.push(new Array(100000).fill(1.5));",
}
CHATTY = {
    "python": "while True: print('x' * 1000)",
    "bash": "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
    "c": '#include <stdio.h>\nint main(void) { for (;;) puts("xxxxxxxxxxxxxxxxxxxxxxx"); }',
    "cpp": '#include <iostream>\nint main() { for (;;) std::cout << "xxxxxxxxxxxxxxxxxxxxxxx\\n"; }',
    "javascript": "for (;;) require('fs').writeSync(1, 'x'.repeat(1000));",
}


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registrations of the test are forgotten after it."""
    monkeypatch.setattr(languages, "LANGUAGES", dict(LANGUAGES))
    monkeypatch.setattr(languages, "_aliases", dict(languages._aliases))
    yield


def program(name: str, source: str, **more: object) -> Program:
    known = language(name)
    if known.tool != "{python}":
        require(known.tool)
    return Program(source=source, language=name, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DOUBLE)
def test_reads_and_writes(box: Sandbox, name: str) -> None:
    result = box.run(program(name, DOUBLE[name]), b"21\n", QUICK)
    assert (result.status, result.stdout, result.exit_code) == (RunStatus.OK, b"42\n", 0), result


@pytest.mark.parametrize("name", ARGUMENTS)
def test_takes_arguments(box: Sandbox, name: str) -> None:
    result = box.run(program(name, ARGUMENTS[name], args=("a b", "-c", "{source}")), limits=QUICK)
    expected = b"['a b', '-c', '{source}']\n" if name == "python" else b"a b\n-c\n{source}\n"
    assert result.stdout == expected, result


@pytest.mark.parametrize("name", EXIT_3)
def test_an_exit_code_is_a_runtime_error(box: Sandbox, name: str) -> None:
    result = box.run(program(name, EXIT_3[name]), limits=QUICK)
    assert (result.status, result.exit_code) == (RunStatus.RUNTIME, 3), result


@pytest.mark.parametrize("name", UNCAUGHT)
def test_what_is_not_caught_is_a_runtime_error(box: Sandbox, name: str) -> None:
    result = box.run(program(name, UNCAUGHT[name]), limits=QUICK)
    assert result.status is RunStatus.RUNTIME, result
    assert result.signal == (6 if name in ("c", "cpp") else None)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_source(box: Sandbox, name: str) -> None:
    source = program(name, BROKEN[name])
    result = box.run(source, limits=QUICK)
    compiled = language(name).compile is not None
    assert result.status is (RunStatus.COMPILE if compiled else RunStatus.RUNTIME), result
    assert b"error" in (result.stderr).lower()
    built, how = box.build(source)
    if compiled:
        assert built is None and how.status is RunStatus.COMPILE
        assert f"{language(name).source}:1:" in how.message
    else:
        assert built == source and how.ok


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in ("python", "cpp"))) for n in ENDLESS])
def test_cpu_time_ends(box: Sandbox, name: str) -> None:
    result = box.run(program(name, ENDLESS[name]), limits=replace(QUICK, cpu_s=1))
    assert result.status is RunStatus.TIME, result
    assert 0.5 < result.cpu_s < 2.1  # the kernel counts in ticks, and early where the machine is shared


@pytest.mark.parametrize("name", GREEDY)
def test_memory_ends(box: Sandbox, name: str) -> None:
    result = box.run(program(name, GREEDY[name]), limits=replace(QUICK, cpu_s=30, wall_s=60))
    assert result.status is RunStatus.MEMORY, result


@pytest.mark.parametrize("name", CHATTY)
def test_output_ends(box: Sandbox, name: str) -> None:
    result = box.run(program(name, CHATTY[name]), limits=QUICK)
    assert result.status is RunStatus.OUTPUT, result
    assert len(result.stdout) == 64 << 10


def test_deep_recursion_in_cpp_and_its_threads_start(box: Sandbox) -> None:
    source = """
#include <thread>
#include <vector>
#include <cstdio>
long depth(long n) { volatile char pad[48]; pad[0] = 1; return n ? depth(n - 1) + pad[0] : 0; }
int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) threads.emplace_back([] { depth(1000); });
    for (auto &thread : threads) thread.join();
    printf("%ld\\n", depth(1000000));
}"""
    result = box.run(program("cpp", source), limits=QUICK)
    assert result.stdout == b"1000000\n", result
    source = "int f(int n) { volatile int x = n; return f(x + 1) + x; }\nint main() { return f(0); }"
    endless = box.run(program("cpp", source), limits=Limits(wall_s=600))
    assert endless.status in (RunStatus.RUNTIME, RunStatus.MEMORY), endless


def test_deep_recursion_in_javascript(box: Sandbox) -> None:
    source = """
function depth(n) { return n ? 1 + depth(n - 1) : 0; }
console.log(depth(200000));
try { depth(Infinity); } catch (error) { console.log(error.name); }"""
    result = box.run(program("javascript", source), limits=QUICK)
    assert result.stdout == b"200000\nRangeError\n", result


def test_node_under_small_limits(box: Sandbox) -> None:
    """It hangs where it cannot start its threads."""
    source = 'require("fs").readFile("main.js", () => console.log("read"));'
    result = box.run(program("javascript", source), limits=replace(QUICK, processes=1, memory_mb=64))
    assert result.stdout == b"read\n", result


def test_node_webassembly_memory(box: Sandbox) -> None:
    source = "console.log(new WebAssembly.Memory({initial: 1}).buffer.byteLength);"
    assert box.run(program("javascript", source), limits=QUICK).stdout == b"65536\n"


def test_a_missing_tool_says_what_to_install(box: Sandbox, own_table: None) -> None:
    register_language(
        Language(name="brainstorm", source="main.bs", run=("no-such-tool", "{source}"), needs="apt-get install bs")
    )
    with pytest.raises(SandboxFailure, match=r"brainstorm needs 'no-such-tool'.*apt-get install bs") as caught:
        box.run(Program(source="", language="brainstorm"))
    assert not caught.value.retryable
    register_language(replace(LANGUAGES["c"], compile=("no-such-gcc", "{source}")))
    with pytest.raises(SandboxFailure, match="c needs 'no-such-gcc'.*apt-get install gcc"):
        box.run(Program(source="", language="c"))


def test_a_tool_outside_the_visible_directories_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bash").write_text("#!/bin/sh\n")
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.setattr(languages, "TOOL_DIRECTORIES", (str(tmp_path),))
    with pytest.raises(SandboxFailure, match="'bash', which is not in"):
        languages.tool(LANGUAGES["bash"])


def test_a_language_is_added_in_a_few_lines(box: Sandbox, own_table: None) -> None:
    added = Language(
        name="awk", source="main.awk", run=("awk", "-f", "{source}"), needs="apt-get install mawk", aliases=("mawk",)
    )
    assert register_language(added) is language("MAWK")
    result = box.run(program("awk", "{ print 2 * $1 }"), b"21\n4\n", QUICK)
    assert result.stdout == b"42\n8\n", result


def test_names() -> None:
    for name, alias in [
        ("python", "py"),
        ("python", "Python3"),
        ("bash", "sh"),
        ("cpp", "C++"),
        ("javascript", " node "),
        ("c", "C"),
    ]:
        assert language(alias) is LANGUAGES[name]
    with pytest.raises(
        ValueError, match=r"unknown language 'pyton'; did you mean 'python'\? Known: bash, c, cpp, javascript, python"
    ):
        language("pyton")
    with pytest.raises(ValueError, match=r"unknown language 'cobol'.*Known: bash"):
        language("cobol")


def test_registration_refuses_what_does_not_fit(own_table: None) -> None:
    with pytest.raises(ValueError, match="the name 'py' belongs to 'python'"):
        register_language(Language(name="pypy", source="main.py", run=("pypy3", "{source}"), aliases=("py",)))
    with pytest.raises(ValueError, match="compile and binary both or neither"):
        Language(name="d", source="main.d", run=("{binary}",), compile=("gdc", "{source}"))


def test_lone_surrogates_in_a_source_are_the_programs_fault(box: Sandbox) -> None:
    result = box.run(Program(source="x = '\ud800'"), limits=QUICK)
    assert result.status is RunStatus.RUNTIME, result
