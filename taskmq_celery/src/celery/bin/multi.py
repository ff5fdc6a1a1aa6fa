"""``celery multi``: start and stop several workers, each in the background.

    celery -A proj multi start 3 -l INFO --pidfile=run/%n.pid --logfile=log/%n%I.log
    celery -A proj multi stopwait 3 --pidfile=run/%n.pid

The workers are found again by their pid files, so every command needs the same ``--pidfile``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import IO, Any

import click
from click.core import ParameterSource

from celery import VERSION_BANNER
from celery.apps.multi import Cluster, MultiParser, NamespacedOptionParser
from celery.bin.base import CeleryCommand, handle_preload_options
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_FAILURE, EX_OK, EX_USAGE
from celery.utils import term
from celery.utils.text import pluralize

__all__ = ("MultiTool",)

USAGE = """\
usage: {prog_name} start <node1 node2 nodeN|count> [worker options]
       {prog_name} stop <nodes> [-SIG (default: -TERM)]
       {prog_name} stopwait <nodes> [-SIG]
       {prog_name} restart <nodes> [-SIG] [worker options]
       {prog_name} kill <nodes>

       {prog_name} show <nodes> [worker options]
       {prog_name} get <node> <nodes> [worker options]
       {prog_name} names <nodes>
       {prog_name} expand <template> <nodes>
       {prog_name} help

Behind the name of the command:

    * --nosplash:   leave out the version.
    * --quiet:      say less.
    * --verbose:    say more.
    * --no-color:   without colours.
"""

HELP = """\
Nodes are names, or a number: `start 3` starts celery1, celery2 and celery3. Options of the
worker go to all of them, or to some: -c:1,3 10, -Q:image,video media, --loglevel:image=DEBUG.
Words behind -- are settings.

  --pidfile, --logfile   %n is the name of the node (default: /var/run/celery, /var/log/celery)
  --hostname, --suffix   what comes behind the @ of the names (default: the name of the machine)
  --prefix               what comes before the names
  --range-prefix         what counted names are made of (default: celery)
  --executable, --cmd    what is run
