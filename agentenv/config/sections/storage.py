"""Settings of the file systems that homes live on."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from agentenv.config.sections.base import Section
from agentenv.config.values import Duration, KeyArn

Transition = Literal["never", "1d", "7d", "14d", "30d", "60d", "90d", "180d", "270d", "365d"]


class Storage(Section):
    """The file systems that homes live on."""

    file_systems: Annotated[
        int, Field(ge=1, le=100, description="How many file systems share the homes; each holds 10,000 access points.")
    ] = 1
    throughput: Annotated[
        Literal["elastic", "bursting", "provisioned"], Field(description="How throughput is had and billed.")
    ] = "elastic"
    provisioned_mibps: Annotated[
        int | None, Field(ge=1, le=3414, description="MiB a second, with `throughput: provisioned` only.")
    ] = None
    infrequent_access_after: Annotated[
        Transition, Field(description="When a file that nobody reads moves to Infrequent Access.")
    ] = "30d"
    archive_after: Annotated[Transition, Field(description="When it moves on to Archive.")] = "never"
    back_on_access: Annotated[bool, Field(description="Whether a file that is read again moves back.")] = True
    backup: Annotated[bool, Field(description="Whether AWS Backup keeps daily copies.")] = True
    retain_deleted_for: Annotated[Duration, Field(description="How long the data of a deleted workspace is kept.")] = (
        timedelta(days=30)
    )
    kms_key: Annotated[KeyArn | None, Field(description="A key to encrypt with, instead of one of our own.")] = None
    existing: Annotated[
        tuple[Annotated[str, Field(title="the id of a file system", pattern=r"^fs-[0-9a-f]{8,17}$")], ...],
        Field(
            description="File systems to use instead of making them, as many as `fileSystems`. They get our policy,"
            " which stays with them, and are never deleted."
        ),
    ] = ()
    mount_group: Annotated[
        str | None,
        Field(
            title="the id of a security group",
            pattern=r"^sg-[0-9a-f]{8,17}$",
            description="The security group of the mount targets that existing file systems have already, to which"
            " nodes are let in. Left out, they have none, and mount targets are made.",
        ),
    ] = None
