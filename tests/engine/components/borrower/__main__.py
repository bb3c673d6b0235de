"""A program that knows the components by their schema only, as one in any other language would."""

import pulumi


class Borrowed(pulumi.ComponentResource):
    """A component that another process makes."""

    def __init__(self, kind: str, name: str, args: dict[str, object], outputs: list[str]) -> None:
        """Ask for one; `outputs` are those that the program will read."""
        waited: dict[str, object] = {**args, **dict.fromkeys(outputs)}
        super().__init__(f"agent-environment:index:{kind}", name, waited, None, remote=True)


config = pulumi.Config()
ownership = {"environment": "dev", "owner": pulumi.Output.from_input("platform"), "costCenter": "cc-1"}
layout = {"cidr": "10.61.0.0/16", "zones": 2, "nat": config.require("nat")}
network = Borrowed("Network", "far", {"ownership": ownership, "layout": layout}, ["vpcId", "privateSubnetIds"])
pulumi.export("vpcId", pulumi.get(network, "vpcId"))
pulumi.export("privateSubnetIds", pulumi.get(network, "privateSubnetIds"))
