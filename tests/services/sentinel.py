"""A Redis master, its replica and the three sentinels that watch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from .group import Group, wait_until
from .home import Home
from .programs import find_program
from .redis import Redis
from .service import HOST, ServiceError

SERVICE_NAME = "mymaster"
SENTINELS = 3
QUORUM = 2


class Sentinel(Redis):
    """One sentinel. `down_after` is how long (seconds) a master may be silent."""

    def __init__(self, home: Home, master: Redis, down_after: float) -> None:
        super().__init__(home=home)
        self.watched = master
        self.down_after = down_after

    def prepare(self) -> None:
        name, milliseconds = SERVICE_NAME, round(self.down_after * 1000)
        lines = [
            f"bind {HOST}",
            f"port {self.port}",
            f"dir {self.folder}",
            f"sentinel monitor {name} {HOST} {self.watched.port} {QUORUM}",
            f"sentinel down-after-milliseconds {name} {milliseconds}",
            f"sentinel failover-timeout {name} {10 * milliseconds}",
        ]
        if self.watched.password is not None:
            lines.append(f"sentinel auth-pass {name} {self.watched.password}")
        self.configuration.write_text("\n".join(lines) + "\n")

    def command(self) -> Sequence[str | Path]:
        return [*super().command(), "--sentinel"]

    def master_port(self) -> int:
        """The port of the server that it takes for the master."""
        return int(self.cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE_NAME).splitlines()[1])

    def names_master(self, server: Redis) -> bool:
        return self.master_port() == server.port

    def knows_everybody(self) -> bool:
        wanted = f"status=ok,address={HOST}:{self.master_port()},slaves=1,sentinels={SENTINELS}"
        return wanted in self.cli("INFO", "sentinel")


class SentinelSet(Group):
    """Redis under sentinels: `servers` are the two redis-servers, `sentinels` the three sentinels.

    `options` and `password` are those of both servers. A master is taken for dead when it has been
    silent for `down_after` seconds: more than a busy machine makes of one that lives, so that none
    is replaced unasked. Who wants the sentinels to find out by themselves says less.
    """

    def __init__(
        self,
        options: Mapping[str, str | int] | None = None,
        *,
        password: str | None = None,
        down_after: float = 60.0,
    ) -> None:
        find_program(Redis.program)
        home = Home()
        settings = {"repl-diskless-sync-delay": 0, **(options or {})}
        if password is not None:
            settings["masterauth"] = f'"{password}"'
        first = Redis(settings, password=password, home=home)
        following = {**settings, "replicaof": f"{HOST} {first.port}"}
        self.servers = (first, Redis(following, password=password, home=home))
        self.sentinels = tuple(Sentinel(home, first, down_after) for _ in range(SENTINELS))
        self.service_name = SERVICE_NAME
        self.password = password
        super().__init__(home, (*self.servers, *self.sentinels))

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each sentinel."""
        return [(HOST, each.port) for each in self.sentinels]

    @property
    def url(self) -> str:
        """``redis+sentinel://host:port,host:port,host:port/mymaster/0``."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return f"redis+sentinel://{self.servers[0].login}{hosts}/{SERVICE_NAME}/0"

    @property
    def master(self) -> Redis:
        """The server that the sentinels name; it may just have died."""
        sentinel = next(each for each in self.sentinels if each.is_running)
        port = sentinel.master_port()
        return next(each for each in self.servers if each.port == port)

    @property
    def replica(self) -> Redis:
        master = self.master
        return next(each for each in self.servers if each is not master)

    def form(self) -> None:
        follower = self.servers[1]
        wait_until(
            lambda: "master_link_status:up" in follower.cli("INFO", "replication"),
            f"{follower} follows its master",
        )
        self.wait_until_agreed()

    def wait_until_agreed(self) -> None:
        """Wait until every sentinel knows the others, the master and its replica."""
        for each in self.sentinels:
            wait_until(each.knows_everybody, f"{each} finds its peers")

    def failover(self) -> Redis:
        """Have the sentinels promote the replica; gives the new master, when all of them name it.

        They let the old one go on as a master for about ten seconds: what clients that are still
        connected to it write there is lost.
        """
        after = self.replica
        self._ask_for_failover()
        self.wait_for_master(after)
        return after

    def lose_master(self) -> Redis:
        """Kill the master, and have the sentinels promote the replica at once; gives that."""
        master, after = self.master, self.replica
        master.kill()
        self._ask_for_failover()
        self.wait_for_master(after)
        return after

    def _ask_for_failover(self) -> None:
        def is_taken() -> bool:
            try:
                self.sentinels[0].cli("SENTINEL", "FAILOVER", SERVICE_NAME)
            except ServiceError as error:
                # It has not heard of the replica for a while, or is at it already.
                return "INPROG" in str(error)
            return True

        wait_until(is_taken, f"{self.sentinels[0]} begins a failover")

    def wait_for_master(self, server: Redis) -> None:
        """Wait until a server is the master and every sentinel says so."""
        for each in self.sentinels:
            wait_until(partial(each.names_master, server), f"{each} names {server}")
        wait_until(lambda: server.cli("ROLE").startswith("master"), f"{server} becomes master")
