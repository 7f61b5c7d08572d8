"""The filter, installed for real in fresh processes: what must fail does so with the right error, what programs need works."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import lack, lacking, needs, require

from verigym.sandbox.inside.walls import seccomp
from verigym.sandbox.inside.walls.syscalls import ARCHITECTURE, NUMBERS

# The sandbox without the rest of the package, which takes ten times as long to import.
ALONE = f"""
import sys, types
sys.modules.update({{name: types.ModuleType(name) for name in ("verigym", "verigym.sandbox")}})
sys.modules["verigym.sandbox"].__path__ = [{str(Path(__file__).parents[3] / "sandbox")!r}]
"""

pytestmark = lacking("kernel", not seccomp.available(), "it takes no system call filters")

REFUSED = """
    ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease move_pages
    mount umount2 pivot_root move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr chroot unshare setns
    keyctl add_key request_key bpf perf_event_open io_uring_setup io_uring_enter io_uring_register userfaultfd
    shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_notify
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl quotactl_fd
    settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname syslog vhangup iopl ioperm modify_ldt
    remap_file_pages vmsplice name_to_handle_at open_by_handle_at fanotify_init
""".split()

# Everything is imported before the user changes, who may not be able to read this interpreter's library.
CHECKED = """
import asyncio, concurrent.futures.thread, ctypes, fcntl, json, mmap, multiprocessing.connection, multiprocessing.pool
import multiprocessing.popen_fork, multiprocessing.queues, multiprocessing.synchronize, multiprocessing.util
import os, select, shutil, signal, socket, stat, subprocess, sys, tempfile
from verigym.sandbox.inside.walls import seccomp, syscalls
def code(name, *args):
    try: result = syscalls.syscall(name, *args)
    except OSError as error: return error.errno
    if name == "clone" and result == 0: os._exit(0)
    if name == "clone": os.waitpid(result, 0)
    return 0
def attempt(function, *args):
    try: function(*args)
    except OSError as error: return error.errno
    return 0
uid, options, calls = json.loads(sys.argv[1])
program = seccomp.build(**options)
if uid: os.setgroups([]); os.setgid(uid); os.setuid(uid)
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
seccomp.install(program)
"""

USERS = [pytest.param(0, marks=needs("root")), 4242]


def filtered(code: str, uid: int = 0, **options: Any) -> Any:
    """Run code under the filter in a fresh process, as another user where this one can, and return its `result`."""
    if uid and os.geteuid() != 0:
        uid = 0
    calls = [name for name in REFUSED if name in NUMBERS]
    source = f"{ALONE}{CHECKED}{code}\nprint(json.dumps(result))"
    done = subprocess.run(
        [sys.executable, "-c", source, json.dumps([uid, options, calls])], capture_output=True, text=True, timeout=600, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("uid", USERS)
def test_what_programs_do_not_need_is_refused(uid: int) -> None:
    # Arguments of all ones are an error in each of them, so that a hole in the filter does not harm the machine.
    results = filtered("result = {name: code(name, *[-1] * 6) for name in calls}", uid)
    assert len(results) > 70
    assert {name: value for name, value in results.items() if value != errno.EPERM} == {}


@pytest.mark.parametrize("uid", USERS)
def test_namespaces_cannot_be_made_by_clone_either(uid: int) -> None:
    flags = {
        "mount": 0x20000,
        "cgroup": 0x2000000,
        "uts": 0x4000000,
        "ipc": 0x8000000,
        "user": 0x10000000,
        "pid": 0x20000000,
        "net": 0x40000000,
    }
    results = filtered(f"result = {{k: code('clone', flag | 17, 0, 0, 0, 0) for k, flag in {flags}.items()}}", uid)
    assert results == dict.fromkeys(flags, errno.EPERM)
    assert filtered("result = [code('clone', 17, 0, 0, 0, 0), code('clone3', 0, 0)]", uid) == [0, errno.ENOSYS]


@pytest.mark.parametrize("uid", USERS)
def test_sockets_are_unix_only(uid: int) -> None:
    code = """
families = (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, socket.AF_ALG, socket.AF_VSOCK, 21, 31, 44)
result = [[code('socket', f, kind, 0) for f in families for kind in (1, 2, 3)]]
# The kernel takes 32 bits of the family: more of them must not fool the filter.
result.append([code('socket', (1 << 32) | socket.AF_INET, 1, 0), code('socketpair', 30, 1, 0, 0)])
result.append([attempt(socket.socket, socket.AF_UNIX, kind) for kind in (1, 2, 5)])
result.append([attempt(socket.socketpair, socket.AF_UNIX, kind) for kind in (1, 2, 5)])
"""
    refused, tricks, unix, pairs = filtered(code, uid)
    assert set(refused) == {errno.EACCES}
    assert tricks == [errno.EACCES, errno.EACCES]
    assert unix == pairs == [0, 0, 0]


def test_all_sockets_can_be_refused_but_connected_pairs() -> None:
    code = """
