"""Samples of IAM."""

from tests.fast.rehearsal.providers.aws.samples.sample import ALLOW, DENY, MORE_TAGS, TAGS, TRUST, Sample

READ_ONLY = "arn:aws:iam::aws:policy/ReadOnlyAccess"
VIEW_ONLY = "arn:aws:iam::aws:policy/job-function/ViewOnlyAccess"
SAMPLES = {
    "aws:iam/role:Role": Sample(
        inputs=lambda _: {
            "assumeRolePolicy": TRUST,
            "description": "for a test",
            "managedPolicyArns": [READ_ONLY],
            "inlinePolicies": [{"name": "own", "policy": ALLOW}],
            "tags": TAGS,
        },
        update={
            "description": "changed",
            "maxSessionDuration": 7200,
            "managedPolicyArns": [VIEW_ONLY],
            "inlinePolicies": [{"name": "own", "policy": DENY}],
            "tags": MORE_TAGS,
        },
        replace={"path": "/service/"},
        behind=lambda g, i, _: g.client("iam").update_role(RoleName=i, Description="by hand", MaxSessionDuration=7200),
        drift=("description",),
    ),
    "aws:iam/policy:Policy": Sample(
        inputs=lambda _: {"policy": ALLOW, "description": "for a test", "tags": TAGS},
        update={"policy": DENY, "tags": MORE_TAGS},
        replace={"description": "another"},
        behind=lambda g, i, _: g.client("iam").create_policy_version(
            PolicyArn=i, PolicyDocument=ALLOW, SetAsDefault=True
        ),
        drift=("policy",),
    ),
    "aws:iam/rolePolicy:RolePolicy": Sample(
        inputs=lambda g: {"role": g.role(), "policy": ALLOW},
        update={"policy": DENY},
        replace={"name": "another"},
        behind=lambda g, _, out: g.client("iam").put_role_policy(
            RoleName=out["role"], PolicyName=out["name"], PolicyDocument=ALLOW
        ),
        drift=("policy",),
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": Sample(
        inputs=lambda g: {"role": g.role(), "policyArn": g.policy()},
        replace={"policyArn": READ_ONLY},
    ),
    "aws:iam/instanceProfile:InstanceProfile": Sample(
        inputs=lambda g: {"role": g.role(), "tags": TAGS},
        update={"tags": MORE_TAGS},
        update_more=lambda g, _: {"role": g.role()},
        replace={"path": "/nodes/"},
        behind=lambda g, i, out: g.client("iam").remove_role_from_instance_profile(
            InstanceProfileName=i, RoleName=out["role"]
        ),
        drift=("role",),
    ),
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": Sample(
        inputs=lambda g: {
            "url": f"https://oidc.example.com/{g.fresh('id')}",
            "clientIdLists": ["sts.amazonaws.com"],
            "thumbprintLists": ["9e99a48a9960b14926bb7f3b02e22da2b0ab7280"],
            "tags": TAGS,
        },
        update={"thumbprintLists": ["990f4193972f2becf12ddeda5237f9c952f20d9e"], "tags": MORE_TAGS},
        replace={"url": "https://oidc.example.com/other"},
        behind=lambda g, i, _: g.client("iam").update_open_id_connect_provider_thumbprint(
            OpenIDConnectProviderArn=i, ThumbprintList=["9e99a48a9960b14926bb7f3b02e22da2b0ab7280"]
        ),
        drift=("thumbprintLists",),
    ),
}
