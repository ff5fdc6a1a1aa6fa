"""Several workers at once, each a process of its own: what ``celery multi`` starts and stops."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import sys
import time
from collections import UserList
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from subprocess import Popen
from typing import Any, ClassVar

from celery.platforms import IS_WINDOWS, Pidfile, signal_name
from celery.utils.nodenames import gethostname, node_format

__all__ = (
    "Cluster",
    "Node",
)

RUN_FOLDER = os.path.normpath("/var/run/celery")
LOG_FOLDER = os.path.normpath("/var/log/celery")

OF_THE_COMMAND = (
    *("-A", "--app", "-b", "--broker", "--result-backend", "--loader", "--config", "--workdir"),
    *("-C", "--no-color", "-q", "--quiet"),
)
"""Options that come before ``worker`` on its command line."""

NO_SUCH_PROCESS = (errno.ESRCH, errno.EPERM)
INDEX_RANGE = re.compile(r"(\d+)-(\d+)")


def _nothing(*args: Any) -> None:
    """What happens where nobody listens."""


def format_opt(opt: str, value: Any) -> str:
    """An option as a word or two: ``--flag``, ``-c 3``, ``--loglevel=INFO``."""
    if value is None:
        return opt
    return f"{opt}={value}" if opt.startswith("--") else f"{opt} {value}"


class NamespacedOptionParser:
    """Words of a command line: names of workers, options, and options of single workers, as in
    ``image video -c 3 -c:video 10 --loglevel:image=DEBUG -- task_ignore_result=1``."""

    def __init__(self, args: Sequence[str]) -> None:
        self.args = args
        self.options: dict[str, Any] = {}
        self.values: list[str] = []
        self.passthrough = ""
        self.namespaces: dict[str, dict[str, Any]] = {}

    def parse(self) -> None:
        """Fill ``options``, ``values``, ``namespaces`` and ``passthrough``."""
        words = list(self.args)
        while words:
            word = words.pop(0)
            if word == "--":
                self.passthrough = " ".join([word, *words])
                return
            if word.startswith("--"):
                self.process_long_opt(word[2:])
            elif word.startswith("-"):
                value = words.pop(0) if words and not words[0].startswith("-") else None
                self.process_short_opt(word[1:], value)
            else:
                self.values.append(word)

    def process_long_opt(self, arg: str, value: str | None = None) -> None:
        """Take in ``name=value``, without the dashes."""
        name, equals, behind = arg.partition("=")
        self.add_option(name, behind if equals else value, short=False)

    def process_short_opt(self, arg: str, value: str | None = None) -> None:
        """Take in a letter, without the dash, and its value."""
        self.add_option(arg, value, short=True)

    def add_option(self, name: str, value: Any, short: bool = False, ns: str | None = None) -> None:
        """Take in an option: for all, or those that ``ns`` or ``name:ns`` says."""
        name, _, of = name.partition(":")
        of = ns or of
        target = self.namespaces.setdefault(of, {}) if of else self.options
        target[f"{'-' if short else '--'}{name}"] = value

    def optmerge(self, ns: str, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The options of one worker, with those of all."""
        common = self.options if defaults is None else defaults
        return {**common, **self.namespaces.get(ns, {})}


