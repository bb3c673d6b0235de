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
    _, flag, choice, needed, words = lines_of(
        (("--keep",), {"action": "store_true", "help": "leave it"}),
        (("--mode", "-m"), {"choices": ("user", "agent"), "default": "user", "help": "for %(choices)s of a<b | c"}),
        (("--key",), {"required": True, "help": "the key"}),
        (("words",), {"nargs": "*", "help": "the command"}),
    )
    assert flag == "| `--keep` | leave it |  |"
    assert choice == "| `--mode`, `-m` `{user,agent}` | for ('user', 'agent') of a&lt;b \\| c | `user` |"
    assert needed == "| `--key` `KEY` | the key | required |"
    assert words == "| `words …` | the command |  |"


def test_a_hidden_argument_is_left_out() -> None:
    assert lines_of((("--old",), {"help": argparse.SUPPRESS})) == []
