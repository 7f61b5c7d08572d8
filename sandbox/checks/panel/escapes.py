"""Programs that try to escape from the sandbox and print LEAK with what they reached.

Each gets three arguments: a port on which the host listens, the path of a file on the host that contains the word `canary`, and
the folder of verigym on the host.
"""

from __future__ import annotations

from verigym.sandbox.checks.panel.probe import Probe


def _escape(name: str, source: str, language: str = "python") -> Probe:
    return Probe(name, source, "no leak", "print", language, group="escape")


ESCAPES = (
    _escape(
        "the host's environment",
        """
import os
for k, v in os.environ.items():
    if "canary" in v or k.startswith(("VERIGYM", "VIRTUAL_ENV", "SSH_", "AWS_", "HF_")): print("LEAK", k)
""",
    ),
    _escape(
        "files of the host",
        """
import os, sys
for p in ("/etc/shadow", "/root/.bashrc", "/proc/1/root/etc/shadow", "/proc/self/root/root/.bashrc", sys.argv[2]):
    try: open(p, "rb").read(1); print("LEAK", p)
    except OSError: pass
""",
    ),
    _escape(
        "verigym and the solutions of its tasks",
        """
import importlib.metadata, os, sys
try:
    import verigym.envs
    print("LEAK", verigym.envs)
except ImportError: pass
if "verigym" in {found.name for found in importlib.metadata.distributions()}: print("LEAK metadata")
for p in {*sys.argv[3:], *sys.path}:
    for inner in ("verigym/envs/code/functions.py", "envs/code/functions.py", "sandbox/view.py"):
        try: open(os.path.join(p, inner)).read(1); print("LEAK", p, inner)
        except OSError: pass
""",
    ),
    _escape(
        "inherited descriptors",
        """
import os
for fd in range(3, 1024):
    try: os.fstat(fd); print("LEAK descriptor", fd)
    except OSError: pass
""",
    ),
    _escape(
        "other processes",
        """
import os
try: found = os.listdir("/proc")
except OSError: found = map(str, range(1, 5000))
for p in found:
    if p.isdigit() and int(p) != os.getpid():
        for leaf in ("environ", "maps", "mem", "root/etc/passwd"):
            try: open("/proc/%s/%s" % (p, leaf), "rb").read(1); print("LEAK", p, leaf)
            except OSError: pass
""",
    ),
    _escape(
        "signals to others",
        """
import os
for pid in range(2, 40000):  # the first process of a namespace cannot be killed from inside
    if pid != os.getpid():
        try: os.kill(pid, 0); print("LEAK somebody to signal", pid)
        except OSError: pass
""",
    ),
    _escape(
        "ptrace",
        """
import ctypes, os
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
for pid in {os.getppid(), 1} - {0, os.getpid()}:
    if libc.ptrace(16, pid, 0, 0) == 0: print("LEAK attached to", pid)
""",
    ),
    _escape(
        "the network",
        """
import socket, sys
for family, host, port in ((2, "127.0.0.1", int(sys.argv[1])), (2, "169.254.169.254", 80), (2, "1.1.1.1", 53)):
    try:
        s = socket.socket(family); s.settimeout(0.3); s.connect((host, port)); print("LEAK", host)
    except OSError: pass
for kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
    try: socket.socket(*kind, 1); print("LEAK raw socket", *kind)
    except OSError: pass
""",
    ),
    _escape(
        "sockets of daemons",
        """
import socket
for p in ("/var/run/docker.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"):
    try: socket.socket(socket.AF_UNIX).connect(p); print("LEAK", p)
    except OSError: pass
""",
    ),
    _escape(
        "capabilities and privileges",
        """
try: lines = open("/proc/self/status").readlines()
except OSError: lines = []
for line in lines:
    k, _, v = line.partition(":")
    if k in ("CapEff", "CapPrm", "CapInh", "CapAmb") and int(v, 16): print("LEAK", k, v.strip())
    if k == "NoNewPrivs" and v.strip() != "1": print("LEAK new privileges")
    if k == "Seccomp" and v.strip() != "2": print("LEAK no filter")
""",
    ),
    _escape(
        "new namespaces and mounts",
        """
import ctypes, os
libc = ctypes.CDLL(None)
for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("net", 0x40000000)):
    pid = os.fork()
    if pid == 0: os._exit(libc.unshare(flag) == 0)
    if os.waitpid(pid, 0)[1]: print("LEAK namespace", name)
if libc.mount(b"none", b".", b"tmpfs", 0, None) == 0: print("LEAK mount")
""",
    ),
    _escape(
        "system calls that widen the kernel's surface",
        """
import ctypes, os
libc = ctypes.CDLL(None)
buf = ctypes.create_string_buffer(256)
calls = {"bpf": (321, 0, buf, 128), "userfaultfd": (323, 0), "io_uring": (425, 4, buf), "keyctl": (250, 0, -3, 1)}
calls["perf"] = (298, buf, 0, -1, -1, 0)
for name, (number, *args) in calls.items() if os.uname().machine == "x86_64" else ():
    pid = os.fork()
    if pid == 0: os._exit(libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]) >= 0)
    if os.waitpid(pid, 0)[1] == 256: print("LEAK", name)
""",
    ),
    _escape(
        "writing outside the work directory",
        """
import os
for p in ("/", "/etc", "/usr", "/usr/bin", "/home", "/root", "/var", "/proc/sys/kernel", os.path.dirname(os.__file__)):
    try: os.close(os.open(p + "/verigym_probe", os.O_CREAT | os.O_WRONLY)); print("LEAK", p); os.unlink(p + "/verigym_probe")
    except OSError: pass
""",
    ),
    _escape(
        "devices",
        """
import os
for p in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/fuse", "/dev/tty", "/dev/nvidia0"):
    try: os.open(p, os.O_RDONLY); print("LEAK", p)
    except OSError: pass
""",
    ),
    _escape(
        "what an earlier run left",
        """
import os, socket, time
names = [p + "/verigym_mark" for p in (".", "..", "/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue")]
for name in names:
    if os.path.lexists(name): print("LEAK file", name)
for name in names:
    try: open(name, "w").close()
    except OSError: pass
try:
    s = socket.socket(socket.AF_UNIX); s.connect("\\0verigym-mark"); print("LEAK daemon")
except OSError: pass
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    try: s.bind("\\0verigym-mark"); s.listen()
    except (OSError, NameError): pass
    for fd in (0, 1, 2): os.close(fd)
    time.sleep(100)
time.sleep(0.1)
""",
    ),
    _escape(
        "the process that runs are forked from",
        """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
for pid in {1, os.getppid()} - {0, os.getpid()}:
    for number in range(1, 65) if pid == 1 else ():
        try: os.kill(pid, number)
        except OSError: pass
    def attempt(name, call):
        try: call(); print("LEAK", name, pid)
        except OSError: pass
    attempt("limits", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3)))
    attempt("affinity", lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))}))
    attempt("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
    attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt("priority of its user", lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))
    attempt("priority of its group", lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 19))
    attempt("memory", lambda: open("/proc/%d/mem" % pid, "r+b"))
    attempt("who goes first", lambda: open("/proc/%d/oom_score_adj" % pid, "w").write("1000"))
    attempt("descriptors", lambda: os.listdir("/proc/%d/fd" % pid))
    attempt("session", lambda: os.setpgid(pid, 0))
    found = libc.syscall(434, pid, 0)
    if found >= 0 and libc.syscall(438, found, 0, 0) >= 0: print("LEAK a descriptor of", pid)
""",
    ),
    _escape(
        "marks on folders that outlive a run",
        """
import os
folders = ("..", "../..", "/tmp", "/tmp/..", "/dev/shm", "/box", "/box/run", os.path.expanduser("~"))
for p in folders:  # all of them before the first mark: some are one folder under two names
    try: found = [n for n in os.listxattr(p) if "verigym" in n or "acl" in n]
    except OSError: found = []
    if found: print("LEAK attributes", p, found)
for p in folders:
    try: os.setxattr(p, "user.verigym", b"1")
    except OSError: pass
    # For everybody rwx, by default too: version 2, then tag, permissions and id of each entry.
    acl = b"\\2\\0\\0\\0" + b"".join(t.to_bytes(2, "little") + b"\\7\\0\\377\\377\\377\\377" for t in (1, 4, 0x20))
    for n in ("system.posix_acl_access", "system.posix_acl_default"):
        try: os.setxattr(p, n, acl)
        except OSError: pass
    try: os.chmod(p, 0o1777)
    except OSError: pass
""",
    ),
    _escape(
        "higher limits",
        """
import resource
for k in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(k)
    try: resource.setrlimit(k, (hard + 1, hard + 1)); print("LEAK limit", k)
    except (ValueError, OSError): pass
    if hard == resource.RLIM_INFINITY: print("LEAK no limit", k)
""",
    ),
)