class Node:
    """One worker: its command line, and its process, known by the pid file.

    Makes the folders of the pid file and the log. Raises ``OSError`` if it may not.
    """

    def __init__(
        self,
        name: str,
        cmd: str | None = None,
        append: str | None = None,
        options: Mapping[str, Any] | None = None,
        extra_args: str | None = None,
    ) -> None:
        self.name = name
        self.cmd = cmd or "-m celery worker --detach"
        self.append = append
        self.extra_args = extra_args or ""
        self.options: dict[str, Any] = {**(options or {}), "-n": name}
        self._file_option("--pidfile", "-p", f"{RUN_FOLDER}{os.sep}%n.pid")
        self._file_option("--logfile", "-f", f"{LOG_FOLDER}{os.sep}%n%I.log")
        self.options.setdefault("--executable", sys.executable)
        # %i and %I are for the worker to fill in: it knows its children.
        self.expander: Callable[[str], str] = partial(
            node_format, name=name, h=name, i="%i", I="%I"
        )
        self.argv = self._words()
        self._pid: int | None = None

    def _file_option(self, name: str, short: str, default: str) -> None:
        key = short if short in self.options else name
        path = os.path.expanduser(self.options.get(key) or default)
        self.options[key] = path
        folder = os.path.dirname(path)
        if folder and not os.path.exists(folder):
            os.makedirs(folder)

    def _words(self) -> tuple[str, ...]:
        before: list[str] = []
        after: list[str] = []
        for name, value in self.options.items():
            text = value if value is None else self.expander(str(value))
            if name == "--workdir" and text is not None:
                text = os.path.expanduser(text)
            (before if name in OF_THE_COMMAND else after).append(format_opt(name, text))
        program, celery, command = self.cmd.partition("celery")
        cmd = " ".join([program + celery, *before, command.strip()])
        rest = [self.append] if self.append else []
        return (cmd, *after, self.extra_args, *rest)

    @classmethod
    def from_kwargs(cls, name: str, **kwargs: Any) -> Node:
        """A node whose options are keywords: ``A="proj", max_tasks_per_child=10``; ``True`` is a
        flag."""
        options = {
            f"-{key}" if len(key) == 1 else f"--{key.replace('_', '-')}": (
                None if value is True else str(value)
            )
            for key, value in kwargs.items()
        }
        return cls(name, options=options)

    def getopt(self, *alt: str) -> Any:
        """The value of an option by any of its names. Raises ``KeyError`` if it is not given."""
        for name in alt:
            if name in self.options:
                return self.options[name]
        raise KeyError(alt[0])

    @property
    def executable(self) -> str:
        return str(self.options["--executable"])

    @property
    def argv_with_executable(self) -> tuple[str, ...]:
        return (self.executable, *self.argv)

    @property
    def pidfile(self) -> str:
        """As the worker will name it, having got the name from here."""
        return node_format(self.expander(self.getopt("--pidfile", "-p")), self.name)

    @property
    def logfile(self) -> str:
        return self.expander(self.getopt("--logfile", "-f"))

    @property
    def pid(self) -> int | None:
        """The process id that is in the pid file; ``None`` if there is none."""
        if self._pid is not None:
            return self._pid
        try:
            return Pidfile(self.pidfile).read_pid()
        except ValueError:
            return None

    @pid.setter
    def pid(self, value: int | None) -> None:
        self._pid = value

    def send(self, sig: int, on_error: Callable[[Node], Any] | None = None) -> bool:
        """Send a signal. False, after ``on_error``, if there is no process to get it."""
        pid = self.pid
        if pid:
            try:
                os.kill(pid, sig)
            except OSError as error:
                if error.errno not in NO_SUCH_PROCESS:
                    raise
            else:
                return True
        (on_error or _nothing)(self)
        return False

    def alive(self) -> bool:
        return self.send(0)

    def start(self, env: Mapping[str, str] | None = None, **kwargs: Any) -> int:
        """Run the command, which goes on in the background; its exit code."""
        return self._waitexec(self.argv, path=self.executable, env=env, **kwargs)

    def prepare_argv(self, argv: Iterable[str], path: str) -> list[str]:
        return [path, *shlex.split(" ".join(argv), posix=not IS_WINDOWS)]

    def _waitexec(
        self,
        argv: Iterable[str],
        path: str = sys.executable,
        env: Mapping[str, str] | None = None,
        on_spawn: Callable[..., Any] | None = None,
        on_signalled: Callable[..., Any] | None = None,
        on_failure: Callable[..., Any] | None = None,
    ) -> int:
        words = self.prepare_argv(argv, path)
        (on_spawn or _nothing)(self, " ".join(words), env)
        return self.handle_process_exit(
            Popen(words, env=env).wait(), on_signalled=on_signalled, on_failure=on_failure
        )

    def handle_process_exit(
        self,
        retcode: int,
        on_signalled: Callable[..., Any] | None = None,
        on_failure: Callable[..., Any] | None = None,
    ) -> int:
        """Tell how a process ended; its exit code, or the number of the signal."""
        if retcode < 0:
            (on_signalled or _nothing)(self, -retcode)
        elif retcode:
            (on_failure or _nothing)(self, retcode)
        return abs(retcode)

    def __repr__(self) -> str:
        return f"<Node: {self.name}>"


