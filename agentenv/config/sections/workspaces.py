"""Settings of seats: workspaces that the stack declares."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentenv.config.sections.base import Section
from agentenv.config.sections.classes import Mode
from agentenv.config.values import Label, Memory, Money, OwnerId


class Seat(Section):
    """A workspace that the stack declares, with its own access point. It always runs."""

    name: Annotated[Label, Field(description="Name of the seat. Its uid, gid and path derive from it.")]
    class_: Annotated[Label, Field(alias="class", description="Name of its sandbox class.")]
    user: Annotated[
        OwnerId,
        Field(description="Opaque id of the owner. Retained data is found by it."),
    ]
    mode: Annotated[Mode, Field(description="Mode of the workspace.")] = "user"
    size: Annotated[Memory | None, Field(description="Initial size of the volume. Defaults to that of the class.")] = (
        None
    )
    budget: Annotated[Money | None, Field(description="Budget in dollars per month. Defaults to the cap per user.")] = (
        None
    )
    destroy_data: Annotated[
        bool,
        Field(
            description="Whether removing the seat from the stack also deletes its access point, so that its data"
            " cannot be found again. Set it in an update before the one that removes the seat."
        ),
    ] = False
