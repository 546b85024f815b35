"""Lists, finds and calls with the official Python client: client.py URL MODE, read from standard input.

Prints one JSON line: the revision agreed on, the names listed, the first tool found, the text of a call.
"""

import asyncio
import json
import sys

from mcp.client import Client


async def main(url: str, mode: str) -> None:
    async with Client(url, mode=mode) as client:
        tools = (await client.list_tools()).tools
        found = await client.call_tool("optim_find_tool", {"tool_description": "add two numbers"})
        name = found.structured_content["tools"][0]["name"]
        called = await client.call_tool("optim_call_tool", {"tool_name": name, "parameters": {"a": 2, "b": 3}})
        steps = []

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        await client.call_tool("echo_progress", {"steps": 3}, progress_callback=progressed)
        resource = await client.read_resource("fixture://echo/greeting")
        prompt = await client.get_prompt("echo_greet", {"who": "Ada"})
        print(json.dumps({
            "revision": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "found": name,
            "called": called.content[0].text,
            "progress": steps,
            "resource": resource.contents[0].text,
            "prompt": prompt.messages[0].content.text,
        }))


asyncio.run(main(sys.argv[1], sys.argv[2]))
