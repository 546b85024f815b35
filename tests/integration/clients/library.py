"""Lists, finds and calls with one of the client libraries: library.py NAME TARGET..., read from standard input.

The target is a URL, or the command of a server on standard streams. Prints one JSON line: the names listed, the first
tool found, the text of a call.
"""

import asyncio
import json
import sys

FIND = {"tool_description": "add two numbers"}


def is_url(target):
    return target[0].startswith("http")


async def first_found(find):
    """Searches until something is found: the server may have just started."""
    for _ in range(120):
        if tools := json.loads(await find())["tools"]:
            return tools[0]["name"]
        await asyncio.sleep(0.25)
    raise TimeoutError("nothing was found")


def texts(result):
    return "".join(getattr(block, "text", "") for block in result.content)


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
        names = [tool.name for tool in (await session.list_tools()).tools]

        async def find():
            return texts(await session.call_tool("optim_find_tool", FIND))

        found = await first_found(find)
        call = {"tool_name": found, "parameters": {"a": 2, "b": 3}}
        return names, found, texts(await session.call_tool("optim_call_tool", call))


async def fastmcp(target):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(target[0] if is_url(target) else StdioTransport(target[0], target[1:])) as client:
        names = [tool.name for tool in await client.list_tools()]

        async def find():
            return texts(await client.call_tool("optim_find_tool", FIND))

        found = await first_found(find)
        call = {"tool_name": found, "parameters": {"a": 2, "b": 3}}
        return names, found, texts(await client.call_tool("optim_call_tool", call))


async def openai_agents(target):
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    if is_url(target):
        server = MCPServerStreamableHttp({"url": target[0]})
    else:
        server = MCPServerStdio({"command": target[0], "args": target[1:]})
    async with server:
        names = [tool.name for tool in await server.list_tools()]

        async def find():
            return texts(await server.call_tool("optim_find_tool", FIND))

        found = await first_found(find)
        call = {"tool_name": found, "parameters": {"a": 2, "b": 3}}
        return names, found, texts(await server.call_tool("optim_call_tool", call))


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

    found = await first_found(lambda: call("optim_find_tool", FIND))
    return list(tools), found, await call("optim_call_tool", {"tool_name": found, "parameters": {"a": 2, "b": 3}})


async def main(library, target):
    use = {"python-sdk-1": python_sdk_1, "fastmcp": fastmcp, "openai-agents": openai_agents, "langchain": langchain}
    names, found, called = await use[library](target)
    print(json.dumps({"tools": names, "found": found, "called": called}))


asyncio.run(main(sys.argv[1], sys.argv[2:]))
