"""Servers in containers: which commands run redis, RabbitMQ and memcached at an address."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from tests import services

from .machine import Machine, Program

# The port mapper is a child of the node, and ends with it.
NODE = '"$0" & exec "$@"'
# What a node logs when everybody may come.
STARTED = b"Server startup complete"


def redis(machine: Machine, command: Sequence[str]) -> Program:
    """redis-server, with the arguments of the container.

    A configuration file that is not there is left out: Celery's sdist has none, its repository has.
    """
    arguments = list(command[1:])
    if arguments and not arguments[0].startswith("--") and not Path(arguments[0]).is_file():
        arguments = arguments[1:]
    server = services.find_program("redis-server")
    place = ["--bind", machine.address, "--port", "6379", "--dir", str(machine.folder)]
    client = f'#!/bin/sh\nexec {services.find_program("redis-cli")} -h {machine.address} "$@"\n'
    return Program(
        [server, *arguments, *place], path=[_script(machine, "redis-cli", client), server.parent]
    )


def memcached(machine: Machine, command: Sequence[str]) -> Program:
    server = services.find_program("memcached")
    user = pwd.getpwuid(os.geteuid()).pw_name
    return Program(
        [server, *command[1:], "-l", machine.address, "-p", "11211", "-u", user],
        path=[server.parent],
    )


class RabbitMQ:
    """A RabbitMQ node, with the management plugin if that is what the image has."""

    def __init__(self, *, management: bool) -> None:
        self.management = management

    def __call__(self, machine: Machine, command: Sequence[str]) -> Program:
        node = self._node(machine)
        node.prepare()
        if self.management:
            (node.folder / "enabled_plugins").write_text("[rabbitmq_management].\n")
        server = services.find_program("rabbitmq-server")
        mapper = services.find_program("epmd")
        return Program(
            ["/bin/sh", "-c", NODE, mapper, server],
            # The node's own variables, without those of this process that it is given as well.
            environment=dict(node.environment().items() - os.environ.items()),
            path=[server.parent],
        )

    def recycle(self, machine: Machine) -> None:
        """As if it had just been started: nothing declared, nobody connected, nothing logged."""
        node = self._node(machine)
        node.delete_vhost("/")
        node.create_vhost("/")
        os.truncate(machine.log_path, machine.log_path.read_bytes().index(STARTED) + len(STARTED))

    def _node(self, machine: Machine) -> services.RabbitMQ:
        options = {"listeners.tcp.1": f"{machine.address}:5672"}
        if self.management:
            options |= {"management.tcp.ip": machine.address, "management.tcp.port": "15672"}
        notes = machine.folder / "ports"
        if not notes.exists():
            names = services.RabbitMQ.port_names
            notes.write_text(" ".join(str(services.free_port()) for _ in names))
        ports = dict(
            zip(services.RabbitMQ.port_names, map(int, notes.read_text().split()), strict=True)
        )
        return services.RabbitMQ(options, place=services.Place(machine.folder, ports))


def _script(machine: Machine, name: str, text: str) -> Path:
    """A program of the container's own; gives the folder that it is in."""
    folder = machine.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder
