"""Calls a slow tool with the official Python client, whose connection the test breaks: resume.py URL."""

import asyncio
import json
import sys

from mcp.client import Client


async def main(url: str) -> None:
    steps = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with Client(url, mode="legacy") as client:
        called = await client.call_tool("echo_progress", {"steps": 8, "delayMs": 300}, progress_callback=progressed)
        print(json.dumps({"answer": called.content[0].text, "progress": steps}), flush=True)


asyncio.run(main(sys.argv[1]))
