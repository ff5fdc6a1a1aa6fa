"""Where a process of the pool begins that is an interpreter of its own.

python -m taskmq.pools.processes.entry nursery METHOD PARENT SOCKET
python -m taskmq.pools.processes.entry child PARENT DATA TOKENS CONTROL
"""

from __future__ import annotations

import os
import socket
import sys

from .child import Child, read_frame
from .forks import forking
from .nursery import ANSWER, Fds, Spawn, Word, ignore_terminal_and_terminate, serve
from .parentage import die_with_parent
from .site import settle
from .wire import Broken, decode_hello, encode


def nursery(method: str, parent: int, descriptor: int) -> None:
    """Serve the worker at the other end. With ``forkserver`` the app is imported once, here."""
    ignore_terminal_and_terminate()
    die_with_parent(parent)
    os.set_inheritable(descriptor, False)  # or a child would hold it open when this is dead
    sock = socket.socket(fileno=descriptor)
    if method == "spawn":
        serve(sock, Spawn())
        return
    hello = read_frame(sock)
    if hello is None:
        return
    try:
        site = settle(decode_hello(hello))
    except Exception as error:
        text = f"{type(error).__name__}: {error}".encode()
        sock.sendall(ANSWER.pack(Word.BROKEN, 0, len(text)) + text)
        return
    serve(sock, forking(site))


def child(parent: int, fds: Fds) -> None:
    """Live as a child that was spawned."""
    ignore_terminal_and_terminate()
    die_with_parent(parent)
    for descriptor in fds:
        os.set_inheritable(descriptor, False)
    sock = socket.socket(fileno=os.dup(fds.data))
    hello = read_frame(sock)
    if hello is None:
        return
    try:
        site = settle(decode_hello(hello))
    except Exception as error:
        sock.sendall(encode([Broken(f"{type(error).__name__}: {error}")]))
        return
    sock.close()
    Child(fds, site).live()


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "nursery":
        nursery(rest[0], int(rest[1]), int(rest[2]))
    else:
        child(int(rest[0]), Fds(*map(int, rest[1:])))