class MultiParser:
    """From parsed words to nodes. A number stands for so many workers: ``3`` for ``celery1``,
    ``celery2``, ``celery3``."""

    Node: ClassVar[type[Any]] = Node

    def __init__(
        self,
        cmd: str = "celery worker",
        append: str = "",
        prefix: str = "",
        suffix: str = "",
        range_prefix: str = "celery",
    ) -> None:
        self.cmd = cmd
        self.append = append
        self.prefix = prefix
        self.suffix = suffix
        self.range_prefix = range_prefix

    def parse(self, p: NamespacedOptionParser) -> Iterator[Any]:
        """A node for each name. Raises ``KeyError`` for the options of one that is not there."""
        options = dict(p.options)
        short = options.pop("-n", None)
        host = options.pop("--hostname", None) or short
        prefix = options.pop("--prefix", self.prefix) or ""
        suffix = options.pop("--suffix", self.suffix) or host or gethostname()
        suffix = "" if suffix in ('""', "''") else suffix
        range_prefix = options.pop("--range-prefix", "") or self.range_prefix
        counted = len(p.values) == 1 and p.values[0].isdecimal()
        names = list(p.values)
        if counted:
            names = [f"{range_prefix}{number}" for number in range(1, int(p.values[0]) + 1)]
        own = self._options_by_name(p.namespaces, names, counted)
        for name in names:
            full = prefix + name if "@" in name else f"{prefix}{name}@{suffix}"
            # With its host or without.
            special = {**own.get(name.partition("@")[0], {}), **own.get(name, {})}
            yield self.Node(full, self.cmd, self.append, {**options, **special}, p.passthrough)

    def _options_by_name(
        self, namespaces: Mapping[str, Mapping[str, Any]], names: list[str], counted: bool
    ) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for namespace, options in namespaces.items():
            # The end of a range may lie behind the last worker, a number on its own may not.
            ranged = counted and INDEX_RANGE.search(namespace)
            for key in self._parse_ns_range(namespace, counted):
                if key.isdecimal() and key not in names:
                    if not 0 < int(key) <= len(names):
                        if ranged:
                            continue
                        raise KeyError(key)
                    key = names[int(key) - 1]
                found.setdefault(key, {}).update(options)
        return found

    def _parse_ns_range(self, ns: str, ranges: bool = False) -> list[str]:
        found: list[str] = []
        for part in ns.split(","):
            ends = INDEX_RANGE.fullmatch(part) if ranges else None
            if ends:
                found.extend(map(str, range(int(ends[1]), int(ends[2]) + 1)))
            else:
                found.append(part)
        return found


