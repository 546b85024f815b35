"""An agent of a framework, with vmcp as its tools and a stub as its model.

The stub answers like OpenAI's server, by a fixed plan: find a tool, call what was found, say the result. It keeps the
body of every request; a tool name that model APIs refuse ends the conversation.
"""

import asyncio
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# https://platform.openai.com/docs/api-reference/chat/create: tools[].function.name
LEGAL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


class Plan:
    def __init__(self, task, arguments):
        self.task, self.arguments = task, arguments
        self.bodies, self.steps = [], 0

    def step(self, body):
        """Returns the next call (name, arguments) or the last words, by the results that the body holds."""
        self.bodies.append(body)
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        illegal = [name for name in names if not LEGAL_NAME.match(name)]
        if illegal:
            return f"refused: tools[].function.name {illegal} does not match {LEGAL_NAME.pattern}"
        results = [text(message) for message in body["messages"] if message["role"] == "tool"]
        if not results:
            return one(names, "find_tool"), {"tool_description": self.task}
        if len(results) == 1:
            found = json.loads(results[0])
            # Some frameworks hand on a list of content blocks as JSON.
            while isinstance(found, (list, str)):
                found = found[0] if isinstance(found, list) else json.loads(found)
            if "text" in found and "tools" not in found:
                found = json.loads(found["text"])
            name = found["tools"][0]["name"]
            return one(names, "call_tool"), {"tool_name": name, "parameters": self.arguments}
        return "The tool says: " + results[1]


def one(names, end):
    return next(name for name in names if name.endswith(end))


def text(message):
    content = message["content"]
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content


def serve(plan):
    """Serves a plan at a free port; returns the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            plan.steps += 1
            step = plan.step(body)
            message = {"role": "assistant", "content": step if isinstance(step, str) else None}
            if not isinstance(step, str):
                function = {"name": step[0], "arguments": json.dumps(step[1])}
                message["tool_calls"] = [{"id": f"call-{plan.steps}", "type": "function", "function": function}]
            reason = "stop" if isinstance(step, str) else "tool_calls"
            answer = {
                "id": f"answer-{plan.steps}",
                "object": "chat.completion",
                "created": 1,
                "model": "stub",
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
            encoded = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


async def openai_agents(mcp_url, base_url, task):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStreamableHttp
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("stub", AsyncOpenAI(base_url=base_url, api_key="none"))
    async with MCPServerStreamableHttp({"url": mcp_url}) as server:
        agent = Agent("agent", instructions="Use the tools.", mcp_servers=[server], model=model)
        return (await Runner.run(agent, task)).final_output


async def pydantic_ai(mcp_url, base_url, task):
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("stub", provider=OpenAIProvider(base_url=base_url, api_key="none"))
    agent = Agent(model, toolsets=[MCPToolset(mcp_url)])
    async with agent:
        return (await agent.run(task)).output


async def langchain(mcp_url, base_url, task):
    from langchain.agents import create_agent
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_openai import ChatOpenAI

    client = MultiServerMCPClient({"vmcp": {"transport": "streamable_http", "url": mcp_url}})
    model = ChatOpenAI(model="stub", base_url=base_url, api_key="none")
    agent = create_agent(model, await client.get_tools())
    state = await agent.ainvoke({"messages": [("user", task)]})
    return state["messages"][-1].content


async def main(framework, mcp_url):
    plan = Plan("add two numbers", {"a": 2, "b": 3})
    run = {"openai-agents": openai_agents, "pydantic-ai": pydantic_ai, "langchain": langchain}[framework]
    said = await run(mcp_url, serve(plan), "How much are 2 and 3?")
    names = [tool["function"]["name"] for tool in plan.bodies[0]["tools"]]
    print(json.dumps({"said": said, "tools": names, "requests": plan.steps}))


asyncio.run(main(*sys.argv[1:]))
