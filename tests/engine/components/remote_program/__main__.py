"""A program that knows the components by their schema only, as one in any other language would."""

import pulumi


class RemoteComponent(pulumi.ComponentResource):
    """A component that another process provides."""

    def __init__(self, kind: str, name: str, args: dict[str, object], outputs: list[str]) -> None:
        """Register the component; `outputs` are the names of the outputs that the program reads."""
        waited: dict[str, object] = {**args, **dict.fromkeys(outputs)}
        super().__init__(f"agent-environment:index:{kind}", name, waited, None, remote=True)


config = pulumi.Config()
settings = {
    "aws:region": "us-east-1",
    "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
    "agent-environment:network": {"cidr": "10.61.0.0/16", "zones": 2, "nat": config.require("nat")},
}
network = RemoteComponent("Network", "far", {"environment": "dev", "settings": settings}, ["vpcId", "privateSubnetIds"])
pulumi.export("vpcId", pulumi.get(network, "vpcId"))
pulumi.export("privateSubnetIds", pulumi.get(network, "privateSubnetIds"))
