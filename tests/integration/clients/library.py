"""Lists, finds and calls with a client library: library.py NAME TARGET [-- TARGET]..., read from standard input.

A target is a URL, or the command of a server on standard streams, one word an argument. Prints one JSON line with an
entry for each target: the names listed, the first tool found, the text of a call. Importing a library takes longer.
"""

import asyncio
import json
import os
import sys

# mcp-use reports its use to its makers unless told otherwise.
os.environ["MCP_USE_ANONYMIZED_TELEMETRY"] = "false"


def is_url(target):
    return target[0].startswith("http")


def texts(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def find_and_call(call):
    """Finds a tool and calls it; `call(name, arguments)` returns the text of the result."""
    # The server may have just started: it searches until something is found.
    for _ in range(120):
        if tools := json.loads(await call("optim_find_tool", {"tool_description": "add two numbers"}))["tools"]:
            found = tools[0]["name"]
            break
        await asyncio.sleep(0.25)
    else:
        raise TimeoutError("nothing was found")
    arguments = {"tool_name": found, "parameters": {"a": 2, "b": 3}}
    return found, await call("optim_call_tool", arguments)


async def python_sdk_1(target):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    if is_url(target):
        opened = streamablehttp_client(target[0])
    else:
        opened = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with opened as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        return await used((await session.list_tools()).tools, session)


async def fastmcp(target):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(target[0] if is_url(target) else StdioTransport(target[0], target[1:])) as client:
        return await used(await client.list_tools(), client)


async def openai_agents(target):
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    if is_url(target):
        server = MCPServerStreamableHttp({"url": target[0]})
    else:
        server = MCPServerStdio({"command": target[0], "args": target[1:]})
    async with server:
        return await used(await server.list_tools(), server)


async def mcp_use(target):
    from mcp_use import MCPClient

    server = {"url": target[0]} if is_url(target) else {"command": target[0], "args": target[1:]}
    client = MCPClient({"mcpServers": {"vmcp": server}})
    try:
        session = await client.create_session("vmcp")
        return await used(await session.list_tools(), session)
    finally:
        await client.close_all_sessions()


async def langchain(target):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    if is_url(target):
        server = {"transport": "streamable_http", "url": target[0]}
    else:
        server = {"transport": "stdio", "command": target[0], "args": target[1:]}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"vmcp": server}).get_tools()}

    async def call(name, arguments):
        result = await tools[name].ainvoke(arguments)
        return result if isinstance(result, str) else "".join(block.get("text", "") for block in result)

    return list(tools), *await find_and_call(call)


async def used(tools, client):
    """Returns what a client sees whose `call_tool` is that of the SDK."""

    async def call(name, arguments):
        return texts(await client.call_tool(name, arguments))

    return [tool.name for tool in tools], *await find_and_call(call)


LIBRARIES = {
    "python-sdk-1": python_sdk_1,
    "fastmcp": fastmcp,
    "openai-agents": openai_agents,
    "mcp-use": mcp_use,
    "langchain": langchain,
}


async def main(library, target):
    names, found, called = await LIBRARIES[library](target)
    return {"tools": names, "found": found, "called": called}


def targets(words):
    """Returns the targets between the separators."""
    found = [[]]
    for word in words:
        if word == "--":
            found.append([])
        else:
            found[-1].append(word)
    return found


print(json.dumps([asyncio.run(main(sys.argv[1], target)) for target in targets(sys.argv[2:])]))
