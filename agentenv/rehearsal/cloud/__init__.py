"""The simulated AWS endpoint: moto's server application behind a layer that checks requests as AWS does.

`server` runs it on a loopback port; `http` reads HTTP; `dispatch` is the layer. Every request is recognized
(`requests`), checked against the service's model (`parameter_checks`, `tag_checks`), answered by a handler of `rows/`
or by moto (`moto_backend`), and recorded (`journal`). `census` lists what exists now; `eks_registration` holds the
control plane that serves EKS's clusters, once one is registered (`POST /_cloud/eks`). Nothing here knows Pulumi: any
AWS client can call it.

To answer an operation that moto lacks or gets wrong, add a row to the module of its service in `rows/`, and a test.
"""
