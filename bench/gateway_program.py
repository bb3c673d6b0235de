"""A program behind a port of a workspace, for the benchmark of the gateway: it answers requests and echoes messages.

It runs inside the sandbox with nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
            headers = {name.lower(): value.strip() for name, _, value in lines}
            if headers.get(b"upgrade", b"").lower() == b"websocket":
                digest = hashlib.sha1(headers[b"sec-websocket-key"] + _MAGIC, usedforsecurity=False).digest()
                accept = b"Sec-WebSocket-Accept: " + base64.b64encode(digest)
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
                writer.write(accept + b"\r\n\r\n")
                await echo(reader, writer)
                return
            writer.write(_ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send each short message back."""
    while True:
        first, second = await reader.readexactly(2)
        mask, payload = await reader.readexactly(4), await reader.readexactly(second & 127)
        if first & 15 == 8:
            return
        text = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        writer.write(bytes([first, len(text)]) + text)
        await writer.drain()


async def main(port: int) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
