"""Service Quotas: the quotas of a fresh account, and increases, which are approved at once."""

from __future__ import annotations

import json
import uuid
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows.eks_common import now

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

# Its records are no resources: nobody can delete an applied quota.
APPLIED = "_service-quotas.applied"


@cache
def default_quotas() -> dict[str, Any]:
    """Return AWS's default quotas by service and code, from `data/quotas.json`."""
    read = json.loads(files("agentenv.rehearsal.cloud").joinpath("data/quotas.json").read_text(encoding="utf-8"))
    return {service: quotas for service, quotas in read.items() if service != "about"}


def _quota(context: RequestContext, service: str, code: str, *, applied: bool) -> dict[str, Any]:
    row = default_quotas().get(service, {}).get(code)
    if row is None:
        raise AwsError("NoSuchResourceException", "The request failed because the specified resource does not exist.")
    value = (
        context.records(APPLIED).get(f"{service}/{code}", {}).get("value", row["value"]) if applied else row["value"]
    )
    return {
        "ServiceCode": service,
        "QuotaArn": f"arn:aws:servicequotas:{context.region}:{context.account}:{service}/{code}",
        "QuotaCode": code,
        "QuotaName": row["name"],
        "Value": float(value),
        "Adjustable": not row.get("fixed", False),
        "GlobalQuota": False,
    }


def _get(context: RequestContext, *, applied: bool) -> dict[str, Any]:
    parameters = context.parameters
    return {"Quota": _quota(context, parameters["ServiceCode"], parameters["QuotaCode"], applied=applied)}


def _list(context: RequestContext, *, applied: bool) -> dict[str, Any]:
    parameters = context.parameters
    service = parameters["ServiceCode"]
    if service not in default_quotas():
        raise AwsError("NoSuchResourceException", f"The request failed because the service {service} does not exist.")
    rows = [_quota(context, service, code, applied=applied) for code in default_quotas()[service]]
    shown, token = page(
        rows, parameters.get("MaxResults"), parameters.get("NextToken"), "InvalidPaginationTokenException"
    )
    return {"Quotas": shown, "NextToken": token}


def request_increase(context: RequestContext) -> dict[str, Any]:
    """Raise a quota; AWS takes minutes to days for it."""
    parameters = context.parameters
    service, code, desired = parameters["ServiceCode"], parameters["QuotaCode"], parameters["DesiredValue"]
    quota = _quota(context, service, code, applied=True)
    if not quota["Adjustable"]:
        raise AwsError("IllegalArgumentException", f"The quota {quota['QuotaName']} is not adjustable.")
    if desired <= quota["Value"]:
        text = f"You must provide a quota value greater than the current quota value ({quota['Value']})."
        raise AwsError("IllegalArgumentException", text)
    context.records(APPLIED)[f"{service}/{code}"] = {"value": desired}
    request = {"Id": uuid.uuid4().hex, "Status": "APPROVED", "Created": now(), "DesiredValue": desired}
    about = {name: quota[name] for name in ("ServiceCode", "QuotaCode", "QuotaName", "QuotaArn", "GlobalQuota")}
    return {"RequestedQuota": {**about, **request}}


ROWS = (
    OperationHandler("service-quotas", "GetServiceQuota", lambda context: _get(context, applied=True)),
    OperationHandler("service-quotas", "GetAWSDefaultServiceQuota", lambda context: _get(context, applied=False)),
    OperationHandler("service-quotas", "ListServiceQuotas", lambda context: _list(context, applied=True)),
    OperationHandler("service-quotas", "ListAWSDefaultServiceQuotas", lambda context: _list(context, applied=False)),
    OperationHandler("service-quotas", "RequestServiceQuotaIncrease", request_increase),
)
