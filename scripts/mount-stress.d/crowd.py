#!/usr/bin/env python3
"""Unprivileged users on one mount: each changes names, links, attributes and contents in common directories for some minutes.

usage: crowd.py DIRECTORY SECONDS [USERS]

Rights, names that come and go and full attributes make many calls fail; the errors that they may fail with are listed below. A call that
does not return for a minute, any other error, a listing that leaves out or repeats a name which is there throughout, and a private file
whose contents differ from what its user wrote are failures.
The counts of outcomes are printed, call by call.
"""

import ctypes
import errno
import json
import mmap
import os
import random
import signal
import struct
import sys
import time
import traceback

USERS = 16
FIRST_UID, FIRST_GID, GIDS = 10001, 20001, 4
STUCK_SECONDS = 60
NAMES, DIRECTORIES, KEPT = 12, 4, 150
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
EXPECTED = {
    errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.ELOOP,
    errno.ENODATA, errno.ENOSPC, errno.EMLINK, errno.ENXIO, errno.EOPNOTSUPP,
}
# A name that leads elsewhere by the time it is used; the kernel asks once more and gives up then.
EXPECTED.add(errno.ESTALE)

libc = ctypes.CDLL(None, use_errno=True)
# What a user does now: the moment at which it began as a double, the call's number, and how many calls have returned.
SLOT = struct.Struct("dqq")


def renameat2(old, new, flags):
    at_cwd = -100
    if libc.renameat2(at_cwd, os.fsencode(old), at_cwd, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), old)


