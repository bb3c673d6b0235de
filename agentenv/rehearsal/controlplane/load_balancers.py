"""Simulate EKS's load balancer controller: services of type LoadBalancer get one in the simulated account.

It handles services whose annotation requests the type `nlb`, as the cloud's controller in EKS's control plane does.
It creates a load balancer over the tagged private or public subnets, and sets the address in the service's status. A
finalizer makes sure that the load balancer is deleted before its service. Simplified: there are no listeners and
targets, because a listener's certificate belongs to a real account; classic load balancers are refused.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.events import Recorder
from agentenv.rehearsal.controlplane.work_queue import WorkQueue

Object = dict[str, Any]

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
ANNOTATION_PREFIX = "service.beta.kubernetes.io/aws-load-balancer-"
_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


class LoadBalancerRefused(Exception):
    """The reason, in the words of an event, why a service gets no load balancer."""


class LoadBalancerController:
    """The controller of one cluster."""

    def __init__(self, client: Client, account: Account) -> None:
        self._client = client
        self._account = account
        self._events = Recorder(client, "service-controller")
        self._queue: WorkQueue[str] = WorkQueue()
        self._services: dict[str, Object] = {}

    def run(self, ended: threading.Event) -> None:
        """Reconcile services until told to end."""
        threading.Thread(target=self._watch, args=(ended,), name="services", daemon=True).start()
        while not ended.is_set():
            uid = self._queue.get(_PAUSE_SECONDS)
            if uid is None or (service := self._services.get(uid)) is None:
                continue
            try:
                self._reconcile(service)
                self._queue.forget(uid)
            except Exception as error:  # noqa: BLE001 - one bad object must not leave every later one waiting
                _LOG.warning("the balancer of %s: %s", service["metadata"]["name"], error)
                self._events.record(service, "SyncLoadBalancerFailed", str(error), warning=True)
                self._queue.retry(uid)

    def _watch(self, ended: threading.Event) -> None:
        for kind, service in self._client.watch("/api/v1/services", ended):
            uid = service["metadata"]["uid"]
            if kind == "DELETED":
                self._services.pop(uid, None)
            elif needs_load_balancer(service) or FINALIZER in finalizers(service):
                self._services[uid] = service
                self._queue.add(uid)

    def _reconcile(self, service: Object) -> None:
        if "deletionTimestamp" in service["metadata"] or not needs_load_balancer(service):
            self._delete(service)
        elif not (service.get("status") or {}).get("loadBalancer", {}).get("ingress"):
            self._create(service)

    def _create(self, service: Object) -> None:
        balancing, path = self._account.service("elbv2"), self._client.path(service)
        if annotation(service, "type") != "nlb":
            raise LoadBalancerRefused("classic load balancers are not simulated; ask for one of type nlb")
        scheme = "internal" if annotation(service, "internal", "false") not in {"", "false"} else "internet-facing"
        if FINALIZER not in finalizers(service):
            # Added before the load balancer is created, so that none is orphaned by a crash in between
            self._client.merge(path, {"metadata": {"finalizers": [*finalizers(service), FINALIZER]}})
        created = balancing.create_load_balancer(
            Name=name_of(service),
            Type="network",
            Scheme=scheme,
            Subnets=self._subnets(scheme),
            Tags=self._tags(service),
        )["LoadBalancers"][0]
        status = {"loadBalancer": {"ingress": [{"hostname": created["DNSName"]}]}}
        self._client.request("PATCH", f"{path}/status", {"status": status}, content="application/merge-patch+json")
        self._events.record(service, "EnsuredLoadBalancer", "Ensured load balancer")

    def _delete(self, service: Object) -> None:
        balancing = self._account.service("elbv2")
        try:
            [balancer] = balancing.describe_load_balancers(Names=[name_of(service)])["LoadBalancers"]
            balancing.delete_load_balancer(LoadBalancerArn=balancer["LoadBalancerArn"])
        except balancing.exceptions.LoadBalancerNotFoundException:
            pass
        remaining = [name for name in finalizers(service) if name != FINALIZER]
        try:
            self._client.merge(self._client.path(service), {"metadata": {"finalizers": remaining}})
        except ApiError as error:
            if error.status != 404:
                raise

    def _subnets(self, scheme: str) -> list[str]:
        """Return the subnets tagged for load balancers of this scheme, one for each zone."""
        role = "internal-elb" if scheme == "internal" else "elb"
        filters = [{"Name": "tag-key", "Values": [f"kubernetes.io/role/{role}"]}]
        subnets = self._account.service("ec2").describe_subnets(Filters=filters)["Subnets"]
        by_zone = {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in subnets}
        if not by_zone:
            raise LoadBalancerRefused(
                f"could not find any suitable subnets for creating the ELB: none has kubernetes.io/role/{role}"
            )
        return [by_zone[zone] for zone in sorted(by_zone)]

    def _tags(self, service: Object) -> list[dict[str, str]]:
        metadata = service["metadata"]
        [cluster] = self._account.clusters()[:1]
        tags = {
            "kubernetes.io/service-name": f"{metadata['namespace']}/{metadata['name']}",
            f"kubernetes.io/cluster/{cluster}": "owned",
        }
        for pair in filter(None, annotation(service, "additional-resource-tags").split(",")):
            key, _, value = pair.partition("=")
            tags[key] = value
        return [{"Key": key, "Value": value} for key, value in tags.items()]


def needs_load_balancer(service: Object) -> bool:
    """Return whether the cloud's own controller should create a load balancer for a service."""
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and not spec.get("loadBalancerClass")


def annotation(service: Object, key: str, default: str = "") -> str:
    """Return the value of one of the annotations."""
    return (service["metadata"].get("annotations") or {}).get(f"{ANNOTATION_PREFIX}{key}", default)


def finalizers(service: Object) -> list[str]:
    """Return the service's finalizers."""
    return service["metadata"].get("finalizers") or []


def name_of(service: Object) -> str:
    """Return the name of a service's load balancer."""
    return f"a{service['metadata']['uid'].replace('-', '')}"[:32]
