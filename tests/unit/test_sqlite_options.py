"""What a sqlite:// URL may say."""

from pathlib import Path

import pytest

from taskmq.errors import ConfigError
from taskmq.transports.sqlite.options import Options, parse


def test_three_slashes_name_a_file_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = parse("sqlite:///jobs.db")
    monkeypatch.chdir("/")
    assert options == Options(tmp_path / "jobs.db", synchronous="normal", busy_timeout=5.0)


def test_four_slashes_name_a_file_from_the_root() -> None:
    assert parse("sqlite:////var/lib/app/jobs.db").path == Path("/var/lib/app/jobs.db")


def test_percent_signs_are_decoded_and_other_characters_are_the_name() -> None:
    assert parse("sqlite:////srv/my%20jobs%3F#1.db").path == Path("/srv/my jobs?#1.db")


def test_options_are_read() -> None:
    options = parse("sqlite:///x.db?synchronous=FULL&busy_timeout=0.5")
    assert (options.synchronous, options.busy_timeout) == ("full", 0.5)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://", "memory://"),
        ("sqlite:///", "memory://"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://jobs.db", "three slashes: sqlite:///jobs.db"),
        ("sqlite:///x.db?sychronous=full", "did you mean 'synchronous'?"),
        ("sqlite:///x.db?mode=ro", "there are: synchronous, busy_timeout"),
        ("sqlite:///x.db?synchronous=of", "must be normal or full"),
        ("sqlite:///x.db?busy_timeout=soon", "0 to 3600 seconds, got 'soon'"),
        ("sqlite:///x.db?busy_timeout=-1", "0 to 3600 seconds"),
        ("sqlite:///x.db?busy_timeout=nan", "0 to 3600 seconds"),
        ("sqlite:///a%00b.db", "NUL"),
    ],
)
def test_a_wrong_url_is_one_line_that_says_what_to_write(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(url)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
