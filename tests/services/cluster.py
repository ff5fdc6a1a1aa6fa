"""A Redis Cluster of six nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from .group import Group, wait_until
from .home import Home
from .programs import find_program
from .redis import Redis
from .service import HOST

SLOTS = 16384
BATCH = 100
MIGRATE_MILLISECONDS = 5000


class Node(Redis):
    """One node of a cluster."""

    port_names = ("main", "bus")

    @property
    def id(self) -> str:
        """Its name within the cluster."""
        return self.cli("CLUSTER", "MYID")

    def cluster_info(self) -> dict[str, str]:
        lines = self.cli("CLUSTER", "INFO").split()
        return dict(line.split(":", 1) for line in lines)

    def knows(self, nodes: int) -> bool:
        return self.cluster_info()["cluster_known_nodes"] == str(nodes)

    def is_ok(self) -> bool:
        """Whether it finds every slot served, and follows its master if it has one."""
        replication = self.cli("INFO", "replication")
        follows = "role:master" in replication or "master_link_status:up" in replication
        return follows and self.cluster_info()["cluster_state"] == "ok"


class RedisCluster(Group):
    """A cluster: `masters` share the slots evenly, each of `replicas` follows one of them.

    `node_timeout` (seconds) is how long a node may be silent before its replica takes over.
    """

    def __init__(
        self,
        options: Mapping[str, str | int] | None = None,
        *,
        masters: int = 3,
        replicas: int = 3,
        node_timeout: float = 2.0,
    ) -> None:
        find_program(Redis.program)
        home = Home()
        settings: dict[str, str | int] = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": round(node_timeout * 1000),
            "repl-diskless-sync-delay": 0,
            **(options or {}),
        }
        nodes = [Node(settings, home=home) for _ in range(masters + replicas)]
        for node in nodes:
            node.options["cluster-port"] = node.place.ports["bus"]
        self.masters = nodes[:masters]
        self.replicas = nodes[masters:]
        super().__init__(home, nodes)
        self.nodes = tuple(nodes)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each node."""
        return [(HOST, each.port) for each in self.nodes]

    @property
    def url(self) -> str:
        """``redis://host:port/0?cluster=1`` with the first node."""
        return f"{self.nodes[0].url}?cluster=1"

    def form(self) -> None:
        count = len(self.masters)
        bounds = [SLOTS * each // count for each in range(count + 1)]
        for number, node in enumerate(self.nodes):
            # Different from the start: nodes that settle a conflict of epochs take seconds.
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, first, end in zip(self.masters, bounds, bounds[1:], strict=False):
            node.cli("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for number, node in enumerate(self.nodes):
            for other in self.nodes[:number]:
                node.cli("CLUSTER", "MEET", HOST, other.port, other.place.ports["bus"])
        for node in self.nodes:
            wait_until(partial(node.knows, len(self.nodes)), f"{node} meets the others")
        for number, node in enumerate(self.replicas):
            self._follow(node, self.masters[number % count])
        self.wait_until_ok()

    def _follow(self, node: Node, master: Node) -> None:
        # A node that met the master only through others may not know its name yet.
        wait_until(lambda: master.id in node.cli("CLUSTER", "NODES"), f"{node} finds {master}")
        node.cli("CLUSTER", "REPLICATE", master.id)

    def wait_until_ok(self) -> None:
        """Wait until every running node says that all slots are served, and replicas follow."""
        for node in self.nodes:
            if node.is_running:
                wait_until(node.is_ok, f"{node} finds the cluster whole")

    def owner(self, key: str) -> Node:
        """The master of the slot of a key."""
        return self.owner_of_slot(self.slot(key))

    def slot(self, key: str) -> int:
        return int(self._any().cli("CLUSTER", "KEYSLOT", key))

    def owner_of_slot(self, slot: int) -> Node:
        for line in self._any().cli("CLUSTER", "NODES").splitlines():
            fields = line.split()
            address, flags = fields[1:3]
            if "master" in flags and any(slot in held(field) for field in fields[8:]):
                port = int(address.partition("@")[0].rpartition(":")[2])
                return next(each for each in self.nodes if each.port == port)
        raise LookupError(f"nobody serves slot {slot}")

    def move_slot(self, slot: int, target: Node) -> None:
        """Move a slot with its keys, while clients work: `begin_move`, `move_keys`, `end_move`."""
        self.begin_move(slot, target)
        self.move_keys(slot, target)
        self.end_move(slot, target)

    def begin_move(self, slot: int, target: Node) -> None:
        """From now on the owner sends clients that ask for an absent key to the target (ASK)."""
        source = self.owner_of_slot(slot)
        target.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def move_keys(self, slot: int, target: Node, limit: int | None = None) -> int:
        """Move keys of a slot that is being moved, at most `limit`; gives how many it moved."""
        source = self.owner_of_slot(slot)
        moved = 0
        while limit is None or moved < limit:
            count = BATCH if limit is None else min(BATCH, limit - moved)
            keys = source.cli("CLUSTER", "GETKEYSINSLOT", slot, count).split("\n")
            if keys == [""]:
                break
            address = (HOST, target.port, "", 0, MIGRATE_MILLISECONDS)
            source.cli("MIGRATE", *address, "KEYS", *keys)
            moved += len(keys)
        return moved

    def end_move(self, slot: int, target: Node) -> None:
        """The target owns the slot now; others send clients there (MOVED)."""
        source = self.owner_of_slot(slot)
        others = [each for each in self.masters if each not in (target, source)]
        name = target.id
        for node in (target, source, *others):
            if node.is_running and node.cli("ROLE").startswith("master"):
                node.cli("CLUSTER", "SETSLOT", slot, "NODE", name)

    def _any(self) -> Node:
        return next(each for each in self.nodes if each.is_running)


def held(field: str) -> range:
    """The slots that a field of CLUSTER NODES names: ``5`` or ``0-99``."""
    # One in brackets says that a slot is being moved; it is named by its owner as well.
    if field.startswith("["):
        return range(0)
    first, _, last = field.partition("-")
    return range(int(first), int(last or first) + 1)
