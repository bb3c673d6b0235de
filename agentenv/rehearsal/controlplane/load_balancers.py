"""EKS's own controller of load balancers, stood in for: services of type LoadBalancer get one in the simulated account.

It works on a service whose annotation asks for the network kind, as the cloud's controller in EKS's control plane does:
a balancer over the private or the public subnets that carry its tag, an address in the service's status, and a
finalizer, so that the balancer is gone before its service is. Simplified: no listeners and targets, for the certificate
of a listener is one of a real account; and no classic balancers, which would be made where no kind is asked for.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.events import Recorder
from agentenv.rehearsal.controlplane.work_queue import Work

Object = dict[str, Any]

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
SAID = "service.beta.kubernetes.io/aws-load-balancer-"
_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


class Refusal(Exception):
    """Why a service gets no balancer, in the words of an event."""


class Balancers:
    """The controller of one cluster."""

    def __init__(self, client: Client, account: Account) -> None:
        self._client = client
        self._account = account
        self._events = Recorder(client, "service-controller")
        self._work: Work[str] = Work()
        self._there: dict[str, Object] = {}

    def attend(self, ended: threading.Event) -> None:
        """Look at services until told to end."""
        threading.Thread(target=self._listen, args=(ended,), name="services", daemon=True).start()
        while not ended.is_set():
            uid = self._work.take(_PAUSE_SECONDS)
            if uid is None or (service := self._there.get(uid)) is None:
                continue
            try:
                self._look(service)
                self._work.done(uid)
            except Exception as error:  # noqa: BLE001 - one bad object must not leave every later one waiting
                _LOG.warning("the balancer of %s: %s", service["metadata"]["name"], error)
                self._events.tell(service, "SyncLoadBalancerFailed", str(error), warning=True)
                self._work.again(uid)

    def _listen(self, ended: threading.Event) -> None:
        for kind, service in self._client.watch("/api/v1/services", ended):
            uid = service["metadata"]["uid"]
            if kind == "DELETED":
                self._there.pop(uid, None)
            elif wanted(service) or FINALIZER in finalizers(service):
                self._there[uid] = service
                self._work.put(uid)

    def _look(self, service: Object) -> None:
        if "deletionTimestamp" in service["metadata"] or not wanted(service):
            self._take_away(service)
        elif not (service.get("status") or {}).get("loadBalancer", {}).get("ingress"):
            self._give(service)

    def _give(self, service: Object) -> None:
        balancing, path = self._account.service("elbv2"), self._client.path(service)
        if said(service, "type") != "nlb":
            raise Refusal("classic load balancers are not simulated; ask for one of type nlb")
        scheme = "internal" if said(service, "internal", "false") not in {"", "false"} else "internet-facing"
        if FINALIZER not in finalizers(service):
            # Before there is a balancer: whoever dies in between leaves a service that is looked after
            self._client.merge(path, {"metadata": {"finalizers": [*finalizers(service), FINALIZER]}})
        made = balancing.create_load_balancer(
            Name=name_of(service),
            Type="network",
            Scheme=scheme,
            Subnets=self._subnets(scheme),
            Tags=self._tags(service),
        )["LoadBalancers"][0]
        status = {"loadBalancer": {"ingress": [{"hostname": made["DNSName"]}]}}
        self._client.request("PATCH", f"{path}/status", {"status": status}, content="application/merge-patch+json")
        self._events.tell(service, "EnsuredLoadBalancer", "Ensured load balancer")

    def _take_away(self, service: Object) -> None:
        balancing = self._account.service("elbv2")
        try:
            [found] = balancing.describe_load_balancers(Names=[name_of(service)])["LoadBalancers"]
            balancing.delete_load_balancer(LoadBalancerArn=found["LoadBalancerArn"])
        except balancing.exceptions.LoadBalancerNotFoundException:
            pass
        left = [one for one in finalizers(service) if one != FINALIZER]
        try:
            self._client.merge(self._client.path(service), {"metadata": {"finalizers": left}})
        except ApiError as error:
            if error.status != 404:
                raise

    def _subnets(self, scheme: str) -> list[str]:
        """Those that say that they are for balancers of this kind, one a zone."""
        role = "internal-elb" if scheme == "internal" else "elb"
        asked = [{"Name": "tag-key", "Values": [f"kubernetes.io/role/{role}"]}]
        found = self._account.service("ec2").describe_subnets(Filters=asked)["Subnets"]
        by_zone = {one["AvailabilityZone"]: one["SubnetId"] for one in found}
        if not by_zone:
            raise Refusal(
                f"could not find any suitable subnets for creating the ELB: none has kubernetes.io/role/{role}"
            )
        return [by_zone[zone] for zone in sorted(by_zone)]

    def _tags(self, service: Object) -> list[dict[str, str]]:
        about = service["metadata"]
        [cluster] = self._account.clusters()[:1]
        tags = {
            "kubernetes.io/service-name": f"{about['namespace']}/{about['name']}",
            f"kubernetes.io/cluster/{cluster}": "owned",
        }
        for pair in filter(None, said(service, "additional-resource-tags").split(",")):
            key, _, value = pair.partition("=")
            tags[key] = value
        return [{"Key": key, "Value": value} for key, value in tags.items()]


def wanted(service: Object) -> bool:
    """Whether a service is to have a balancer of the cloud's own controller."""
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and not spec.get("loadBalancerClass")


def said(service: Object, key: str, default: str = "") -> str:
    """What one of the annotations says."""
    return (service["metadata"].get("annotations") or {}).get(f"{SAID}{key}", default)


def finalizers(service: Object) -> list[str]:
    """Who has to let go of it first."""
    return service["metadata"].get("finalizers") or []


def name_of(service: Object) -> str:
    """What the balancer of a service is called."""
    return f"a{service['metadata']['uid'].replace('-', '')}"[:32]