unix = [code('socket', 1, kind, 0) for kind in (1, 2, 5)] + [code('connect', 0, 0, 0)]
flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
datagrams = [attempt(socket.socketpair, socket.AF_UNIX, kind | flags) for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW)]
connected = [attempt(socket.socketpair, socket.AF_UNIX, kind | flags) for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)]
result = [unix, datagrams, connected]
"""
    unix, datagrams, connected = filtered(code, deny_sockets=True)
    assert set(unix) == set(datagrams) == {errno.EACCES}
    assert connected == [0, 0]


def test_a_datagram_pair_would_reach_any_address() -> None:
    """Why datagram pairs are refused with `deny_sockets`: a connected one still sends wherever it is told to."""
    code = """
folder = tempfile.mkdtemp(dir="/tmp")
server = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(folder + "/listener")
server[0].sendto(b"past the peer", folder + "/listener")
result = listener.recv(100).decode()
shutil.rmtree(folder)
"""
    assert filtered(code) == "past the peer"


@pytest.mark.parametrize("uid", USERS)
def test_arguments_decide(uid: int) -> None:
    code = """
folder = tempfile.mkdtemp()
master, slave = os.openpty()
def ioctl(request): return attempt(fcntl.ioctl, slave, request, b"x" * 64)
def node(kind): return attempt(os.mknod, f"{folder}/{kind}", kind | 0o600, os.makedev(1, 3))
def nodeat(kind):
    fd = os.open(folder, os.O_RDONLY)
    return attempt(lambda: os.mknod(f"at{kind}", kind | 0o600, os.makedev(1, 3), dir_fd=fd))
result = {
    "terminal": [ioctl(r) for r in (0x5412, 0x541C, 0x5423)],
    "high bits": code("ioctl", slave, (1 << 32) | 0x5412, 0),
    "ordinary": [ioctl(0x5401), ioctl(0x5413)],
    "devices": [f(kind) for kind in (stat.S_IFCHR, stat.S_IFBLK) for f in (node, nodeat)],
    "files": [f(kind) for kind in (stat.S_IFIFO, stat.S_IFREG) for f in (node, nodeat)],
    "personality": [code("personality", p) for p in (0xFFFFFFFF, 0, 8, 0x0040000)],
    "memfd": attempt(os.memfd_create, "x"),
    "unknown": [],
}
number = syscalls.NUMBERS
for unknown in (467, 470, 600, 0x3FFFFFFF, -1):
    number["unknown"] = unknown
    result["unknown"].append(code("unknown"))
shutil.rmtree(folder)
"""
    result = filtered(code, uid)
    assert result["terminal"] == [errno.EPERM] * 3
    assert result["high bits"] == errno.EPERM
    assert result["ordinary"] == [0, 0]
    assert result["devices"] == [errno.EPERM] * 4
    assert result["files"] == [0] * 4
    assert result["personality"] == [0, 0, errno.EPERM, errno.EPERM]
    assert result["memfd"] == errno.ENOSYS
    assert result["unknown"] == [errno.ENOSYS] * 5


def test_memory_files_can_be_allowed() -> None:
    assert filtered("result = attempt(os.memfd_create, 'x')", allow_memfd=True) == 0


@lacking("elsewhere", ARCHITECTURE != "x86_64", "other calling conventions are of x86_64")
@pytest.mark.parametrize("way", ["x32", "i386"])
def test_other_calling_conventions_are_deadly(way: str) -> None:
    codes = {
        "x32": "syscalls.NUMBERS['x'] = 0x40000000 | 39; syscalls.syscall('x')",
        # mov eax, 20 (getpid); int 0x80; ret
        "i386": "m = mmap.mmap(-1, 4096, prot=7); m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()",
    }
    arguments = json.dumps([0, {}, []])
    whole = ALONE + CHECKED + codes[way]
    free = whole.replace("seccomp.install(program)", "")
    if subprocess.run([sys.executable, "-c", free, arguments], capture_output=True, timeout=600).returncode == -signal.SIGSEGV:
        lack("kernel", "it has no such calls")
    done = subprocess.run([sys.executable, "-c", whole, arguments], capture_output=True, timeout=600)
    assert done.returncode == -signal.SIGSYS


@pytest.mark.parametrize("uid", USERS)
def test_python_works(uid: int) -> None:
    require("shm")  # where the locks of multiprocessing are
    code = """
