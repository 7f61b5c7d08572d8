"""The system call filter: a classic BPF program that refuses calls which attacks use and honest programs do not need.

The filter is a deny list, because honest programs use all other calls. Calls that are newer than this file get ENOSYS, which
programs must handle on older kernels anyway. The filter finds a call's number by binary search. The kernel caches which numbers
are always allowed, so common calls cost almost nothing.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from verigym.sandbox.inside.walls.syscalls import ARCHITECTURE, NUMBERS, syscall

_REFUSED = """
    ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease move_pages migrate_pages
    mount umount2 pivot_root move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr chroot unshare setns
    keyctl add_key request_key bpf perf_event_open io_uring_setup io_uring_enter io_uring_register userfaultfd
    shmget shmat shmdt shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    init_module finit_module delete_module create_module get_kernel_syms query_module kexec_load kexec_file_load reboot
    swapon swapoff acct quotactl quotactl_fd settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname
    syslog lookup_dcookie nfsservctl vhangup iopl ioperm modify_ldt uselib sysfs remap_file_pages vmsplice
    name_to_handle_at open_by_handle_at fanotify_init fanotify_mark inotify_init inotify_init1 inotify_add_watch
""".split()

# Landlock does not govern these, so without a separate file system they would reach every file of the user.
_ATTRIBUTES = """
    chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat
    setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat removexattrat
""".split()
# The first argument is a process, 0 the caller. The uid may be shared with the cell or other processes of the user.
_OF_A_PROCESS = "prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr".split()
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1

# The newest call that this list takes into account (removexattrat). Calls above it get ENOSYS.
_LAST_KNOWN = 466
_X32_BIT = 0x40000000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* that clone(2) takes
# TIOCSTI, TIOCLINUX: inject terminal input; TIOCSETD: load kernel drivers; FS_IOC_SETFLAGS (64 and 32 bits) and
# FS_IOC_FSSETXATTR: leave attributes on folders.
_REQUESTS = (0x5412, 0x541C, 0x5423, 0x40086602, 0x40046602, 0x401C5820)
_COMMANDS = (1024, 1026)  # F_SETLEASE, F_NOTIFY: would delay or observe processes outside that open a file
_S_IFMT, _S_IFCHR, _S_IFBLK = 0o170000, 0o020000, 0o060000
_AF_UNIX = 1
_TYPE_MASK, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5

_LOAD, _JUMP, _JUMP_EQUAL, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, k
Block = list[Instruction]


class _Fprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """An assembled BPF program in the kernel's format, ready to be installed with one system call."""

    def __init__(self, program: Block) -> None:
        self.length = len(program)
        self._code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
        self.header = _Fprog(self.length, ctypes.addressof(self._code))


def available() -> bool:
    """Return whether this kernel supports filters with the actions that `build` uses. Installs no filter."""
    try:
        for action in (_ERRNO, _KILL):
            syscall("seccomp", _GET_ACTION_AVAIL, 0, ctypes.byref(ctypes.c_uint32(action)))
    except OSError:
        return False
    return ARCHITECTURE in _AUDIT_ARCH


def build(deny_sockets: bool = False, allow_memfd: bool = False, deny_attributes: bool = False) -> Filter:
    """Assemble the seccomp filter for this architecture.

    Args:
        deny_sockets: also refuse unix sockets, for programs that see the host's file system or abstract socket names.
            Socket pairs stay allowed, except datagram pairs, which can send to any address.
        allow_memfd: allow memfd_create, whose files are exempt from the limits on file sizes.
        deny_attributes: also refuse changes of modes, owners, times and extended attributes of files, for programs with the
            uid of the files' owner.

    Raises:
        OSError: ENOSYS on an unknown architecture.
    """
    if ARCHITECTURE not in _AUDIT_ARCH:
        raise OSError(errno.ENOSYS, "no system call filter for this architecture")
    rules = {name: _fail(errno.EPERM) for name in [*_REFUSED, *(_ATTRIBUTES if deny_attributes else ())]}
    rules |= {name: _argument(0) + _only((0,), errno.EPERM) for name in _OF_A_PROCESS}
    rules |= {
        "clone3": _fail(errno.ENOSYS),  # its flags are in memory, which a filter cannot read; the C library falls back to clone
        "clone": _argument(0) + [(_JUMP_SET, 0, 1, _NEW_NAMESPACES)] + _fail(errno.EPERM) + _allow(),
        "io_setup": _fail(errno.ENOSYS),  # uses a table shared by the whole machine
        "ioctl": _argument(1) + _unless_in(_REQUESTS, errno.EPERM),
        "fcntl": _argument(1) + _unless_in(_COMMANDS, errno.EPERM),
        "mknod": _mknod(1),
        "mknodat": _mknod(2),
        "setpriority": _of_itself(_PRIO_PROCESS),
        "ioprio_set": _of_itself(_IOPRIO_WHO_PROCESS),
        "personality": _argument(0) + _only((0, 0xFFFFFFFF), errno.EPERM),
        "socket": _fail(errno.EACCES) if deny_sockets else _argument(0) + _only((_AF_UNIX,), errno.EACCES),
        "socketpair": _socketpair(deny_sockets),
    }
    if deny_sockets:
        rules["connect"] = _fail(errno.EACCES)
    if not allow_memfd:
        rules["memfd_create"] = rules["memfd_secret"] = _fail(errno.ENOSYS)
    numbered = {NUMBERS[name]: rule for name, rule in rules.items() if name in NUMBERS}
    search = _search(_segments(numbered))
    head: Block = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH[ARCHITECTURE]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_GE, 0, 1, _LAST_KNOWN + 1),
        (_JUMP, 0, 0, len(search)),
    ]
    return Filter(head + search + _unknown())


