"""Documents: what programs share, written by compare and set."""

from __future__ import annotations

from taskmq.documents import Document, DocumentChange
from taskmq.ids import new_id

from .case import case
from .checks import equal, holds
from .subject import Subject
from .threads import PATIENCE, together


def change(
    name: str, data: bytes | None, expected: str | None = None, kind: str = "k"
) -> DocumentChange:
    return DocumentChange(kind=kind, name=name, data=data, revision=new_id(), expected=expected)


@case()
def documents_are_kept_by_kind_and_name(subject: Subject) -> None:
    """Listed by name, or only those that are asked for; data are bytes, whatever they are."""
    changes = [
        change("b", b"\x00\xff"),
        change("a", b""),
        change("c", "é".encode()),
        change("a", b"other", kind="l"),
    ]
    equal(subject.transport.write(changes), [True] * 4, "written")
    b, a, c, other = (
        Document(kind=each.kind, name=each.name, data=each.data or b"", revision=each.revision)
        for each in changes
    )
    transport = subject.open()
    equal(transport.documents("k"), [a, b, c], "of a kind")
    equal(transport.documents("k", ["c", "unknown", "a", "a"]), [a, c], "of some names")
    equal(transport.documents("k", []), [], "of no names")
    equal(transport.documents("l"), [other], "of the other kind")
    equal(transport.documents("unknown"), [], "of an unknown kind")
    equal(transport.write([]), [], "nothing written")


@case()
def document_is_written_over_only_by_who_knows_it(subject: Subject) -> None:
    """Each change stands for itself: one that is refused keeps no other from being made."""
    transport, first = subject.transport, change("a", b"1")
    transport.write([first])
    unknown = change("a", b"2", expected=new_id())
    known = change("a", b"3", expected=first.revision)
    changes = [change("a", b"4"), unknown, known, change("b", b"5"), change("a", b"6", new_id())]
    equal(transport.write(changes), [False, False, True, True, False], "written")
    found = [(each.name, each.data, each.revision) for each in transport.documents("k")]
    equal(found[0], ("a", b"3", known.revision), "the one that was known")
    equal(found[1][:2], ("b", b"5"), "the new one")
    late = change("a", b"7", expected=first.revision)
    equal(transport.write([late]), [False], "written by who knows what was there before")


@case()
def document_is_deleted_only_by_who_knows_it(subject: Subject) -> None:
    """A name that was deleted is free; to delete what is not there, and is known not to be, is
    no failure."""
    transport, first = subject.transport, change("a", b"1")
    transport.write([first])
    equal(transport.write([change("a", None)]), [False], "deleted by who believes in none")
    equal(transport.write([change("a", None, new_id())]), [False], "deleted by who knows another")
    equal(transport.write([change("a", None, first.revision)]), [True], "deleted")
    equal(transport.documents("k"), [], "left")
    equal(transport.write([change("a", None)]), [True], "deleted what is not there")
    equal(transport.write([change("a", b"2", first.revision)]), [False], "written over the deleted")
    equal(transport.write([change("a", b"3")]), [True], "written anew")


@case()
def changes_of_one_document_follow_each_other(subject: Subject) -> None:
    """Within one call, in order."""
    first = change("a", b"1")
    second = change("a", b"2", first.revision)
    third = change("a", b"3", first.revision)
    equal(subject.transport.write([first, second, third]), [True, True, False], "written")
    equal(subject.transport.documents("k")[0].data, b"2", "data")


@case()
def one_of_many_writers_wins(subject: Subject) -> None:
    """Several that know the same revision: one of them writes, the others learn of it."""
    first = change("a", b"")
    subject.transport.write([first])
    handles = [subject.open() for _ in range(4)]
    won: list[int] = []

    def contend(number: int) -> None:
        wanted = change("a", str(number).encode(), first.revision)
        if handles[number].write([wanted]) == [True]:
            won.append(number)

    together(contend, 4)
    equal(len(won), 1, "winners")
    equal(subject.transport.documents("k")[0].data, str(won[0]).encode(), "data")


@case("durable")
def documents_outlive_every_process(subject: Subject) -> None:
    """Whoever opens the store later finds them."""
    subject.transport.write([change("a", b"1")])
    subject.reopen()
    equal([each.data for each in subject.transport.documents("k")], [b"1"], "data")


@case("wakeups")
def written_document_wakes_who_listens(subject: Subject) -> None:
    """Whoever listens to its kind; also when it is deleted."""
    first = change("a", b"1")
    for wanted in (first, change("a", None, first.revision)):
        listener = subject.transport.listen(kinds=["k"])
        try:
            listener.clear()
            subject.open().write([wanted])
            holds(listener.wait(PATIENCE), "a wake-up by the write")
        finally:
            listener.close()
