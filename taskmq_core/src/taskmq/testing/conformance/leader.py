"""Named leases: one owner at a time, by the clock."""

from __future__ import annotations

from taskmq.transport import Transport

from .case import case
from .checks import equal
from .subject import Subject
from .threads import together


@case()
def named_lease_has_one_owner(subject: Subject) -> None:
    """While one owner holds a name, another does not get it, on any handle."""
    a, b = subject.transport, subject.open()
    equal(a.acquire("leader", "a", 30.0), True, "acquired by a")
    equal(b.acquire("leader", "b", 30.0), False, "acquired by b")
    subject.clock.advance(29.9)
    equal(b.acquire("leader", "b", 30.0), False, "acquired by b just before the end")


@case()
def named_lease_can_be_taken_over_when_it_ends(subject: Subject) -> None:
    """``ttl`` seconds after the last acquire the name is free."""
    transport = subject.transport
    transport.acquire("leader", "a", 30.0)
    subject.clock.advance(30)
    equal(transport.acquire("leader", "b", 30.0), True, "acquired by b")
    equal(transport.acquire("leader", "a", 30.0), False, "acquired by a")


@case()
def owner_renews_its_named_lease(subject: Subject) -> None:
    """An owner that acquires again holds the name for another ``ttl``, shorter or longer."""
    transport = subject.transport
    transport.acquire("leader", "a", 30.0)
    for _ in range(5):
        subject.clock.advance(20)
        equal(transport.acquire("leader", "a", 30.0), True, "renewed")
    equal(transport.acquire("leader", "b", 30.0), False, "acquired by b")
    equal(transport.acquire("leader", "a", 5.0), True, "renewed for a shorter time")
    subject.clock.advance(5)
    equal(transport.acquire("leader", "b", 30.0), True, "acquired by b")


@case()
def surrendered_name_is_free_at_once(subject: Subject) -> None:
    """Only the owner can surrender; then anybody can acquire."""
    transport = subject.transport
    equal(transport.surrender("leader", "a"), False, "surrender of what nobody holds")
    transport.acquire("leader", "a", 30.0)
    equal(transport.surrender("leader", "b"), False, "surrender by another")
    equal(transport.acquire("leader", "b", 30.0), False, "acquired by b")
    equal(transport.surrender("leader", "a"), True, "surrender by the owner")
    equal(transport.acquire("leader", "b", 30.0), True, "acquired by b")
    equal(transport.surrender("leader", "a"), False, "surrender by the former owner")


@case()
def names_are_independent(subject: Subject) -> None:
    """Each name has an owner of its own."""
    transport = subject.transport
    equal(transport.acquire("one", "a", 30.0), True, "acquired by a")
    equal(transport.acquire("two", "b", 30.0), True, "acquired by b")
    equal(transport.acquire("two", "a", 30.0), False, "acquired by a")
    equal(transport.surrender("one", "a"), True, "surrendered")
    equal(transport.acquire("two", "a", 30.0), False, "acquired by a")


@case()
def race_for_a_name_has_one_winner(subject: Subject) -> None:
    """Of many that ask at the same instant, one gets the name, term after term."""
    handles = [subject.open() for _ in range(4)]
    for _ in range(10):
        wins: list[int] = []

        def ask(number: int, handles: list[Transport] = handles, wins: list[int] = wins) -> None:
            if handles[number].acquire("leader", f"owner-{number}", 30.0):
                wins.append(number)

        together(ask, 4)
        equal(len(wins), 1, "winners")
        subject.clock.advance(30)