def square(n): return n * n
def pooled():
    with multiprocessing.get_context("fork").Pool(2) as pool: return pool.map(square, range(5))
def piped():
    a, b = multiprocessing.Pipe(); a.send({"k": [1]}); return b.recv()
async def shell():
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "echo $((6*7))", stdout=subprocess.PIPE)
    out, _ = await process.communicate(); await asyncio.sleep(0.001); return out.decode()
def threads():
    with concurrent.futures.ThreadPoolExecutor(4) as pool: return list(pool.map(square, range(5)))
def files():
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/x", "w+b") as f:
            f.write(b"x" * 4096); f.flush(); m = mmap.mmap(f.fileno(), 4096); m[0] = 1; m.close()
        os.mkfifo(d + "/fifo"); os.symlink("x", d + "/y"); return sorted(os.listdir(d))
def polls():
    r, w = os.pipe(); os.write(w, b"1"); e = select.epoll(); e.register(r); return len(e.poll(1))
def fork():
    pid = os.fork()
    if not pid: os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
result = [pooled(), piped(), asyncio.run(shell()), threads(), files(), polls(), fork(),
          subprocess.run(["/bin/sh", "-c", "echo a | cat"], capture_output=True, text=True).stdout,
          signal.getitimer(signal.ITIMER_REAL), os.cpu_count() > 0, len(os.sched_getaffinity(0)) > 0, len(os.getrandom(4))]
"""
    result = filtered(code, uid)
    squares = [0, 1, 4, 9, 16]
    assert result[:8] == [squares, {"k": [1]}, "42\n", squares, ["fifo", "x", "y"], 1, 7, "a\n"]
    assert result[8:] == [[0.0, 0.0], True, True, 4]


TOOLS = {
    "bash": (["bash", "-c", "x=$(echo a | tr a b); cat <(echo $x)"], "b\n"),
    "node": (["node", "-e", "require('child_process').exec('echo 1',(e,o)=>console.log(e,o.trim()))"], "null 1\n"),
    "node-worker": (
        ["node", "-e", "const {Worker}=require('worker_threads');new Worker('console.log(5)',{eval:true})"],
        "5\n",
    ),
}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("deny_sockets", [False, True])
def test_other_languages_work(name: str, deny_sockets: bool) -> None:
    argv, expected = TOOLS[name]
    if shutil.which(argv[0]) is None:
        lack("elsewhere", f"{argv[0]} is not installed")
    code = f"result = subprocess.run({argv!r}, capture_output=True, text=True, timeout=500).stdout"
    assert filtered(code, 4242, deny_sockets=deny_sockets) == expected


@needs("g++")
def test_compilers_and_their_threads_work(tmp_path: Any) -> None:
    tmp_path.chmod(0o777)
    source = tmp_path / "main.cpp"
    source.write_text('#include <cstdio>\n#include <thread>\nint main() { std::thread([] { puts("hi"); }).join(); }\n')
    code = f"""
subprocess.run(["g++", "-pthread", "-o", "main", {str(source)!r}], cwd={str(tmp_path)!r}, check=True)
result = subprocess.run([{str(tmp_path / "main")!r}], capture_output=True, text=True).stdout
"""
    assert filtered(code) == "hi\n"


def test_children_inherit_it_through_exec() -> None:
    code = "result = subprocess.run(['grep', 'Seccomp:', '/proc/self/status'], capture_output=True).stdout[-2]"
    assert filtered(code) == ord("2")


def test_without_no_new_privs_it_is_an_error() -> None:
    code = (
        "import errno, os\nfrom verigym.sandbox.inside.walls import seccomp, syscalls\n"
        "if os.getuid() == 0: syscalls.drop_capabilities()\n"
        "try: seccomp.install(seccomp.build())\nexcept OSError as error: print(errno.errorcode[error.errno])"
    )
    assert subprocess.run([sys.executable, "-c", ALONE + code], capture_output=True, text=True).stdout == "EACCES\n"


def test_an_unknown_architecture_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "ARCHITECTURE", "riscv64")
    assert not seccomp.available()
    with pytest.raises(OSError, match="no system call filter for this architecture"):
        seccomp.build()


def test_the_program_fits_the_kernel_on_both_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    from verigym.sandbox.inside.walls import syscalls

    for architecture in ("x86_64", "aarch64"):
        monkeypatch.setattr(syscalls, "ARCHITECTURE", architecture)
        monkeypatch.setattr(seccomp, "ARCHITECTURE", architecture)
        monkeypatch.setattr(seccomp, "NUMBERS", syscalls._numbers())
        assert seccomp.build(deny_sockets=True).length < 500
