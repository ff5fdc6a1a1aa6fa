"""Commands in files that run programs: words and their places, as far as quoting can be seen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from .document import Document
from .model import Edit, Kind, Span
from .names import literal_text
from .pythonfile import PythonFile
from .tomlfile import TomlFile
from .yamlfile import Scalar, YamlFile

__all__ = ["Command", "Word", "commands", "moved"]

TOKEN = re.compile(
    r"""
      (?P<gap>(?:[ \t]|\\\r?\n)+)
    | (?P<line>\r?\n|\r)
    | (?P<operator>&&|\|\||;;|[;&|()])
    | (?P<word>(?:
          '[^']*'
        | "(?:\\.|[^"\\])*"
        | \$\{[^}]*\} | \$\([^)]*\) | \{\{.*?\}\} | `[^`]*`
        | \\.
        | [^\s;&|()'"\\`]
      )+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
QUOTES = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)""", re.DOTALL)
KEYS = re.compile(
    r"(?i)(command|args?|cmd|run|script|entrypoint|exec|test|shell|start|startcommand|"
    r"before_script|after_script|preparecommand|liveness|readiness|worker|beat|flower)s?$"
)
TEMPLATE = re.compile(r"""\s*(?:-\s+)*(?:["']?([\w.-]+)["']?\s*:\s+)?""")
SECTION = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
SCRIPTS = re.compile(r"(?i)tool\..*(scripts|tasks|commands)\b")
STRING = re.compile(r"""#.*|"(?:\\.|[^"\\])*"|'[^']*'""")
SHELLS = frozenset(
    {
        "os.popen",
        "os.system",
        "subprocess.Popen",
        "subprocess.call",
        "subprocess.check_call",
        "subprocess.check_output",
        "subprocess.getoutput",
        "subprocess.run",
    }
)
UNSEEN = "{}"
"""A word that a program of Python computes."""
LEADERS = {
    Kind.PROCFILE: re.compile(r"[\w-]+:"),
    Kind.SYSTEMD: re.compile(r"Exec\w+\s*=[-@:+!]*"),
    Kind.INI: re.compile(r"[\w.:-]+\s*="),
    Kind.DOCKERFILE: re.compile(
        r"(?i)\s*(?:RUN|CMD|ENTRYPOINT|HEALTHCHECK\s.*?CMD)\s+(?:--\S+\s+)*"
    ),
    Kind.MAKEFILE: re.compile(r"\t[@+-]*"),
}


@dataclass(frozen=True)
class Word:
    """One word of a command: what the program gets, and what stands in the file."""

    value: str
    span: Span


@dataclass(frozen=True)
class Command:
    """A simple command. `listed` is one that is written as a list, each word an item."""

    words: tuple[Word, ...]
    listed: bool = False


def commands(file: Document) -> Iterator[Command]:
    """Every command of a file, in order. Comments are none."""
    if isinstance(file, YamlFile):
        yield from _in_template(file) if file.is_template else _in_yaml(file)
        return
    if isinstance(file, TomlFile):
        yield from _in_toml(file)
        return
    if isinstance(file, PythonFile):
        yield from _in_python(file)
        return
    for region in _regions(file):
        if file.kind is Kind.DOCKERFILE:
            listed = _json_list(file.text, region)
            if listed is not None:
                yield listed
                continue
        yield from _split(file.text, region)


def _regions(file: Document) -> Iterator[Span]:
    """Logical lines, what leads them cut off; comments and continuations of comments left out."""
    leader = LEADERS.get(file.kind)
    start: int | None = None
    for line in file.lines():
        text = file.source(line)
        if text.lstrip().startswith(("#", ";") if file.kind is Kind.INI else "#"):
            continue
        begin = line.start if start is None else start
        if text.endswith("\\"):
            start = begin
            continue
        start = None
        found = leader.match(file.text, begin, line.end) if leader is not None else None
        if file.kind in (Kind.SYSTEMD, Kind.PROCFILE) and found is None:
            continue
        yield Span(found.end() if found is not None else begin, line.end)


def _split(text: str, region: Span, *, folded: bool = False) -> Iterator[Command]:
    """The simple commands of a region; what quotes hold is looked at too, as for ``sh -c``."""
    words: list[Word] = []
    position = region.start
    while position < region.end:
        found = TOKEN.match(text, position, region.end)
        if found is None:
            break
        position = found.end()
        if found.lastgroup == "word":
            span = Span(found.start(), found.end())
            if text[span.start] == "#":
                end = text.find("\n", span.end, region.end)
                position = region.end if end < 0 else end
                continue
            words.append(Word(_unquoted(text[span.start : span.end]), span))
            yield from _inside(text, span)
        elif found.lastgroup == "operator" or (found.lastgroup == "line" and not folded):
            if words:
                yield Command(tuple(words))
            words = []
    if words:
        yield Command(tuple(words))


def _inside(text: str, span: Span) -> Iterator[Command]:
    source = text[span.start : span.end]
    quote = source[0]
    if quote in "'\"" and source.endswith(quote) and source.count(quote) == 2 and " " in source:
        yield from _split(text, Span(span.start + 1, span.end - 1))


def _unquoted(source: str) -> str:
    return QUOTES.sub(lambda found: found[1] or found[2] or found[3] or "", source)


def _json_list(text: str, region: Span) -> Command | None:
    """The words of ``CMD ["celery", "worker"]``."""
    source = text[region.start : region.end]
    try:
        values = json.loads(source)
    except ValueError:
        return None
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        return None
    spans = [
        Span(region.start + each.start(), region.start + each.end())
        for each in re.finditer(r'"(?:\\.|[^"\\])*"', source)
    ]
    pairs = zip(values, spans, strict=True)
    return Command(tuple(Word(value, span) for value, span in pairs), listed=True)


def _in_yaml(file: YamlFile) -> Iterator[Command]:
    lists: dict[tuple[str | int, ...], list[Scalar]] = {}
    for scalar in file.scalars():
        if not any(isinstance(each, str) and KEYS.search(each) for each in scalar.path):
            continue
        if scalar.path and isinstance(scalar.path[-1], int):
            lists.setdefault(scalar.path[:-1], []).append(scalar)
        start, end = scalar.span.start, scalar.span.end
        if scalar.style in ("'", '"'):
            start, end = start + 1, end - 1
        elif scalar.style in ("|", ">"):
            # The indicator's line, with whatever comment, is no part of the value.
            start = min(end, file.text.find("\n", start) + 1)
        yield from _split(file.text, Span(start, end), folded=scalar.style != "|")
    for path, items in lists.items():
        words = tuple(Word(each.value, each.span) for each in items)
        command = lists.get((*path[:-1], "command")) if path and path[-1] == "args" else None
        if command:
            words = (*(Word(each.value, each.span) for each in command), *words)
        yield Command(words, listed=True)


def _in_template(file: YamlFile) -> Iterator[Command]:
    """Those of a template that becomes YAML, as Helm has them: line by line."""
    for line in file.lines():
        found = TEMPLATE.match(file.text, line.start, line.end)
        if found is None or (found[1] and not KEYS.search(found[1])):
            continue
        region = Span(found.end(), line.end)
        listed = _json_list(file.text, region)
        if listed is not None:
            yield listed
        else:
            yield from _split(file.text, region)


def _in_toml(file: TomlFile) -> Iterator[Command]:
    """Those of a program that runs tasks, such as ``[tool.pdm.scripts]``: a string each, or a list
    in one line."""
    section = ""
    for line in file.lines():
        header = SECTION.match(file.text, line.start, line.end)
        if header is not None:
            section = header[1]
        if header is not None or not SCRIPTS.match(section):
            continue
        source = file.source(line)
        strings = [each for each in STRING.finditer(source) if not each[0].startswith("#")]
        if not strings:
            continue
        start, end = source.find("[", source.find("=")), source.rfind("]")
        if "=" in source and 0 <= start < strings[0].start() and end > strings[-1].end() - 1:
            words = [(each[0][1:-1], each.span()) for each in strings]
            spans = [(text, Span(line.start + one, line.start + two)) for text, (one, two) in words]
            yield Command(tuple(Word(*each) for each in spans), listed=True)
            continue
        for each in strings:
            inner = Span(line.start + each.start() + 1, line.start + each.end() - 1)
            yield from _split(file.text, inner)


def _in_python(file: PythonFile) -> Iterator[Command]:
    """Lists that are the arguments of a program, as `subprocess` takes them, and what a shell is
    given as a string."""
    found: list[cst.List | cst.Tuple] = [*file.nodes(cst.List), *file.nodes(cst.Tuple)]
    for node in found:
        texts = [literal_text(each.value) for each in node.elements]
        if not any(text is not None and "celery" in text.lower() for text in texts):
            continue  # places are dear
        words = []
        for each, text in zip(node.elements, texts, strict=True):
            words.append(Word(UNSEEN if text is None else text, file.span(each.value)))
        starred = any(isinstance(each, cst.StarredElement) for each in node.elements)
        if len(words) > 1 and not starred:
            yield Command(tuple(words), listed=True)
    for call in file.nodes(cst.Call):
        if not call.args or SHELLS.isdisjoint(file.names(call.func)):
            continue
        value = call.args[0].value
        if not isinstance(value, cst.SimpleString | cst.FormattedString):
            continue
        span = file.span(value)
        source = file.source(span)
        quote = source.lstrip("rRbBuUfF")[0]
        lead = source.index(quote)
        if source[lead:].startswith(quote * 3) or "\\" in source:
            continue
        yield from _split(file.text, Span(span.start + lead + 1, span.end - 1))


def moved(file: Document, command: Command, after: int, chosen: Sequence[int]) -> tuple[Edit, ...]:
    """Edits that move some words of a command to right behind the word ``after``."""
    words = command.words
    if command.listed:
        rest = [each for each in range(after + 1, len(words)) if each not in chosen]
        order = [*chosen, *rest]
        return tuple(
            file.replace(words[after + 1 + place].span, file.source(words[source].span))
            for place, source in enumerate(order)
            if after + 1 + place != source
        )
    text = "".join(f" {file.source(words[each].span)}" for each in chosen)
    edits = [file.insert(words[after].span.end, text)]
    edits += [Edit(words[each - 1].span.end, words[each].span.end, ()) for each in chosen]
    return tuple(edits)
