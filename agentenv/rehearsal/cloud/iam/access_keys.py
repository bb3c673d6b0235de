"""The account of an access key.

Moto's own lookup, at each request, creates the IAM state of all six partitions of each account, with AWS's 1,500
policies in each. This one reads the state that exists.
"""

from __future__ import annotations

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.iam import models


def account_of(access_key: str) -> str:
    """Return the account that an access key was created in; the default account for an unknown key."""
    # As lists: other threads add accounts and partitions meanwhile.
    for account, partitions in list(models.iam_backends.items()):
        if any(access_key in backend.access_keys for backend in list(partitions.values())):
            return account
    return DEFAULT_ACCOUNT_ID


models.get_account_id_from = account_of
