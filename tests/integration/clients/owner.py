"""A server that keeps state and asks its client: owner.py stdio | http PORT | sse PORT.

On the Python SDK 2, which speaks both eras. The state is that of a connection, so that it shows whose it is.
"""

import asyncio
import sys
import weakref

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

server = MCPServer("owner")
counts = weakref.WeakKeyDictionary()
pending = set()


class Name(BaseModel):
    name: str


@server.tool()
async def count(ctx: Context) -> str:
    """Count the calls of a client."""
    connection = ctx.session._connection
    counts[connection] = counts.get(connection, 0) + 1
    return str(counts[connection])


@server.tool()
async def whoami(ctx: Context) -> str:
    """Return the client's name."""
    return ctx.session.client_params.client_info.name


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the client's user for a name."""
    answer = await ctx.elicit("Who are you?", Name)
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def roots(ctx: Context) -> str:
    """Return the client's roots."""
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def log(ctx: Context) -> str:
    """Log a piece of information and an error."""
    await ctx.log("info", "for your information")
    await ctx.log("error", "an error")
    return "logged"


@server.tool()
async def later(ctx: Context, text: str) -> str:
    """Log and ask half a second after the end of the call."""
    session = ctx.session

    async def work() -> None:
        await asyncio.sleep(0.5)
        await session.send_log_message(level="warning", data=text)
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        await session.elicit_form(text, schema)

    task = asyncio.create_task(work())
    pending.add(task)
    task.add_done_callback(pending.discard)
    return "begun"


@server.tool()
async def wait(seconds: float) -> str:
    """Do nothing for some time."""
    await asyncio.sleep(seconds)
    return "waited"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    transport = {"http": "streamable-http", "sse": "sse"}[sys.argv[1]]
    server.run(transport, host="127.0.0.1", port=int(sys.argv[2]))