def acl(uid, permissions):
    """A list in the form of the attribute: owner, a named user, group, mask, others."""
    undefined = 0xFFFFFFFF
    entries = [(1, 7, undefined), (2, permissions, uid), (4, 7, undefined), (16, 7, undefined), (32, 7, undefined)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


class User:
    def __init__(self, top, number, slots):
        self.top, self.number, self.slots = top, number, slots
        self.random = random.Random(number)
        self.common = [f"{top}/sticky"] + [f"{top}/common{index}" for index in range(DIRECTORIES)]
        self.home = f"{top}/home{number}"
        self.private = {}
        self.counts, self.wrong, self.returned, self.call = {}, [], 0, 0
        self.calls = [
            (10, self.create), (5, self.mkdir), (4, self.symlink), (6, self.unlink), (4, self.rmdir), (10, self.rename),
            (6, self.rename_noreplace), (12, self.rename_exchange), (6, self.rename_whiteout), (8, self.link), (4, self.link_directory),
            (6, self.listing), (2, self.kept), (5, self.xattr), (4, self.acl), (5, self.truncate), (5, self.append), (4, self.read), (3, self.chmod),
            (6, self.private_file), (1, self.fsync), (0.2, self.remove_tree),
        ]
        self.weights = [weight for weight, _ in self.calls]

    def directory(self):
        found = self.random.choice(self.common)
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            found += f"/d{self.random.randrange(4)}"
        return found

    def file(self):
        return f"{self.directory()}/f{self.random.randrange(NAMES)}"

    def any(self):
        return self.file() if self.random.random() < 0.5 else f"{self.directory()}/d{self.random.randrange(4)}"

    def create(self):
        with open(self.file(), "wb", opener=lambda path, flags: os.open(path, flags & ~os.O_TRUNC, 0o666)) as file:
            file.write(bytes([self.number]) * self.random.choice((0, 10, 1500, 9000)))

    def mkdir(self):
        path = f"{self.directory()}/d{self.random.randrange(4)}"
        os.mkdir(path)
        os.chmod(path, self.random.choice((0o777, 0o777, 0o1777)))

    def symlink(self):
        os.symlink(self.any(), self.file())

    def unlink(self):
        os.unlink(self.file())

    def rmdir(self):
        os.rmdir(f"{self.directory()}/d{self.random.randrange(4)}")

    def remove_tree(self):
        """What renames have moved out of reach, too."""
        self.remove_below(f"{self.random.choice(self.common)}/d{self.random.randrange(4)}")

    def remove_below(self, directory):
        for entry in os.scandir(directory):
            self.slots[self.number] = (time.monotonic(), self.call, self.returned)
            try:
                if entry.is_dir(follow_symlinks=False):
                    self.remove_below(entry.path)
                else:
                    os.unlink(entry.path)
            except OSError as error:
                if error.errno not in EXPECTED:
                    raise
        os.rmdir(directory)

    def rename(self):
        renameat2(self.any(), self.any(), 0)

    def rename_noreplace(self):
        renameat2(self.any(), self.any(), NOREPLACE)

    def rename_exchange(self):
        renameat2(self.any(), self.any(), EXCHANGE)

    def rename_whiteout(self):
        renameat2(self.any(), self.any(), WHITEOUT)

    def link(self):
        os.link(self.file(), self.file(), follow_symlinks=False)

    def link_directory(self):
        """Refused, unless it is a file or a link by then."""
        above = f"{self.random.choice(self.common)}/d{self.random.randrange(4)}"
        os.link(above, f"{above}/d{self.random.randrange(4)}/x", follow_symlinks=False)

    def listing(self):
        """As ls -l: entries with their states, and attributes."""
        directory = self.directory()
        for entry in os.scandir(directory):
            try:
                entry.stat(follow_symlinks=False)
                os.listxattr(entry.path, follow_symlinks=False)
            except FileNotFoundError:
                pass

    def kept(self):
        names = [name for name in os.listdir(f"{self.top}/sticky") if name.startswith("kept-")]
        if sorted(names) != sorted(f"kept-{index:04}" for index in range(KEPT)):
            self.wrong.append(f"a listing shows {len(names)} names, {len(set(names))} of them different, and {KEPT} are there throughout")

    def xattr(self):
        path, name = self.any(), f"user.{self.random.choice('abc')}"
        if self.random.random() < 0.3:
            os.removexattr(path, name)
        else:
            os.setxattr(path, name, bytes([self.number]) * self.random.choice((0, 10, 200, 1000)))

    def acl(self):
        kinds = ("system.posix_acl_access", "system.posix_acl_default")
        path, kind = self.any(), self.random.choice(kinds)
        if self.random.random() < 0.3:
            os.removexattr(path, kind)
        else:
            os.setxattr(path, kind, acl(FIRST_UID + self.random.randrange(USERS), self.random.choice((5, 7))))

    def truncate(self):
        os.truncate(self.file(), self.random.choice((0, 100, 5000, 300000)))

    def append(self):
        with open(self.file(), "ab", opener=lambda path, flags: os.open(path, flags & ~os.O_CREAT)) as file:
            file.write(bytes([self.number]) * self.random.choice((10, 5000)))

    def read(self):
        with open(self.file(), "rb") as file:
            file.read(20000)

    def chmod(self):
        os.chmod(self.any(), self.random.choice((0o777, 0o755, 0o666)))

    def fsync(self):
        descriptor = os.open(self.any(), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def private_file(self):
        """Files of its own, whose inode numbers were others' a moment before: nobody else changes them."""
        name = f"{self.home}/p{self.random.randrange(8)}"
        if name not in self.private:
            content = os.urandom(self.random.choice((1, 3000, 20000)))
            with open(name, "xb", opener=lambda path, flags: os.open(path, flags, 0o644)) as file:
                file.write(content)
            self.private[name] = content
            return
        with open(name, "rb") as file:
            if file.read() != self.private[name]:
                self.wrong.append(f"{name} does not hold what its user wrote")
        state = os.stat(name)
        if (state.st_uid, state.st_nlink, state.st_mode & 0o7777) != (os.getuid(), 1, 0o644):
            self.wrong.append(f"{name} has owner {state.st_uid}, {state.st_nlink} links, mode {state.st_mode:o}")
        if self.random.random() < 0.7:
            os.unlink(name)
            del self.private[name]

    def step(self):
        index = self.random.choices(range(len(self.calls)), self.weights)[0]
        call, self.call = self.calls[index][1], index
        self.slots[self.number] = (time.monotonic(), index, self.returned)
        outcome = "done"
        try:
            call()
        except OSError as error:
            outcome = errno.errorcode.get(error.errno, str(error.errno))
            if error.errno not in EXPECTED:
                self.wrong.append(f"{call.__name__} fails: {error}")
        self.returned += 1
        self.slots[self.number] = (0.0, index, self.returned)
        counts = self.counts.setdefault(call.__name__, {})
        counts[outcome] = counts.get(outcome, 0) + 1

    def run(self, seconds, report):
        os.setgroups([])
        gid, uid = FIRST_GID + self.number % GIDS, FIRST_UID + self.number
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # Everybody may change everything but what lies in a sticky directory.
        os.umask(0)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.wrong:
            self.step()
        os.write(report, json.dumps({"counts": self.counts, "wrong": self.wrong}).encode())


class Slots:
    def __init__(self, count):
        self.memory = mmap.mmap(-1, SLOT.size * count)

    def __setitem__(self, number, values):
        SLOT.pack_into(self.memory, number * SLOT.size, *values)

    def __getitem__(self, number):
        return SLOT.unpack_from(self.memory, number * SLOT.size)


def prepare(top, users):
    os.mkdir(f"{top}/sticky")
    os.chmod(f"{top}/sticky", 0o1777)
    for index in range(KEPT):
        os.close(os.open(f"{top}/sticky/kept-{index:04}", os.O_CREAT | os.O_WRONLY, 0o600))
    for index in range(DIRECTORIES):
        os.mkdir(f"{top}/common{index}")
        os.chmod(f"{top}/common{index}", 0o777)
    for number in range(users):
        os.mkdir(f"{top}/home{number}", 0o700)
        os.chown(f"{top}/home{number}", FIRST_UID + number, FIRST_GID + number % GIDS)


def stack(pid):
    try:
        with open(f"/proc/{pid}/stack", encoding="ascii") as file:
            return file.read()
    except OSError as error:
        return str(error)


def watch(processes, slots, users):
    """Waits for all; the first call that does not return ends it."""
    left = dict(processes)
    while left:
        for pid in list(left):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                del left[pid]
        now = time.monotonic()
        for pid, number in left.items():
            began, call, _ = slots[number]
            if began and now - began > STUCK_SECONDS:
                name = users[number].calls[call][1].__name__
                for other in left:
                    os.kill(other, signal.SIGKILL)
                return f"user {number}: {name} has not returned for {now - began:.0f} s\n{stack(pid)}"
        time.sleep(0.5)
    return None


def main():
    top, seconds = sys.argv[1], float(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else USERS
    slots = Slots(count)
    users = [User(top, number, slots) for number in range(count)]
    prepare(top, count)
    processes, reports = {}, []
    for user in users:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                user.run(seconds, writer)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        processes[pid] = user.number
        reports.append(reader)
    wrong = watch(processes, slots, users)
    problems = [wrong] if wrong else []
    totals = {}
    for number, reader in enumerate(reports if not wrong else []):
        with os.fdopen(reader, "rb") as file:
            text = file.read()
        if not text:
            problems.append(f"user {number} has ended without a report")
            continue
        report = json.loads(text)
        problems += [f"user {number}: {what}" for what in report["wrong"]]
        for call, outcomes in report["counts"].items():
            into = totals.setdefault(call, {})
            for outcome, times in outcomes.items():
                into[outcome] = into.get(outcome, 0) + times
    for call in sorted(totals):
        print(f"{call}: " + ", ".join(f"{outcome} {times}" for outcome, times in sorted(totals[call].items())))
    if not wrong:
        done = sum(outcomes.get("done", 0) for outcomes in totals.values())
        print(f"{count} users, {sum(sum(outcomes.values()) for outcomes in totals.values())} calls, {done} of them done")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