"""

FLAGS = ("--nosplash", "--quiet", "-q", "--verbose", "--no-color", "--stdout", "--stderr")


class TermLogger:
    """Says how it goes, in colours."""

    splash_text = "celery multi {version}"
    retcode = EX_OK

    def setup_terminal(
        self,
        stdout: IO[str] | None,
        stderr: IO[str] | None,
        nosplash: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        no_color: bool = False,
        **kwargs: Any,
    ) -> None:
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.nosplash = nosplash
        self.quiet = quiet
        self.verbose = verbose
        self.no_color = no_color

    @cached_property
    def colored(self) -> Any:
        return term.colored(enabled=not self.no_color and self.stdout.isatty())

    def say(self, m: Any, newline: bool = True, file: IO[str] | None = None) -> None:
        print(m, file=file or self.stdout, end="\n" if newline else "", flush=True)

    def carp(self, m: Any, newline: bool = True, file: IO[str] | None = None) -> None:
        self.say(m, newline, file or self.stderr)

    def ok(self, m: Any, newline: bool = True, file: IO[str] | None = None) -> int:
        self.say(m, newline, file)
        return EX_OK

    def note(self, msg: Any, newline: bool = True) -> None:
        """What ``--quiet`` leaves out."""
        if not self.quiet:
            self.say(msg, newline)

    def info(self, msg: Any, newline: bool = True) -> None:
        """What only ``--verbose`` has."""
        if self.verbose:
            self.note(msg, newline)

    def error(self, msg: Any = None) -> int:
        """Say what is wrong, and how it is meant; the exit code."""
        if msg:
            self.carp(msg)
        self.usage()
        return EX_USAGE

    def splash(self) -> None:
        if not self.nosplash:
            text = self.splash_text.format(version=f"v{VERSION_BANNER}")
            self.note(self.colored.cyan(text))

    def usage(self) -> None:
        self.splash()
        self.say(USAGE.format(prog_name="multi"))


class MultiTool(TermLogger):
    """The commands. Each gives its exit code: 0, 1 if a worker did not start, 64 for a command
    that there is not. A worker that is down already is no error for those that stop."""

    MultiParser = MultiParser
    OptionParser = NamespacedOptionParser

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        cmd: str | None = None,
        fh: IO[str] | None = None,
        stdout: IO[str] | None = None,
        stderr: IO[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.env = env
        self.cmd = cmd
        self.setup_terminal(stdout or fh, stderr, **kwargs)
        self.prog_name = "celery multi"
        self.commands: dict[str, Callable[..., Any]] = {
            name: getattr(self, name)
            for name in (
                *("expand", "get", "help", "kill", "names", "restart"),
                *("show", "start", "stop", "stop_verify", "stopwait"),
            )
        }

    def execute_from_commandline(self, argv: Sequence[str], cmd: str | None = None) -> int:
        """Do what the words say; the first is the name of the program."""
        words = list(argv)
        self.prog_name = words.pop(0).rpartition("/")[2]
        self.cmd = cmd or self.cmd
        given = {word for word in words if word in FLAGS}
        self.setup_terminal(
            self.stdout,
            self.stderr,
            nosplash="--nosplash" in given or self.nosplash,
            quiet=bool(given & {"--quiet", "-q"}) or self.quiet,
            verbose="--verbose" in given or self.verbose,
            no_color="--no-color" in given or self.no_color,
        )
        words = [word for word in words if word not in FLAGS]
        if not self.validate_arguments(words):
            return self.error()
        return self.call_command(words[0], words[1:])

    def validate_arguments(self, argv: Sequence[str]) -> bool:
        """Whether the words begin with one that can be a command."""
        return bool(argv) and not argv[0].startswith("-")

    def call_command(self, command: str, argv: Sequence[str]) -> int:
        if command not in self.commands:
            return self.error(f"Invalid command: {command}")
        try:
            return self.commands[command](*argv) or EX_OK
        except KeyError as error:
            return self.error(f"There is no node {error.args[0]}")

    def cluster_from_argv(self, argv: Sequence[str], cmd: str | None = None) -> Cluster:
        """The nodes that words speak of. Raises ``KeyError`` for options of one that is not."""
        options = self.OptionParser(argv)
        options.parse()
        given = options.options.pop("--cmd", None) or cmd or self.cmd
        parser = self.MultiParser(cmd=given or "-m celery worker --detach")
        return self.Cluster(list(parser.parse(options)), given)

    def _to_stop(self, argv: Sequence[str]) -> tuple[Cluster, int]:
        """The nodes, and the signal among the words: ``-KILL``."""
        words, sig = [], int(signal.SIGTERM)
        for word in argv:
            named = getattr(signal, f"SIG{word[1:].upper()}", None) if word[:1] == "-" else None
            if isinstance(named, signal.Signals) and word[1:].isupper() and len(word) > 2:
                sig = int(named)
            elif word[:1] == "-" and word[1:].isdecimal():
                sig = int(word[1:])
            else:
                words.append(word)
        return self.cluster_from_argv(words), sig

    # -- the commands ------------------------------------------------------------------------

    def start(self, *argv: str) -> int:
        """Start them."""
        self.splash()
        cluster = self.cluster_from_argv(argv)
        self.note("> Starting nodes...")
        return int(any(cluster.start()))

    def stop(self, *argv: str, **kwargs: Any) -> int:
        """Tell them to end, and go. ``kwargs`` are further arguments of `Cluster.stop`."""
        return self._stopped(argv, **kwargs)

    def stopwait(self, *argv: str, **kwargs: Any) -> int:
        """Tell them to end, and wait until they have; otherwise as `stop`."""
        return self._stopped(argv, **{"retry": 2, **kwargs})

    stop_verify = stopwait

    def _stopped(self, argv: Sequence[str], **kwargs: Any) -> int:
        self.splash()
        cluster, sig = self._to_stop(argv)
        cluster.stop(**{"callback": self.on_node_down, "sig": sig, **kwargs})
        return EX_OK

    def restart(self, *argv: str, **kwargs: Any) -> int:
        """End them, and start each again. ``kwargs`` are further arguments of `Cluster.restart`."""
        self.splash()
        cluster, sig = self._to_stop(argv)
        return int(any(cluster.restart(**{"sig": sig, **kwargs})))

    def kill(self, *argv: str) -> int:
        """End them at once."""
        self.splash()
        self.cluster_from_argv(argv).kill()
        return EX_OK

    def names(self, *argv: str) -> int:
        """Print their names."""
        self.say("\n".join(node.name for node in self.cluster_from_argv(argv)))
        return EX_OK

    def get(self, wanted: str, *argv: str) -> int:
        """Print the command line of one."""
        try:
            node = self.cluster_from_argv(argv).find(wanted)
        except KeyError:
            return EX_FAILURE
        return self.ok(" ".join(node.argv_with_executable))

    def show(self, *argv: str) -> int:
        """Print their command lines."""
        nodes = self.cluster_from_argv(argv)
        return self.ok("\n".join(" ".join(node.argv_with_executable) for node in nodes))

    def expand(self, template: str, *argv: str) -> int:
        """Print a text for each, with its name filled in."""
        nodes = self.cluster_from_argv(argv)
        return self.ok("\n".join(node.expander(template) for node in nodes))

    def help(self, *argv: str) -> int:
        """Print how it is used."""
        self.usage()
        return self.ok(HELP)

    # -- what it says ------------------------------------------------------------------------

    def Cluster(self, nodes: list[Any], cmd: str | None = None) -> Cluster:  # noqa: N802  # Celery's
        """Nodes that tell this of each step."""
        names = (
            *("on_stopping_preamble", "on_send_signal", "on_still_waiting_for"),
            *("on_still_waiting_progress", "on_still_waiting_end", "on_node_start"),
            *("on_node_restart", "on_node_shutdown_ok", "on_node_status", "on_node_signal"),
            *("on_node_signal_dead", "on_node_down", "on_child_spawn", "on_child_signalled"),
            "on_child_failure",
        )
        told: dict[str, Any] = {name: getattr(self, name) for name in names}
        return Cluster(nodes, cmd, env=self.env, **told)

    @cached_property
    def OK(self) -> str:  # noqa: N802  # Celery's name
        return str(self.colored.green("OK"))

    @cached_property
    def FAILED(self) -> str:  # noqa: N802  # Celery's name
        return str(self.colored.red("FAILED"))

    @cached_property
    def DOWN(self) -> str:  # noqa: N802  # Celery's name
        return str(self.colored.magenta("DOWN"))

    def on_node_start(self, node: Any) -> None:
        self.note(f"\t> {node.name}: ", newline=False)

    def on_node_restart(self, node: Any) -> None:
        self.note(self.colored.blue(f"> Restarting node {node.name}: "), newline=False)

    def on_node_status(self, node: Any, retval: int) -> None:
        self.note(self.FAILED if retval else self.OK)

    def on_node_down(self, node: Any) -> None:
        self.note(f"> {node.name}: {self.DOWN}")

    def on_node_shutdown_ok(self, node: Any) -> None:
        self.note(f"\n\t> {node.name}: {self.OK}")

    def on_node_signal(self, node: Any, sig: str) -> None:
        self.note(f"Sending {sig} to node {node.name} ({node.pid})")

    def on_node_signal_dead(self, node: Any) -> None:
        self.note(f"Could not signal {node.name} ({node.pid}): No such process")

    def on_send_signal(self, node: Any, sig: str) -> None:
        self.note(f"\t> {node.name}: {sig} -> {node.pid}")

    def on_stopping_preamble(self, nodes: Sequence[Any]) -> None:
        self.note(self.colored.blue("> Stopping nodes..."))

    def on_still_waiting_for(self, nodes: Sequence[Any]) -> None:
        pids = ", ".join(str(node.pid) for node in nodes)
        count = f"{len(nodes)} {pluralize(len(nodes), 'node')}"
        self.note(self.colored.blue(f"> Waiting for {count} -> {pids}..."), newline=False)

    def on_still_waiting_progress(self, nodes: Sequence[Any]) -> None:
        self.note(".", newline=False)

    def on_still_waiting_end(self) -> None:
        self.note("")

    def on_child_spawn(self, node: Any, argstr: str, env: Mapping[str, str] | None) -> None:
        self.info(f"  {argstr}")

    def on_child_signalled(self, node: Any, signum: int) -> None:
        self.note(f"* Child was terminated by signal {signum}")

    def on_child_failure(self, node: Any, retcode: int) -> None:
        self.note(f"* Child terminated with exit code {retcode}")


GLOBAL_OPTIONS = {
    "app": "-A",
    "broker": "-b",
    "result_backend": "--result-backend",
    "loader": "--loader",
    "config": "--config",
    "workdir": "--workdir",
}


def _given_before(ctx: click.Context) -> list[str]:
    """What stands before ``multi`` is for the workers too."""
    parent = ctx.parent
    words: list[str] = []
    for name, option in GLOBAL_OPTIONS.items():
        if parent and parent.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = str(parent.params[name])
            words += [option, value] if len(option) == 2 else [f"{option}={value}"]
    return words


class _WordsCommand(CeleryCommand):
    """Takes its words as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["--help"]:
            return super().parse_args(ctx, args)
        ctx.args = args
        return args


@click.command(cls=_WordsCommand)
@click.pass_context
@handle_preload_options
def multi(ctx: click.Context, **_: Any) -> None:
    """Start and stop several workers in the background."""
    tool = MultiTool(quiet=ctx.obj.quiet, no_color=ctx.obj.no_color)
    at = ctx.args.index("--") if "--" in ctx.args else len(ctx.args)
    words = [*ctx.args[:at], *_given_before(ctx), *ctx.args[at:]]
    try:
        code = tool.execute_from_commandline(["multi", *(words if ctx.args else ())])
    except OSError as error:
        raise CeleryCommandException(f"{error.filename}: {error.strerror}", EX_FAILURE) from None
    ctx.exit(code)