class Cluster(UserList[Node]):
    """Nodes that are started and stopped together. The ``on_…`` functions are told of each step."""

    def __init__(
        self,
        nodes: Iterable[Node],
        cmd: str | None = None,
        env: Mapping[str, str] | None = None,
        on_stopping_preamble: Callable[..., Any] | None = None,
        on_send_signal: Callable[..., Any] | None = None,
        on_still_waiting_for: Callable[..., Any] | None = None,
        on_still_waiting_progress: Callable[..., Any] | None = None,
        on_still_waiting_end: Callable[..., Any] | None = None,
        on_node_start: Callable[..., Any] | None = None,
        on_node_restart: Callable[..., Any] | None = None,
        on_node_shutdown_ok: Callable[..., Any] | None = None,
        on_node_status: Callable[..., Any] | None = None,
        on_node_signal: Callable[..., Any] | None = None,
        on_node_signal_dead: Callable[..., Any] | None = None,
        on_node_down: Callable[..., Any] | None = None,
        on_child_spawn: Callable[..., Any] | None = None,
        on_child_signalled: Callable[..., Any] | None = None,
        on_child_failure: Callable[..., Any] | None = None,
    ) -> None:
        self.nodes = list(nodes)
        self.cmd = cmd or "celery worker"
        self.env = env
        self.on_stopping_preamble = on_stopping_preamble or _nothing
        self.on_send_signal = on_send_signal or _nothing
        self.on_still_waiting_for = on_still_waiting_for or _nothing
        self.on_still_waiting_progress = on_still_waiting_progress or _nothing
        self.on_still_waiting_end = on_still_waiting_end or _nothing
        self.on_node_start = on_node_start or _nothing
        self.on_node_restart = on_node_restart or _nothing
        self.on_node_shutdown_ok = on_node_shutdown_ok or _nothing
        self.on_node_status = on_node_status or _nothing
        self.on_node_signal = on_node_signal or _nothing
        self.on_node_signal_dead = on_node_signal_dead or _nothing
        self.on_node_down = on_node_down or _nothing
        self.on_child_spawn = on_child_spawn or _nothing
        self.on_child_signalled = on_child_signalled or _nothing
        self.on_child_failure = on_child_failure or _nothing

    @property
    def data(self) -> list[Node]:
        return self.nodes

    @data.setter
    def data(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    def find(self, name: str) -> Node:
        """The node of that name. Raises ``KeyError`` if there is none."""
        for node in self:
            if node.name == name:
                return node
        raise KeyError(name)

    def start(self) -> list[int]:
        """Start all; their exit codes."""
        return [self.start_node(node) for node in self]

    def start_node(self, node: Node) -> int:
        self.on_node_start(node)
        code = self._start_node(node)
        self.on_node_status(node, code)
        return code

    def _start_node(self, node: Node) -> int:
        return node.start(
            self.env,
            on_spawn=self.on_child_spawn,
            on_signalled=self.on_child_signalled,
            on_failure=self.on_child_failure,
        )

    def getpids(self, on_down: Callable[[Node], Any] | None = None) -> Iterator[Node]:
        """The nodes that have a process; ``on_down`` is called with the others."""
        for node in self:
            pid = node.pid
            if pid:
                node.pid = pid
                yield node
            else:
                (on_down or _nothing)(node)

    def send_all(self, sig: int) -> None:
        """Send all a signal."""
        for node in self.getpids(on_down=self.on_node_down):
            self.on_node_signal(node, signal_name(sig))
            node.send(sig, self.on_node_signal_dead)

    def kill(self) -> None:
        """End all at once: what they were doing runs again elsewhere."""
        self.send_all(signal.SIGKILL)

    def stop(
        self,
        retry: float | None = None,
        callback: Callable[[Node], Any] | None = None,
        sig: int = signal.SIGTERM,
    ) -> None:
        """Tell all to end. With ``retry``, wait for it, and look every so many seconds."""
        self._stop(retry, callback, sig)

    def stopwait(
        self,
        retry: float | None = 2,
        callback: Callable[[Node], Any] | None = None,
        sig: int = signal.SIGTERM,
    ) -> None:
        """Tell all to end, and wait for it."""
        self._stop(retry, callback, sig)

    def restart(self, sig: int = signal.SIGTERM) -> list[int]:
        """Start each again when it has ended; their exit codes."""
        codes: list[int] = []

        def again(node: Node) -> None:
            node.pid = None
            self.on_node_restart(node)
            codes.append(self._start_node(node))
            self.on_node_status(node, codes[-1])

        self._stop(2, again, sig)
        return codes

    def _stop(self, retry: float | None, on_down: Callable[[Node], Any] | None, sig: int) -> None:
        told = on_down or self.on_node_down
        nodes = list(self.getpids(on_down=told))
        if nodes:
            for node in self.shutdown_nodes(nodes, sig=sig, retry=retry):
                told(node)

    def shutdown_nodes(
        self, nodes: Sequence[Node], sig: int = signal.SIGTERM, retry: float | None = None
    ) -> Iterator[Node]:
        """Tell these to end; those that have, as they do. Without ``retry`` nobody waits."""
        waiting = list(nodes)
        self.on_stopping_preamble(nodes)
        for node in nodes:
            self.on_send_signal(node, signal_name(sig))
            if not node.send(sig, self.on_node_signal_dead):
                waiting.remove(node)
                yield node
        if not retry:
            return
        while waiting:
            self.on_still_waiting_for(waiting)
            for node in list(waiting):
                self.on_still_waiting_progress(waiting)
                if not node.alive():
                    self.on_node_shutdown_ok(node)
                    waiting.remove(node)
                    yield node
            if waiting:
                time.sleep(retry)
        self.on_still_waiting_end()

    def __repr__(self) -> str:
        return f"<Cluster({len(self)}): {[node.name for node in self]}>"
