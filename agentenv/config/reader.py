"""Read the configuration of a stack into settings, or report all mistakes in it."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

from agentenv.config.decode import Plain, Reader
from agentenv.config.mistakes import NAMESPACE, Mistake, Mistakes, Place, mistake_at, nearest, shown
from agentenv.config.settings import Settings, is_production
from agentenv.config.validate import Checked, check

REGION_KEY = "aws:region"
# Of the aws provider; the id of a key is not secret.
_CREDENTIALS = frozenset({("aws", "secretKey"), ("aws", "token")})
_NOT_CLEAR = "remove it from the file and revoke it; use aws:profile, or pulumi config set --secret"
SECTIONS = tuple(
    str(field.alias) for name, field in Settings.model_fields.items() if name not in {"environment", "region"}
)


def read(config: Mapping[str, object], environment: str, secrets: Collection[str] = ()) -> Settings:
    """Return the settings of an environment; raise `Mistakes` with every mistake.

    `config` is the flat configuration of a stack, as the engine passes it to a program or as a stack file has it under
    `config`. `secrets` are the keys with values that the engine decrypted: no message may contain them.
    """
    reader = Reader()
    data = _read_sections(config, frozenset(secrets), reader)
    reader.read(data, "environment", environment)
    checked = check(_with_defaults(data, environment if isinstance(environment, str) else ""))  # pyright: ignore[reportUnnecessaryIsInstance]
    mistakes = reader.mistakes + [
        # A value that could not be read is not reported as missing, too.
        mistake
        for mistake in checked.mistakes
        if all(mistake.place != earlier.place for earlier in reader.mistakes)
    ]
    mistakes += _violations(checked, [mistake.place for mistake in reader.mistakes])
    if mistakes or checked.settings is None:
        raise Mistakes(mistakes)
    return checked.settings


def to_config(settings: Settings) -> dict[str, Any]:
    """Return the settings that are set, in the form that `read` reads."""
    values: dict[str, Any] = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    values.pop("environment")
    return {REGION_KEY: values.pop("region"), **{f"{NAMESPACE}:{name}": value for name, value in values.items()}}


def read_known(config: Mapping[str, object], environment: str) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that this version knows, and the paths of the keys that it does not.

    For a service that is older than the program which wrote the configuration. The values of known keys are read as
    `read` reads them, and raise `Mistakes`.
    """
    try:
        return read(config, environment), ()
    except Mistakes as failure:
        unknown = [mistake for mistake in failure.mistakes if mistake.unknown_key]
        known = cast("dict[str, Any]", copy.deepcopy(config))
        if not unknown or not all(_removed(known, mistake.unknown_key) for mistake in unknown):
            raise
    return read(known, environment), tuple(mistake.path for mistake in unknown)


def _removed(config: dict[str, Any], place: Place) -> bool:
    """Remove a key from a configuration; return False where the configuration has no such place."""
    section, *rest = place
    node: Any = config
    spelled = (f"{NAMESPACE}:{section}", f"{NAMESPACE}:config:{section}", section)
    tokens = [next((key for key in spelled if key in config), section), *rest]
    for token in tokens[:-1]:
        if not isinstance(node, dict | list):
            return False
        node = cast("Any", node)[token]
    if not isinstance(node, dict) or tokens[-1] not in node:
        return False
    del node[tokens[-1]]
    return True


def _read_sections(config: object, secrets: frozenset[str], reader: Reader) -> dict[str, Plain]:
    data: dict[str, Plain] = {}
    seen: set[str] = set()
    if not isinstance(config, Mapping):
        reader.mistakes.append(mistake_at((), shown(config), "a mapping of configuration keys"))
        return data
    for key, value in cast("Mapping[object, object]", config).items():
        if not isinstance(key, str):
            reader.mistakes.append(mistake_at((), f"the key {shown(key)}", "keys such as agent-environment:network"))
            continue
        # As in the engine: a key without a namespace belongs to the project, and `namespace:config:name` is the older
        # form.
        namespace, _, name = key.rpartition(":") if ":" in key else (NAMESPACE, ":", key)
        namespace = namespace.removesuffix(":config")
        if f"{namespace}:{name}" == REGION_KEY:
            name = "region"
        elif (namespace, name) in _CREDENTIALS and key not in secrets and isinstance(value, str):
            path = f"{namespace}:{name}"
            reader.mistakes.append(Mistake(path, "a credential in clear", "a role, a profile or a secret", _NOT_CLEAR))
            continue
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
    """Return the value, or for a secret the placeholder that a stack file has."""
    return {"secure": ""} if key in secrets else value


