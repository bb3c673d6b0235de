"""A stand-in for the official aws provider, used only where that one is not installed.

It is a table of resource types over boto3, and speaks to whatever endpoint it is told, never to AWS itself. The shapes
of the types (inputs, outputs, what replaces) are the official schema's, in `shapes.json`.

How a call goes through: `agentenv/rehearsal/providers/common` (serving) -> `servicer` (the engine's gRPC) -> `provider`
(plain values) -> `check` and `diff` at preview, `work` and `looking` for real -> the type's row -> `calls`. Around
them: `kinds` (what a value has to be, and when two say the same), `spelling` (names by rule), `coverage` (which inputs
a row carries out), `tagging`, `naming`, `settings` (the provider's own configuration), `situation` (what a step of a
row may know), `functions` (data sources).

To add a type:

1. Write a `Row` in the module of its family under `rows/` (a new family goes into `rows/__init__.py` too). Say which
   operations make, find, change and delete it. Inputs find their members by rule (`cidrBlock` is `CidrBlock`); write
   down only the others, in `names`. A step that one operation cannot do is a function in a `Do` or a `Make`.
2. What comes back finds its outputs by the same rule; `shows` has the others. Inputs the service never tells go into
   `unread`, and those that cannot be simulated into `refused`, with the reason its user will read.
3. `python -m agentenv.rehearsal.providers.aws.shapes --from FOLDER` takes the type's shape from the official
   schema's extract.
4. Write a `Sample` beside the others under `tests/fast/rehearsal/providers/aws/samples/`: what it is made of,
   what is changed, what replaces it, and what somebody might do to it by hand.

The tests then take it through a whole life, and compare it with the schema and with botocore's models: an input that no
step uses, a member that does not exist, or something that cannot be changed in place and should, fails there. What the
endpoint gets wrong is put right in `agentenv/rehearsal/cloud`, never here: official plugins meet the same endpoint.
"""