def install(program: Filter) -> None:
    """Install the filter `program` for the calling thread and its future children. Irreversible.

    Raises:
        OSError: EACCES without no_new_privs, EINVAL or ENOSYS if the kernel has no filters.
    """
    syscall("seccomp", _SET_MODE_FILTER, 0, ctypes.byref(program.header))


def _allow() -> Block:
    return [(_RETURN, 0, 0, _ALLOW)]


def _fail(code: int) -> Block:
    return [(_RETURN, 0, 0, _ERRNO | code)]


def _argument(index: int) -> Block:
    # The low half only: the kernel reads these arguments as 32 bits, or defines no meaning for the rest.
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index)]


def _only(values: tuple[int, ...], code: int) -> Block:
    """Allow if the loaded value is one of these, else fail."""
    last = len(values) - 1
    return [(_JUMP_EQUAL, last - at + 1, 0, value) for at, value in enumerate(values)] + _fail(code) + _allow()


def _unless_in(values: tuple[int, ...], code: int) -> Block:
    """Fail if the loaded value is one of these, else allow."""
    last = len(values) - 1
    return [(_JUMP_EQUAL, last - at + 1, 0, value) for at, value in enumerate(values)] + _allow() + _fail(code)


def _of_itself(kind: int) -> Block:
    """Allow if the first argument says that the second is a process, and the second is 0, the caller."""
    return _argument(0) + [(_JUMP_EQUAL, 1, 0, kind)] + _fail(errno.EPERM) + _argument(1) + _only((0,), errno.EPERM)


def _mknod(mode_index: int) -> Block:
    return [*_argument(mode_index), (_AND, 0, 0, _S_IFMT), *_unless_in((_S_IFCHR, _S_IFBLK), errno.EPERM)]


def _socketpair(connected_only: bool) -> Block:
    family = _argument(0) + [(_JUMP_EQUAL, 1, 0, _AF_UNIX)] + _fail(errno.EACCES)
    if not connected_only:
        return family + _allow()
    return family + _argument(1) + [(_AND, 0, 0, _TYPE_MASK)] + _only((_SOCK_STREAM, _SOCK_SEQPACKET), errno.EACCES)


def _unknown() -> Block:
    lines: Block = []
    if ARCHITECTURE == "x86_64":
        # Numbers with this bit are x32 calls, other entry points to the same kernel code. -1 is not a call.
        lines = [(_JUMP_EQUAL, 2, 0, 0xFFFFFFFF), (_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    return lines + _fail(errno.ENOSYS)


def _segments(rules: dict[int, Block]) -> list[tuple[int, Block]]:
    """Partition the call numbers into segments (first number, block), merging neighbours with equal blocks."""
    segments: list[tuple[int, Block]] = []
    for number in range(_LAST_KNOWN + 1):
        block = rules.get(number) or _allow()
        if not segments or segments[-1][1] != block:
            segments.append((number, block))
    return segments


def _search(segments: list[tuple[int, Block]]) -> Block:
    """Assemble a binary search for the segment of the loaded number."""
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    left, right = _search(segments[:middle]), _search(segments[middle:])
    # Conditional jumps reach 255 instructions, unconditional ones any distance.
    if len(left) < 256:
        return [(_JUMP_GE, len(left), 0, segments[middle][0]), *left, *right]
    return [(_JUMP_GE, 0, 1, segments[middle][0]), (_JUMP, 0, 0, len(left)), *left, *right]
