"""Tests of the reference of the command line."""

from __future__ import annotations

import argparse

from agentenv.cli.generated.cli_reference import cli_page, parser_lines
from agentenv.cli.main import COMMANDS


def lines_of(*arguments: tuple[tuple[str, ...], dict[str, object]]) -> list[str]:
    parser = argparse.ArgumentParser(prog="agentenv sample")
    for names, options in arguments:
        parser.add_argument(*names, **options)  # pyright: ignore[reportArgumentType]
    return list(parser_lines(parser, level=3))


def test_every_command_and_every_verb_has_a_section() -> None:
    page = cli_page()
    for command in COMMANDS:
        assert f"\n## agentenv {command.name}\n" in page
    for verb in ("create", "list", "show", "suspend", "resume", "delete"):
        assert f"\n### agentenv workspace {verb}\n" in page


def test_an_argument_shows_its_value_its_help_and_its_default() -> None:
    _table, flag, choice, needed, words = lines_of(
        (("--keep",), {"action": "store_true", "help": "leave it"}),
        (("--mode", "-m"), {"choices": ("user", "agent"), "default": "user", "help": "for %(choices)s of a<b | c"}),
        (("--key",), {"required": True, "help": "the key"}),
        (("words",), {"nargs": "*", "help": "the command"}),
    )
    assert flag == "| `--keep` | leave it |  |"
    assert choice == "| `--mode`, `-m` `{user,agent}` | for ('user', 'agent') of a&lt;b \\| c | `user` |"
    assert needed == "| `--key` `KEY` | the key | required |"
    assert words == "| `words …` | the command |  |"


def test_arguments_of_all_verbs_are_listed_once_before_them() -> None:
    parser = argparse.ArgumentParser(prog="agentenv sample")
    verbs = parser.add_subparsers()
    for name in ("list", "show"):
        verb = verbs.add_parser(name, description=f"Description of {name}.")
        verb.add_argument("--json", action="store_true", help="print JSON")
        verb.add_argument(f"--{name}-only", action="store_true", help="of one verb")
    page = "\n".join(parser_lines(parser, level=3))
    before, _, after = page.partition("### agentenv sample list")
    assert "Every verb takes:" in before
    assert "`--json`" in before
    assert "`--json`" not in after
    assert "Description of list." in after
    assert "| `--show-only` | of one verb |  |" in after.partition("### agentenv sample show")[2]


def test_a_hidden_argument_is_left_out() -> None:
    assert lines_of((("--old",), {"help": argparse.SUPPRESS})) == []
