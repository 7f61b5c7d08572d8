"""Raw system calls through ctypes that isolation needs and Python 3.11 lacks.

A failed call raises OSError with its errno. A kernel that lacks a call gives ENOSYS. If the architecture or the C library is
unknown, this module raises ENOSYS as well, so that callers need to handle only one error for "not available".
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID = 2
MOUNT_ATTR_NODEV = 4
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4


# Uid 0 grants no capabilities, later uid changes restore none, and these settings are locked.
_SECUREBITS = 0xEF
_CAPABILITY_VERSION_3 = 0x20080522
_NO_CAPABILITIES = struct.pack("2I", _CAPABILITY_VERSION_3, 0), bytes(24)  # of the calling thread

# name:x86_64:aarch64; no third part where aarch64 has no such call.
_TABLE = """
    acct:163:89 add_key:248:217 adjtimex:159:171 bpf:321:280 capset:126:91 chmod:90 chown:92 chroot:161:51
    clock_adjtime:305:266 clock_settime:227:112 clone:56:220 clone3:435:435 close_range:436:436 connect:42:203
    create_module:174 delete_module:176:106 fanotify_init:300:262 fanotify_mark:301:263 fchmod:91:52 fchmodat:268:53
    fchmodat2:452:452 fchown:93:55 fchownat:260:54 finit_module:313:273 fremovexattr:199:16 fsconfig:431:431
    fcntl:72:25 fsetxattr:190:7 fsmount:432:432 fsopen:430:430 fspick:433:433 futimesat:261 get_kernel_syms:177 getpid:39:172
    init_module:175:105 inotify_add_watch:254:27
    inotify_init:253 inotify_init1:294:26 io_setup:206:0
    io_uring_enter:426:426 io_uring_register:427:427 io_uring_setup:425:425 ioctl:16:29 ioperm:173
    iopl:172 ioprio_set:251:30 kcmp:312:272 kexec_file_load:320:294 kexec_load:246:104 keyctl:250:219
    landlock_add_rule:445:445 landlock_create_ruleset:444:444 landlock_restrict_self:446:446 lchown:94
    lookup_dcookie:212:18 lremovexattr:198:15 lsetxattr:189:6 memfd_create:319:279 memfd_secret:447:447
    migrate_pages:256:238 mknod:133 mknodat:259:33 modify_ldt:154 mount:165:40 mount_setattr:442:442 move_mount:429:429
    move_pages:279:239 mq_getsetattr:245:185 mq_notify:244:184 mq_open:240:180 mq_timedreceive:243:183
    mq_timedsend:242:182 mq_unlink:241:181 msgctl:71:187 msgget:68:186 msgrcv:70:188 msgsnd:69:189
    name_to_handle_at:303:264 nfsservctl:180:42 open_by_handle_at:304:265 open_tree:428:428 perf_event_open:298:241
    personality:135:92 pidfd_getfd:438:438 pivot_root:155:41 prctl:157:167 prlimit64:302:261 process_madvise:440:440
    process_mrelease:448:448 process_vm_readv:310:270 process_vm_writev:311:271 ptrace:101:117 query_module:178
    quotactl:179:60 quotactl_fd:443:443 reboot:169:142 remap_file_pages:216:234 removexattr:197:14 removexattrat:466:466
    request_key:249:218 sched_setaffinity:203:122 sched_setattr:314:274 sched_setparam:142:118 sched_setscheduler:144:119
    seccomp:317:277 semctl:66:191 semget:64:190 semop:65:193 semtimedop:220:192 setdomainname:171:162 sethostname:170:161
    setns:308:268 setpriority:141:140 settimeofday:164:170 setxattr:188:5 setxattrat:463:463 shmat:30:196 shmctl:31:195
    shmdt:67:197 shmget:29:194 socket:41:198 socketpair:53:199 swapoff:168:225 swapon:167:224 sysfs:139 syslog:103:116
    umount2:166:39 unshare:272:97 uselib:134 userfaultfd:323:282 utime:132 utimensat:280:88 utimes:235 vhangup:153:58
    vmsplice:278:75
