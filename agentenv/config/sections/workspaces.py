"""Settings of fixed seats: workspaces that the stack itself declares."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentenv.config.sections.base import Section
from agentenv.config.sections.classes import Mode
from agentenv.config.values import Label, Memory, Money, OwnerId


class Seat(Section):
    """A workspace that is always there, with an access point of its own."""

    name: Annotated[Label, Field(description="The seat's name; its uid, gid and path follow from it.")]
    class_: Annotated[Label, Field(alias="class", description="Its sandbox class.")]
    user: Annotated[
        OwnerId,
        Field(description="Whose it is, and who finds kept data again: an opaque id."),
    ]
    mode: Annotated[Mode, Field(description="What it is for.")] = "user"
    size: Annotated[
        Memory | None, Field(description="The volume's size when it is made; the class's when left out.")
    ] = None
    budget: Annotated[Money | None, Field(description="Dollars a month; the cap a user when left out.")] = None
    destroy_data: Annotated[
        bool,
        Field(
            description="Whether its access point goes with it when it is removed from the stack, so that nobody finds"
            " its data again; to be said in an update before the one that removes it."
        ),
    ] = False
