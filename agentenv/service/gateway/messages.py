"""The messages of Envoy's external authorization that the gateway uses, by their numbers on the wire.

They are a part of `envoy.service.auth.v3`, under a package name of our own. The package with all of Envoy's messages
brings another copy of Google's, which the descriptor pool refuses beside the one that is installed.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE: Final = "envoy.service.auth.v3.Authorization"
_PACKAGE = "agentenv.authorization"
_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    "string": _FIELD.TYPE_STRING,
    "int32": _FIELD.TYPE_INT32,
    "uint32": _FIELD.TYPE_UINT32,
    "int64": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
}
# message -> field -> (number, type); a type with [] is repeated, and map<string> one of texts to texts
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "SocketAddress": {"address": (2, "string"), "port_value": (3, "uint32")},
    "Address": {"socket_address": (1, "SocketAddress")},
    "Peer": {"address": (1, "Address")},
    "HttpRequest": {
        "id": (1, "string"),
        "method": (2, "string"),
        "headers": (3, "map<string>"),
        "path": (4, "string"),
        "host": (5, "string"),
        "scheme": (6, "string"),
        "protocol": (10, "string"),
    },
    "Request": {"http": (2, "HttpRequest")},
    "AttributeContext": {"source": (1, "Peer"), "request": (4, "Request")},
    "CheckRequest": {"attributes": (1, "AttributeContext")},
    "HeaderValue": {"key": (1, "string"), "value": (2, "string")},
    "HeaderValueOption": {"header": (1, "HeaderValue"), "append_action": (3, "int32")},
    "HttpStatus": {"code": (1, "int32")},
    "DeniedHttpResponse": {
        "status": (1, "HttpStatus"),
        "headers": (2, "HeaderValueOption[]"),
        "body": (3, "string"),
    },
    "OkHttpResponse": {
        "headers": (2, "HeaderValueOption[]"),
        "headers_to_remove": (5, "string[]"),
        "response_headers_to_add": (6, "HeaderValueOption[]"),
    },
    "Status": {"code": (1, "int32"), "message": (2, "string")},
    "CheckResponse": {
        "status": (1, "Status"),
        "denied_response": (2, "DeniedHttpResponse"),
        "ok_response": (3, "OkHttpResponse"),
    },
}
APPEND, OVERWRITE = 0, 2  # of `append_action`


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="agentenv/authorization.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            repeated = kind.endswith("[]") or kind.startswith("map<")
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            element = kind.removesuffix("[]")
            if kind.startswith("map<"):
                element = f"{name}.{field_name.capitalize()}Entry"
                entry = message.nested_type.add(name=f"{field_name.capitalize()}Entry")
                entry.options.map_entry = True
                for position, key in enumerate(("key", "value"), 1):
                    entry.field.add(name=key, number=position, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
            if element in _TYPES:
                field.type = _TYPES[element]
            else:
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{element}"
    return file


_POOL: Any = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


CheckRequest = _class("CheckRequest")
CheckResponse = _class("CheckResponse")
