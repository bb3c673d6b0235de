"""What keeps the API server reading the parameters of classes, also while there is no other guardrail.

The server looks parameters up in what one watch has told it, and ends that watch with the last policy that has
parameters of the kind. For a kind of Kubernetes' own it never begins again: policies that are made later find the
ConfigMaps of then and no other, and refuse everything in the namespace of a class that is younger, until the server
itself is started anew. That is nothing anybody can do on EKS. So one policy that looks at no request is made first, and
stays on a cluster that outlives the stack.
"""

from __future__ import annotations

from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.guardrails.guardrail import PREFIX, Plain

NAME = f"{PREFIX}-parameters"
_API = "admissionregistration.k8s.io/v1"


def anchor_documents() -> tuple[Plain, Plain]:
    """The policy and its binding: a policy that is not bound has no watch."""
    nowhere: Plain = {
        "resourceRules": [
            {
                "apiGroups": ["sandbox.users.io"],
                "apiVersions": ["*"],
                "resources": ["nothing"],
                "operations": ["CREATE"],
                "scope": "*",
            }
        ],
        "matchPolicy": "Equivalent",
        "objectSelector": {},
        "namespaceSelector": {},
    }
    policy: Plain = {
        "failurePolicy": "Ignore",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": nowhere,
        "validations": [{"expression": "true", "message": "nothing is looked at here"}],
    }
    binding: Plain = {
        "policyName": NAME,
        "paramRef": {"name": CONSTRAINTS, "parameterNotFoundAction": "Allow"},
        "validationActions": ["Audit"],
    }
    return _object("ValidatingAdmissionPolicy", policy), _object("ValidatingAdmissionPolicyBinding", binding)


def _object(kind: str, spec: Plain) -> Plain:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": NAME}, "spec": spec}
