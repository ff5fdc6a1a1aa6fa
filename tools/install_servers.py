"""Installs the Debian packages of the servers, and others, that the tests use, where missing.

    python -m tools.install_servers

Nothing is said when nothing is missing. Root installs with apt-get; everybody else, and a machine
without apt-get, gets one line with what is missing, and the tests that need it are skipped. Under
CI (``CI=true``) whatever stays missing is an error. No installed service is started.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.services import MissingProgram, find_program

# The packages, each with a program that it brings.
PACKAGES = {
    "graphviz": "dot",
    "iproute2": "ip",
    "pgbouncer": "pgbouncer",
    "postgresql": "postgres",
    "rabbitmq-server": "rabbitmq-server",
    "redis-server": "redis-server",
}
# Debian asks this program whether a service may be started; 101 is no.
POLICY = Path("/usr/sbin/policy-rc.d")
REFUSE = "#!/bin/sh\nexit 101\n"


def missing() -> list[str]:
    """The packages whose programs are not there."""
    packages = []
    for package, program in PACKAGES.items():
        try:
            find_program(program)
        except MissingProgram:
            packages.append(package)
    return packages


@contextlib.contextmanager
def no_service_starts() -> Iterator[None]:
    """Services are installed and stay off. A policy that is there already is left alone."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(REFUSE)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def apt_get(*arguments: str) -> str:
    """Run apt-get; gives its last error, or nothing when it worked."""
    options = ["-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        command = ["apt-get", *options, *arguments]
        status = subprocess.call(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=quiet
        )
        log.seek(0)
        lines = log.read().splitlines()
    if status == 0:
        return ""
    errors = [line for line in lines if line.startswith("E:")]
    return (errors or lines or [f"exit status {status}"])[-1]


def install(packages: list[str]) -> str:
    """Install packages; gives the error, or nothing when it worked."""
    command = ("install", "--no-install-recommends", *packages)
    with no_service_starts():
        if not apt_get(*command):
            return ""
        # The lists of packages are absent in a fresh container, or name what is gone by now.
        return apt_get("update") or apt_get(*command)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.install_servers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.parse_args(arguments)
    packages = missing()
    if not packages:
        return 0
    names = " ".join(packages)
    if os.geteuid() == 0 and shutil.which("apt-get") is not None:
        say(f"installing {names}")
        error = install(packages)
        if not error:
            return 0
        say(f"apt-get could not install {names}: {error}")
    else:
        say(f"not installed: {names} (as root: apt-get install {names}); their tests are skipped")
    return int(os.environ.get("CI", "").lower() not in ("", "0", "false"))


def say(text: str) -> None:
    print(f"servers: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