"""


def _architecture() -> str:
    machine = os.uname().machine
    # A 32-bit interpreter on a 64-bit kernel makes 32-bit calls, which are numbered differently.
    return machine if machine in ("x86_64", "aarch64") and ctypes.sizeof(ctypes.c_void_p) == 8 else ""


ARCHITECTURE = _architecture()
"""`x86_64` or `aarch64`. Empty if the architecture is unknown: then every call in this module raises ENOSYS."""


def _numbers() -> dict[str, int]:
    column = {"x86_64": 1, "aarch64": 2}.get(ARCHITECTURE, 3)
    rows = [entry.split(":") for entry in _TABLE.split()]
    return {row[0]: int(row[column]) for row in rows if len(row) > column}


NUMBERS = _numbers()
"""System call numbers of this architecture by name."""

try:
    libc: ctypes.CDLL | None = ctypes.CDLL(None, use_errno=True)
    _call = libc.syscall  # type: ignore[union-attr]
    _call.restype = ctypes.c_long
except (OSError, AttributeError):
    libc = None


def _argument(value: object) -> object:
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, int):
        return ctypes.c_ulong(value & 0xFFFFFFFFFFFFFFFF)
    if isinstance(value, str):
        return ctypes.c_char_p(os.fsencode(value))
    return ctypes.c_char_p(value) if isinstance(value, bytes) else value


def syscall(name: str, *arguments: object) -> int:
    """Make the system call `name` and return its result.

    Args:
        name: a name in `NUMBERS`.
        arguments: int (passed as unsigned long), None (NULL), str (a path), bytes, or a ctypes object (passed unchanged).

    Raises:
        OSError: the call failed; ENOSYS also if this architecture or C library has no such call.
    """
    number = NUMBERS.get(name)
    if number is None or libc is None:
        raise OSError(errno.ENOSYS, f"{os.strerror(errno.ENOSYS)}: {name}")
    result = int(_call(ctypes.c_long(number), *map(_argument, arguments)))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{os.strerror(code)}: {name}")
    return result


def trim_memory() -> None:
    """Return freed memory to the kernel, if the C library supports it."""
    with contextlib.suppress(AttributeError):
        libc.malloc_trim(0)  # type: ignore[union-attr]


def prepared(name: str, first: int) -> Callable[[int], object]:
    """Return a fast function that makes the system call `name` with `first` and one further integer argument.

    It is meant for forked processes: it takes integers only and does not raise errors.
    """
    number = NUMBERS.get(name)
    if number is None or libc is None:
        raise OSError(errno.ENOSYS, f"{os.strerror(errno.ENOSYS)}: {name}")
    call = ctypes.CDLL(None).syscall  # a separate object, without argument types and errno handling
    return lambda second: call(number, first, second, 0, 0, 0)


def unshare(flags: int) -> None:
    """Move the calling process into new namespaces, of the kinds in `flags`. `CLONE_NEWPID` moves only its later children."""
    syscall("unshare", flags)


def setns(fd: int, flags: int = 0) -> None:
    """Enter the namespace that the descriptor `fd` refers to."""
    syscall("setns", fd, flags)


def mount(source: str | None, target: str, fstype: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """Make the system call mount with these arguments; None is passed as NULL. Raise OSError if it fails."""
    syscall("mount", source, target, fstype, flags, data)


def umount2(target: str, flags: int = 0) -> None:
    """Make the system call umount2, which unmounts `target`. Raise OSError if it fails."""
    syscall("umount2", target, flags)


def mount_read_only(target: str) -> None:
    """Make the mount at `target`, and every mount beneath it, read-only, without devices and setuid programs."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, 0, 0)
    try:
        syscall("mount_setattr", _AT_FDCWD, target, _AT_RECURSIVE, attributes, len(attributes))
    except OSError as error:
        if error.errno != errno.ENOSYS:  # kernels before 5.12
            raise
        _remount_read_only(target)


def _remount_read_only(target: str) -> None:
    known = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC, "noatime": MS_NOATIME}
    known |= {"nodiratime": 2048, "relatime": 1 << 21}
    with open("/proc/self/mountinfo", "rb") as file:
        lines = [line.split() for line in file]
    for fields in lines:
        path = fields[4].decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
        if path == target or path.startswith(target.rstrip("/") + "/"):
            # A user namespace refuses a remount that would clear a flag, so what is set is set again.
            kept = sum(flag for name, flag in known.items() if name.encode() in fields[5].split(b","))
            mount(None, path, None, kept | MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def sethostname(name: str) -> None:
    """Set the host name of the current uts namespace to `name`."""
    syscall("sethostname", name, len(os.fsencode(name)))


def pivot_root(new: str, old: str) -> None:
    """Make the system call pivot_root: `new` becomes the root, and the old root moves to `old`. Raise OSError if it fails."""
    syscall("pivot_root", new, old)


def prctl(option: int, second: int = 0, third: int = 0, fourth: int = 0, fifth: int = 0) -> int:
    """Make the system call prctl with `option` and up to four arguments, and return its result. Raise OSError if it fails."""
    return syscall("prctl", option, second, third, fourth, fifth)


def close_range(first: int, last: int = 0xFFFFFFFF, flags: int = 0) -> None:
    """Close the descriptors from `first` to `last`, both included. Kernels before 5.9 close them one by one."""
    try:
        syscall("close_range", first, last, flags)
    except OSError as error:
        if error.errno != errno.ENOSYS or flags:
            raise
        os.closerange(first, min(last + 1, os.sysconf("SC_OPEN_MAX")))


def close_range_except(first: int, keep: Iterable[int]) -> None:
    """Close every descriptor from `first` on, except the descriptors in `keep`."""
    for kept in sorted(set(keep)):
        if kept >= first:
            if kept > first:
                close_range(first, kept - 1)
            first = kept + 1
    close_range(first)


def drop_bounding_set() -> None:
    """Empty the capability bounding set, so that no program started later gains capabilities. Needs CAP_SETPCAP.

    Without CAP_SETPCAP it does nothing. The process keeps its present capabilities. So a process that forks runs can call this
    function once, before it forks, and the runs inherit the empty set.
    """
    with contextlib.suppress(OSError):  # EINVAL: the number after the kernel's last capability; EPERM: not allowed
        for capability in range(64):
            prctl(PR_CAPBSET_DROP, capability)


def drop_capabilities(*, bounding: bool = True) -> None:
    """Give up every capability irreversibly: the ambient set, root's special rights, and the process's own capabilities.

    Args:
        bounding: whether to empty the bounding set too.

    Raises:
        OSError: the last step failed, so the process may still have capabilities. Failures of the other steps are ignored.
    """
    if bounding:
        drop_bounding_set()
    for arguments in ((PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL), (PR_SET_SECUREBITS, _SECUREBITS)):
        with contextlib.suppress(OSError):
            prctl(*arguments)
    syscall("capset", *_NO_CAPABILITIES)
