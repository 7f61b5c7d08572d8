import json
import subprocess
import sys
from typing import Any

import pytest
from needs import lack, needs


def confined(arguments: str, then: str) -> tuple[list[str], Any]:
    """Confine a fresh process, run a line in it, and return the layers and what the line left in `result`."""
    code = (
        "import json, os, resource, socket\n"
        "from verigym.sandbox.confine import confine\n"
        f"layers = confine({arguments})\n"
        "result = None\n"
        f"{then}\n"
        "print(json.dumps([layers, result]))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    layers, result = json.loads(out)
    return layers, result


def test_the_defaults_need_nothing() -> None:
    layers, status = confined("", "result = open('/proc/self/status').read()")
    assert set(layers) >= {"core", "no_new_privs", "not_dumpable"}
    assert "NoNewPrivs:\t1" in status


def test_memory_is_limited() -> None:
    line = "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    result = 'refused'"
    layers, result = confined("memory_bytes=512 << 20", line)
    assert "memory" in layers
    assert result == "refused"


def test_files_cannot_be_written_while_pipes_can(tmp_path: Any) -> None:
    path = tmp_path / "file"
    line = (
        f"try:\n    with open({str(path)!r}, 'w') as f: f.write('x')\nexcept OSError as error:\n    result = error.errno\n"
        "r, w = os.pipe(); os.write(w, b'x')"
    )
    layers, result = confined("file_bytes=0", f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{line}")
    assert "files" in layers
    assert result == 27  # EFBIG


@pytest.mark.slow
def test_cpu_time_is_limited() -> None:
    code = "from verigym.sandbox.confine import confine\nconfine(cpu_s=1)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode < 0


def test_the_network_is_gone_where_the_kernel_allows() -> None:
    line = "result = [name for _, name in socket.if_nameindex()]"
    layers, interfaces = confined("network=False", line)
    if "no_network" not in layers:
        lack("kernel", "this kernel or container makes no network namespaces")
    assert interfaces in (["lo"], [])


@needs("root")
def test_an_ordinary_user_gets_every_limit() -> None:
    code = (
        "import json, os\n"
        "from verigym.sandbox.confine import confine\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "layers = confine(memory_bytes=1 << 30, cpu_s=5, file_bytes=0, processes=0, network=False, die_with_parent=True)\n"
        "try:\n    os.fork()\nexcept OSError:\n    print(json.dumps(layers))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(json.loads(out)) >= {"memory", "cpu", "files", "processes", "no_new_privs", "die_with_parent"}


def test_missing_layers_never_raise() -> None:
    line = "import verigym.sandbox.confine as c; c._libc = None; result = c.confine(network=False, die_with_parent=True)"
    _, layers = confined("", line)
    assert layers == ["core"]
    layers, _ = confined("memory_bytes=1 << 30", "from verigym.sandbox.confine import confine; confine(memory_bytes=1 << 40)")
    assert "memory" in layers