def _unknown(namespace: str, name: str) -> list[Mistake]:
    """Return the mistake of an unknown key; an empty list for a key of another namespace."""
    if namespace == NAMESPACE:
        hint = f"write {REGION_KEY}" if name == "region" else nearest(name, SECTIONS)
        mistake = mistake_at((name,), f"the key {shown(name)}", ", ".join(SECTIONS), hint)
        # The place is that of the probable key, so that no constraint is checked against its defaults.
        place: Place = (hint.split("'")[1],) if "'" in hint else (name,)
        return [replace(mistake, place=place, unknown_key=(name,))]
    if namespace == "aws" and difflib.SequenceMatcher(None, name[:80], "region").ratio() > 0.8:
        hint = f"write {REGION_KEY}"
        return [Mistake(f"aws:{shown(name)[1:-1]}", f"the key {shown(name)}", REGION_KEY, hint, ("region",))]
    if difflib.SequenceMatcher(None, namespace[:80], NAMESPACE).ratio() > 0.8:
        path, hint = f"{shown(namespace)[1:-1]}:{shown(name)[1:-1]}", f"write {NAMESPACE}:{shown(name)[1:-1]}"
        return [Mistake(path, f"the namespace {shown(namespace)}", NAMESPACE, hint)]
    return []


def _with_defaults(data: dict[str, Plain], environment: str) -> dict[str, Plain]:
    """Return the data with the defaults that depend on other settings: those of production, and Fargate storage."""
    completed = dict(data)
    production = is_production(environment)
    protect = completed.pop("protect", "auto")
    switch: dict[Plain, bool] = {"auto": production, "true": True, "false": False}
    completed["protect"] = switch.get(protect, protect) if isinstance(protect, str) else protect
    cluster = completed.setdefault("cluster", {})
    if isinstance(cluster, dict):
        completed["cluster"] = {"deletionProtection": production, **cluster}
    network = completed.setdefault("network", {})
    mirrors = network.get("mirrors", {}) if isinstance(network, dict) else None
    if isinstance(network, dict) and isinstance(mirrors, dict):
        bucket = production and mirrors.get("files") is None
        completed["network"] = {**network, "mirrors": {"bucket": bucket, **mirrors}}
    classes = completed.get("sandboxClasses")
    if isinstance(classes, tuple):
        completed["sandboxClasses"] = tuple(_with_class_defaults(sandbox_class) for sandbox_class in classes)
    return completed


def _with_class_defaults(sandbox_class: Plain) -> Plain:
    if not isinstance(sandbox_class, dict) or sandbox_class.get("compute") != "fargate":
        return sandbox_class
    storage = sandbox_class.get("storage", {})
    return {**sandbox_class, "storage": {"kind": "none", **storage}} if isinstance(storage, dict) else sandbox_class


def _violations(checked: Checked, unread: list[Place]) -> list[Mistake]:
    """Return the violated constraints that do not depend on an invalid setting."""
    from agentenv.config.constraints import CLASS_TWICE
    from agentenv.config.constraints import check as check_constraints

    if checked.settings is None:
        return []
    tainted = [place for place in checked.tainted + unread if place]
    found = list(check_constraints(checked.settings))
    # Constraints between classes look for them by their names.
    twice = [checked.place(finding.place) for constraint, finding in found if constraint.id == CLASS_TWICE]
    mistakes: list[Mistake] = []
    for constraint, finding in found:
        places = [checked.place(place) for place in (finding.place, *finding.also)]
        unusable = tainted if constraint.id == CLASS_TWICE else [*tainted, *twice]
        if not any(_overlap(place, other) for place in places for other in unusable):
            mistakes.append(
                mistake_at(
                    places[0],
                    finding.found,
                    constraint.allowed,
                    f"{constraint.reason}; {finding.hint or constraint.fix}",
                )
            )
    return mistakes


def _overlap(place: Place, other: Place) -> bool:
    """Return whether one place is within the other; '*' matches any item of a list."""
    return all(a == b or "*" in (a, b) for a, b in zip(place, other, strict=False))
