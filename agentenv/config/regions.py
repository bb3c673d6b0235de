"""AWS regions and availability zones: their names and patterns."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from agentenv.config.mistakes import nearest
from agentenv.config.values import text, wrong

# Used for hints only. A newer region is accepted if its name matches the pattern.
KNOWN = (
    "af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1",
    "ap-south-2", "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5",
    "ap-southeast-6", "ap-southeast-7", "ca-central-1", "ca-west-1", "cn-north-1", "cn-northwest-1", "eu-central-1",
    "eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "eusc-de-east-1",
    "il-central-1", "me-central-1", "me-south-1", "mx-central-1", "sa-east-1", "us-east-1", "us-east-2",
    "us-gov-east-1", "us-gov-west-1", "us-west-1", "us-west-2",
)  # fmt: skip

_AREA = r"([a-z]{2}|us-gov|us-iso[a-f]?|eu-iso[a-f]?|eusc-[a-z]{2})"
_DIRECTION = r"(central|north|south|east|west|northeast|northwest|southeast|southwest)"
REGION = rf"^{_AREA}-{_DIRECTION}-[1-9]$"
# Regions outside of the partition `aws`: China, GovCloud, the isolated ones, and the European Sovereign Cloud.
OTHER_PARTITION = r"^(cn|us-gov|us-iso[a-f]?|eu-iso[a-f]?|eusc-[a-z]{2})-"
ZONE = f"{REGION[:-1]}[a-z]$"
_REGION_WORDS = "an AWS region such as us-east-1"


def _region(value: str) -> str:
    if not re.fullmatch(REGION, value):
        swapped = [known for known in KNOWN if sorted(known) == sorted(value)]  # us-esat-1 is not us-west-1
        raise wrong(_REGION_WORDS, nearest(value, swapped or KNOWN))
    return value


Region = Annotated[str, AfterValidator(_region), WithJsonSchema(text(REGION, _REGION_WORDS, "us-east-1"))]
