"""A server of fastmcp over streamable HTTP: server.py PORT."""

import sys

from fastmcp import FastMCP

server = FastMCP("fast")


@server.tool
def reverse(text: str) -> str:
    """Reverse a text."""
    return text[::-1]


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
