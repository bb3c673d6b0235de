"""Reads the configuration of a stack: the one way from a stack file to settings."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import cast

from agentenv.config.decode import Plain, Reader
from agentenv.config.mistakes import NAMESPACE, Mistake, Mistakes, Place, mistake_at, nearest, shown
from agentenv.config.settings import Settings, is_production
from agentenv.config.validate import Checked, check

REGION_KEY = "aws:region"
SECTIONS = tuple(
    str(field.alias) for name, field in Settings.model_fields.items() if name not in {"environment", "region"}
)


def read(config: Mapping[str, object], environment: str, secrets: Collection[str] = ()) -> Settings:
    """The settings of an environment, or `Mistakes` with all of them.

    `config` is a stack's flat configuration, such as the engine hands to a program or a stack file has under `config`;
    `secrets` are the keys whose values the engine decrypted, which must not appear in a message.
    """
    reader = Reader()
    data = _gathered(config, frozenset(secrets), reader)
    reader.read(data, "environment", environment)
    checked = check(_with_defaults(data, environment if isinstance(environment, str) else ""))  # pyright: ignore[reportUnnecessaryIsInstance]
    mistakes = reader.mistakes + [
        # What could not be read was left out, and is not missing as well.
        mistake
        for mistake in checked.mistakes
        if all(mistake.place != earlier.place for earlier in reader.mistakes)
    ]
    mistakes += _refused(checked, [mistake.place for mistake in reader.mistakes])
    if mistakes or checked.settings is None:
        raise Mistakes(mistakes)
    return checked.settings


def _gathered(config: object, secrets: frozenset[str], reader: Reader) -> dict[str, Plain]:
    data: dict[str, Plain] = {}
    seen: set[str] = set()
    if not isinstance(config, Mapping):
        reader.mistakes.append(mistake_at((), shown(config), "a mapping of configuration keys"))
        return data
    for key, value in cast("Mapping[object, object]", config).items():
        if not isinstance(key, str):
            reader.mistakes.append(mistake_at((), f"the key {shown(key)}", "keys such as agent-environment:network"))
            continue
        # As the engine reads keys: without a namespace they are the project's, and `namespace:config:name` is the older
        # way to write one.
        namespace, _, name = key.rpartition(":") if ":" in key else (NAMESPACE, ":", key)
        namespace = namespace.removesuffix(":config")
        if f"{namespace}:{name}" == REGION_KEY:
            name = "region"
        elif namespace != NAMESPACE or name not in SECTIONS:
            reader.mistakes += _unknown(namespace, name)
            continue
        if name in seen:
            reader.mistakes.append(
                mistake_at((name,), f"the key twice, as {shown(key)} too", "each key once", "drop one")
            )
        seen.add(name)
        reader.read(data, name, _hidden(key, value, secrets))
    return data


def _hidden(key: str, value: object, secrets: frozenset[str]) -> object:
    """The value, or what a stack file has in place of a secret one."""
    return {"secure": ""} if key in secrets else value


def _unknown(namespace: str, name: str) -> list[Mistake]:
    """What is wrong with a key that is no section of ours; nothing where it is another namespace's."""
    if namespace == NAMESPACE:
        hint = f"write {REGION_KEY}" if name == "region" else nearest(name, SECTIONS)
        mistake = mistake_at((name,), f"the key {shown(name)}", ", ".join(SECTIONS), hint)
        # The place is the one that was meant: nothing may be judged by its defaults.
        place: Place = (hint.split("'")[1],) if "'" in hint else (name,)
        return [Mistake(mistake.path, mistake.found, mistake.allowed, mistake.hint, place)]
    if namespace == "aws" and difflib.SequenceMatcher(None, name[:80], "region").ratio() > 0.8:
        hint = f"write {REGION_KEY}"
        return [Mistake(f"aws:{shown(name)[1:-1]}", f"the key {shown(name)}", REGION_KEY, hint, ("region",))]
    if difflib.SequenceMatcher(None, namespace[:80], NAMESPACE).ratio() > 0.8:
        path, hint = f"{shown(namespace)[1:-1]}:{shown(name)[1:-1]}", f"write {NAMESPACE}:{shown(name)[1:-1]}"
        return [Mistake(path, f"the namespace {shown(namespace)}", NAMESPACE, hint)]
    return []


def _with_defaults(data: dict[str, Plain], environment: str) -> dict[str, Plain]:
    """The data with those defaults that depend on other settings: what production protects, and Fargate's storage."""
    made = dict(data)
    production = is_production(environment)
    protect = made.pop("protect", "auto")
    switch: dict[Plain, bool] = {"auto": production, "true": True, "false": False}
    made["protect"] = switch.get(protect, protect) if isinstance(protect, str) else protect
    cluster = made.setdefault("cluster", {})
    if isinstance(cluster, dict):
        made["cluster"] = {"deletionProtection": production, **cluster}
    classes = made.get("sandboxClasses")
    if isinstance(classes, tuple):
        made["sandboxClasses"] = tuple(_with_class_defaults(one) for one in classes)
    return made


def _with_class_defaults(one: Plain) -> Plain:
    if not isinstance(one, dict) or one.get("compute") != "fargate":
        return one
    storage = one.get("storage", {})
    return {**one, "storage": {"kind": "none", **storage}} if isinstance(storage, dict) else one


def _refused(checked: Checked, unread: list[Place]) -> list[Mistake]:
    """The refusals that do not rest on anything that was wrong itself."""
    from agentenv.config.constraints import judge

    if checked.settings is None:
        return []
    tainted = [place for place in checked.tainted + unread if place]
    made: list[Mistake] = []
    for row, finding in judge(checked.settings):
        rests_on = [checked.place(place) for place in (finding.place, *finding.also)]
        if not any(_meet(place, other) for place in rests_on for other in tainted):
            made.append(
                mistake_at(rests_on[0], finding.found, row.allowed, f"{row.reason}; {finding.hint or row.way_out}")
            )
    return made


def _meet(one: Place, other: Place) -> bool:
    """Whether one place lies within the other; '*' stands for any item of a list."""
    return all(a == b or "*" in (a, b) for a, b in zip(one, other, strict=False))
