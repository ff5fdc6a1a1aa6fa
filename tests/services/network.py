"""Several hosts on one switch, each a network namespace, and partitions between them.

    with services.Network("a", "b") as network:
        redis = services.Redis({"bind": network.address, "protected-mode": "no"})
        subprocess.Popen([*network.command("a"), "redis-cli", "-h", network.address])
        network.cut("a")     # what "a" sends is lost, and so is what is sent to it
        network.heal("a")

Linux only, and root only. The namespaces have no names: each lives as long as a process that keeps
it. Those end with the process that started them, however it ends, and the kernel removes what was
between them.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

from .home import Home
from .processes import signal_family
from .programs import find_program
from .service import LAUNCH, START_SECONDS, ServiceError

SWITCH = "switch"
PROGRAMS = ("ip", "nsenter", "unshare")


class NoNetworks(Exception):
    """This process may not make networks; the message says why, in a line."""


class Network:
    """Hosts with these names, on one switch with this machine, whose address there is `address`.

    Raises `MissingProgram`, and `NoNetworks` where the user or the kernel does not allow it.
    """

    def __init__(self, *hosts: str) -> None:
        if os.geteuid() != 0:
            raise NoNetworks("network namespaces need root")
        self._programs = {name: find_program(name) for name in PROGRAMS}
        self.hosts = hosts
        # 198.18.0.0/15 is for such tests: nobody has addresses there.
        self._subnet = f"198.{random.choice((18, 19))}.{random.randrange(256)}"  # no secret
        self._device = f"tq{random.randrange(1 << 40):010x}"  # no secret
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}
        self._home: Home | None = None

    @property
    def address(self) -> str:
        """Of this machine, as the hosts see it: where servers have to listen."""
        return f"{self._subnet}.1"

    @property
    def subnet(self) -> str:
        """Where all of them have their addresses, as in ``198.18.7.0/24``."""
        return f"{self._subnet}.0/24"

    def address_of(self, host: str) -> str:
        return f"{self._subnet}.{self._number(host)}"

    def command(self, host: str) -> list[str]:
        """The beginning of a command that runs on a host; the process stays the caller's child."""
        keeper = self._keepers[host].pid
        return [str(self._programs["nsenter"]), f"--net=/proc/{keeper}/ns/net", "--"]

    def cut(self, host: str) -> None:
        """Part it from all others. Packets are lost, without a word to whoever has sent them."""
        self._ip(SWITCH, "link", "set", f"port{self._number(host)}", "nomaster")

    def heal(self, host: str) -> None:
        """Connect it again."""
        self._ip(SWITCH, "link", "set", f"port{self._number(host)}", "master", "bridge")

    def start(self) -> Network:
        """Make it. Raises `NoNetworks` where the kernel refuses, else `ServiceError`."""
        self._home = Home()
        try:
            for name in (SWITCH, *self.hosts):
                self._keep(name, self._home.path)
            self._plug_in()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Remove it; processes on its hosts go on, without a network."""
        for keeper in self._keepers.values():
            signal_family(keeper.pid, signal.SIGKILL)
            keeper.communicate()
        self._keepers.clear()
        # The kernel would remove it too, a moment later.
        with contextlib.suppress(ServiceError):
            self._ip(None, "link", "delete", self._device)
        if self._home is not None:
            self._home.close()

    def __enter__(self) -> Network:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _number(self, host: str) -> int:
        return self.hosts.index(host) + 2

    def _keep(self, name: str, folder: Path) -> None:
        """Start the process that a namespace lives by, and wait until it has one."""
        unshare = [str(self._programs["unshare"]), "--net", "--", "sleep", "infinity"]
        keeper = subprocess.Popen(
            ["/bin/sh", "-c", LAUNCH, str(folder / f"{name}.pid"), *unshare],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._keepers[name] = keeper
        assert keeper.stderr is not None
        ours = Path("/proc/self/ns/net").readlink()
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if keeper.poll() is not None:
                said = keeper.stderr.read().decode(errors="replace").strip()
                raise NoNetworks(f"the kernel makes no network namespace: {said}")
            with contextlib.suppress(OSError):
                if Path(f"/proc/{keeper.pid}/ns/net").readlink() != ours:
                    return
            time.sleep(0.005)
        raise ServiceError(f"no network namespace within {START_SECONDS:.0f} s")

    def _plug_in(self) -> None:
        switch = str(self._keepers[SWITCH].pid)
        self._make(SWITCH, "link", "add", "bridge", "up", "type", "bridge")
        mac = ["address", self._mac(1)]
        peer = ["peer", "name", "port1", "netns", switch]
        self._make(None, "link", "add", self._device, *mac, "type", "veth", *peer)
        self._ip(SWITCH, "link", "set", "port1", "up", "master", "bridge")
        self._ip(None, "address", "add", f"{self.address}/24", "dev", self._device)
        self._ip(None, "link", "set", self._device, "up")
        for host in self.hosts:
            self._plug_in_host(host)

    def _plug_in_host(self, host: str) -> None:
        number, keeper = self._number(host), str(self._keepers[host].pid)
        peer = ["peer", "name", "eth0", "address", self._mac(number), "netns", keeper]
        self._make(SWITCH, "link", "add", f"port{number}", "type", "veth", *peer)
        self._ip(SWITCH, "link", "set", f"port{number}", "up", "master", "bridge")
        self._ip(host, "address", "add", f"{self.address_of(host)}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._ip(host, "link", "set", device, "up")
        # Nobody has to ask who has an address: a partition is silence, never "no route to host".
        self._know(host, self.address, self._mac(1), "eth0")
        self._know(None, self.address_of(host), self._mac(number), self._device)

    def _know(self, host: str | None, address: str, mac: str, device: str) -> None:
        how = ["lladdr", mac, "dev", device, "nud", "permanent"]
        self._ip(host, "neighbour", "replace", address, *how)

    def _mac(self, number: int) -> str:
        return f"02:00:00:00:00:{number:02x}"

    def _make(self, host: str | None, *arguments: str) -> None:
        """What a kernel may not be built for."""
        try:
            self._ip(host, *arguments)
        except ServiceError as error:
            raise NoNetworks(str(error)) from None

    def _ip(self, host: str | None, *arguments: str) -> None:
        """Run ``ip`` on a host, on the switch, or here. Raises `ServiceError`."""
        where = [] if host is None else self.command(host)
        done = subprocess.run(
            [*where, str(self._programs["ip"]), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )
        if done.returncode:
            raise ServiceError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
