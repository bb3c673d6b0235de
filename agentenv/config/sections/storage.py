"""Settings of the EFS file systems for homes."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from agentenv.config.sections.base import Section
from agentenv.config.values import Duration, KeyArn

Transition = Literal["never", "1d", "7d", "14d", "30d", "60d", "90d", "180d", "270d", "365d"]


class Storage(Section):
    """The EFS file systems for homes."""

    file_systems: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="Number of file systems that homes are distributed over. Each has up to 10,000 access points.",
        ),
    ] = 1
    throughput: Annotated[Literal["elastic", "bursting", "provisioned"], Field(description="Throughput mode.")] = (
        "elastic"
    )
    provisioned_mibps: Annotated[
        int | None,
        Field(ge=1, le=3414, description="Throughput in MiB per second, with `throughput: provisioned` only."),
    ] = None
    infrequent_access_after: Annotated[
        Transition, Field(description="Time without access after which a file moves to Infrequent Access.")
    ] = "30d"
    archive_after: Annotated[
        Transition, Field(description="Time without access after which a file moves to Archive.")
    ] = "never"
    back_on_access: Annotated[bool, Field(description="Whether a file moves back to Standard when it is accessed.")] = (
        True
    )
    backup: Annotated[bool, Field(description="Whether AWS Backup creates daily backups.")] = True
    retain_deleted_for: Annotated[
        Duration, Field(description="How long the data of a deleted workspace is retained.")
    ] = timedelta(days=30)
    kms_key: Annotated[KeyArn | None, Field(description="KMS key for encryption. Without one a key is created.")] = None
    existing: Annotated[
        tuple[Annotated[str, Field(title="the id of a file system", pattern=r"^fs-[0-9a-f]{8,17}$")], ...],
        Field(
            description="Ids of existing file systems to use instead of creating them, as many as `fileSystems`. Their"
            " policy is replaced and is not restored. They are never deleted."
        ),
    ] = ()
    mount_group: Annotated[
        str | None,
        Field(
            title="the id of a security group",
            pattern=r"^sg-[0-9a-f]{8,17}$",
            description="Security group of the mount targets of existing file systems; nodes are added to its ingress"
            " rules. Without one, mount targets are created.",
        ),
    ] = None
