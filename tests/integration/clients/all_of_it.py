"""A server with something of everything: all_of_it.py SDK stdio | http PORT | sse PORT.

SDK is `python` (the SDK that is installed: 1 or 2) or `fastmcp`.
"""

import asyncio
import sys
import weakref

from mcp.types import ImageContent, TextContent
from pydantic import BaseModel

sdk, transport, port = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
if sdk == "fastmcp":
    from fastmcp import Context, FastMCP as Server
else:
    try:
        from mcp.server.mcpserver import Context, MCPServer as Server
    except ImportError:
        from mcp.server.fastmcp import Context, FastMCP as Server
try:
    from mcp.types import Completion, SamplingMessage
except ImportError:
    from mcp_types import Completion, SamplingMessage

# Version 1 takes the address here, later ones where it is run.
is_first = Server.__module__.startswith("mcp.server.fastmcp")
server = Server("all", **({"host": "127.0.0.1", "port": port} if is_first else {}))
counts = weakref.WeakKeyDictionary()


class Sum(BaseModel):
    sum: int


class Name(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool()
def fail(reason: str) -> str:
    """Fail for a reason."""
    raise ValueError(reason)


@server.tool()
def blocks() -> list[TextContent | ImageContent]:
    """Return a text and a picture."""
    return [
        TextContent(type="text", text="größer 🦀 \u0000"),
        ImageContent(type="image", data="iVBORw0KGgo=", **{"mimeType": "image/png"}),
    ]


@server.tool()
async def progress(steps: int, ctx: Context) -> str:
    """Report progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
        await asyncio.sleep(0.05)
    return "done"


@server.tool()
async def log(ctx: Context) -> str:
    """Log at two levels."""
    await ctx.info("for your information")
    await ctx.error("an error")
    return "logged"


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the user for a name."""
    answer = await ctx.elicit("Who are you?", Name)
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def sample(ctx: Context) -> str:
    """Ask the client's model."""
    question = SamplingMessage(role="user", content=TextContent(type="text", text="2 + 2?"))
    answer = await ctx.session.create_message([question], max_tokens=10)
    return answer.content.text


@server.tool()
async def roots(ctx: Context) -> str:
    """Return the client's roots."""
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def count(ctx: Context) -> str:
    """Count the calls of a connection."""
    # Version 2 makes a session for each request.
    connection = getattr(ctx.session, "_connection", ctx.session)
    counts[connection] = counts.get(connection, 0) + 1
    return str(counts[connection])


@server.resource("all://text", mime_type="text/plain")
def text() -> str:
    """A text."""
    return "Hello\r\nworld"


@server.resource("all://bytes", mime_type="application/octet-stream")
def some_bytes() -> bytes:
    """Some bytes."""
    return bytes(range(32))


@server.resource("all://of/{name}")
def of(name: str) -> str:
    """A text by name."""
    return f"of {name}"


@server.prompt()
def greet(who: str) -> str:
    """Greet somebody."""
    return f"Greet {who}."


@server.completion() if sdk != "fastmcp" else server.completion
async def complete(ref, argument, context=None):
    return Completion(values=[name for name in ("ada", "adele", "bob") if name.startswith(argument.value)])


if transport == "stdio":
    server.run("stdio", **({"show_banner": False} if sdk == "fastmcp" else {}))
elif sdk == "fastmcp":
    server.run(transport=transport, host="127.0.0.1", port=port, show_banner=False)
else:
    kind = {"http": "streamable-http", "sse": "sse"}[transport]
    server.run(kind, **({} if is_first else {"host": "127.0.0.1", "port": port}))
