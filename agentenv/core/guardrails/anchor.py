"""The parameter anchor: a policy that keeps the API server watching ConfigMaps while there is no other guardrail.

The API server reads policy parameters from an informer. It stops the informer with the last policy that has parameters
of the kind and, for a built-in kind, never starts it again. Later policies then only find the ConfigMaps of that time,
and refuse every request in the namespace of a newer class until the API server restarts, which nobody can do on EKS.
The anchor matches no request. It is created before all other policies, and retained on a cluster that outlives the
stack.
"""

from __future__ import annotations

from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.guardrails.guardrail import PREFIX, Plain

NAME = f"{PREFIX}-parameters"
_API = "admissionregistration.k8s.io/v1"


def anchor_documents() -> tuple[Plain, Plain]:
    """Return the policy and its binding, without which the API server would not start the informer."""
    no_requests: Plain = {
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
        "matchConstraints": no_requests,
        # Not reworded: clusters have retained policies with this message.
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
