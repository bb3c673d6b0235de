"""A stand-in for the official aws provider, used only where that one is not installed.

It is a table of resource types over boto3. It calls the configured endpoint, never AWS itself. The shapes of the types
(inputs, outputs, which changes replace) are those of the official schema, in `shapes.json`.

The path of a request: `agentenv/rehearsal/providers/common` (the gRPC server) -> `servicer` -> `provider` (plain
values) -> `check` and `diff` at preview, `execute` and `outputs` during an update -> the row of the type ->
`api_calls`. Beside them: `value_kinds` (valid values, and when two are equal), `name_mapping` (inputs to API members),
`coverage` (the inputs a row sends), `tags`, `auto_naming`, `provider_config`, `operation` (the context of a step of a
row), `functions` (data sources).

To add a type:

1. Write a `ResourceType` in the module of its AWS service under `rows/` (list a new module in `rows/__init__.py`),
   with the operations that create, read, update and delete it. Inputs are matched to members by rule (`cidrBlock` is
   `CidrBlock`); list only the others, in `member_names`. A step that needs more than one operation is a function in a
   `CustomStep` or a `CustomCreate`.
2. Outputs are matched by the same rule; `output_sources` has the others. Inputs that the service never returns go into
   `write_only`. Inputs that cannot be simulated go into `unsupported`, with the reason that the user reads.
3. `python -m agentenv.rehearsal.providers.aws.shapes --from FOLDER` adds the shape of the type, from an extract of the
   official schema.
4. Write a `Sample` beside the others under `tests/fast/rehearsal/providers/aws/samples/`: its inputs, an update, a
   replacement, and a change made outside Pulumi.

The tests take the sample through its whole life, and compare the row with the schema and with botocore's models. They
fail for an input that no step sends, a member that does not exist, and an input that cannot be updated in place but
should. Errors of the endpoint are fixed in `agentenv/rehearsal/cloud`, never here: official plugins use the same one.
"""
