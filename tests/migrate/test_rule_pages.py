"""Every example that `taskmq-migrate explain` shows is run."""

import pytest
from click.testing import CliRunner
from tests.migrate.tools import migrate

from taskmq_migrate.cli.main import cli
from taskmq_migrate.kinds import kind_of
from taskmq_migrate.model import Example, Safety, Status
from taskmq_migrate.registry import all_rules
from taskmq_migrate.rule import AnyRule

EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}-{number}")
    for rule in all_rules()
    for number, example in enumerate(rule.page.examples, 1)
]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_is_what_the_rule_does(rule: AnyRule, example: Example) -> None:
    files = {**example.others, example.path: example.before}
    run = migrate(files, rules=(rule,), unsafe=True)
    assert not run.result.failed
    assert run.files[example.path] == (example.after or example.before)
    reported = sum(each.status is Status.REPORTED for each in run.result.findings)
    assert reported == example.reports
    again = migrate({**run.files}, rules=(rule,), unsafe=True)
    assert again.files == run.files


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_a_rule_says_what_it_is(rule: AnyRule) -> None:
    assert type(rule).__module__.rpartition(".")[2].startswith(rule.id.lower())
    assert rule.id.startswith("TMQ")
    assert len(rule.id) == len("TMQ001")
    assert rule.title
    assert not rule.title.endswith(".")
    assert rule.page.why
    assert rule.page.risk
    assert rule.page.examples
    assert rule.words
    assert rule.kinds
    assert rule.doctor == (rule.id >= "TMQ900")
    assert not rule.doctor or rule.safety is Safety.REPORT_ONLY


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_a_page_shows_what_happens_in_every_kind_of_file(rule: AnyRule) -> None:
    shown = [each for each in rule.page.examples if each.after not in ("", each.before)]
    shown += [each for each in rule.page.examples if each.reports]
    assert {kind_of(each.path) for each in shown} == rule.kinds


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_explain_shows_the_examples_that_are_run(rule: AnyRule) -> None:
    page = CliRunner().invoke(cli, ["explain", rule.id], catch_exceptions=False)
    assert page.exit_code == 0
    for example in rule.page.examples:
        for line in (example.before + example.after).splitlines():
            assert line.strip() in page.output


def test_ids_are_unique() -> None:
    ids = [each.id for each in all_rules()]
    assert len(ids) == len(set(ids))
