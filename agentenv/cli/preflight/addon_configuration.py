"""Check that add-ons take the configuration and the Pod Identity roles that the stack gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.adoption.cluster import OUR_ADDONS
from agentenv.core.nodes.addon_builds import addon_builds
from agentenv.core.nodes.addon_configuration import CONFIGURATION, POD_IDENTITY_ACCOUNTS


def questions(settings: Settings) -> list[Question]:
    """Return a question for each add-on that is configured, or gets a role from Pod Identity."""
    existing = settings.cluster.existing is not None
    builds = {
        name: build for name, build in addon_builds(settings.cluster).items() if not existing or name in OUR_ADDONS
    }
    return [
        Question(f"configuration of {name}", build, _check_addon(name, build))
        for name, build in builds.items()
        if name in CONFIGURATION or name in POD_IDENTITY_ACCOUNTS
    ]


def _check_addon(name: str, build: str) -> Callable[[Account], Answer]:
    def answer(account: Account) -> Answer:
        try:
            found = account.call("eks", "describe_addon_configuration", addonName=name, addonVersion=build)
        except AwsCallError as error:
            if error.code != "ResourceNotFoundException":
                raise
            return Answer(None, ok=None, why="EKS does not offer this build")
        accounts = {row["serviceAccount"] for row in found.get("podIdentityConfiguration", [])}
        if missing := [each for each in POD_IDENTITY_ACCOUNTS.get(name, ()) if each not in accounts]:
            why = f"this build gives {', '.join(missing)} no role by Pod Identity; set a newer build"
            return Answer("no Pod Identity", ok=False, why=why)
        return _schema_answer(CONFIGURATION.get(name, {}), found["configurationSchema"])

    return answer


def _schema_answer(values: Mapping[str, Any], text: str) -> Answer:
    """Return whether the configuration matches the add-on's own JSON schema."""
    try:
        schema = json.loads(text)
        validator = validator_for(schema)
        validator.check_schema(schema)
    except (ValueError, SchemaError) as error:
        return Answer(None, ok=None, why=f"its schema cannot be read: {str(error).splitlines()[0]}")
    errors = sorted(f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(values))
    if errors:
        return Answer("refused", ok=False, why=f"{'; '.join(errors)}; set another build in cluster.addonVersions")
    return Answer("taken", ok=True, why="")
