#!/usr/bin/env python3
"""Prints what six tasks cost a model over the servers of the demo: tokens, and round trips, in four ways.

Usage: scripts/task-costs.py PATH_OF_VMCP PATH_OF_THE_SERVERS

direct      every tool of every server is in the model's context, and the model calls them
find, call  the model has find_tool and call_tool
script      the model has find_tool and execute_code
composite   the model has find_tool, call_tool and the composite tool of the task

A cell has three figures: the tokens in the model's context at the end, the tokens that the model reads in all its turns,
and the calls. Each call is a turn, in which the model reads all of its context again; one more turn writes the answer.
A token is four characters: of the definitions that the model has, of the name and arguments of each call, and of the
texts of each result. The model's part is written here. Each way must end with the task done; the program checks it.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

REVISION = "2026-07-28"
START_SECONDS = 120
WAYS = ("direct", "find, call", "script", "composite")
# The one server of the last task, with twelve tools.
FEW_SERVERS = ("git_",)
ZONES = ("America/New_York", "Europe/Berlin", "Asia/Tokyo")


class Client:
    """A client that counts the characters and the calls of one task."""

    def __init__(self, address):
        self.url = f"http://{address}/mcp"
        self.reset()

    def reset(self):
        """Begins a task."""
        # Characters that each call added to the context.
        self.calls = []

    def request(self, method, params, name=None):
        meta = {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "task-costs", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": method,
        }
        if name:
            headers["Mcp-Name"] = name
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            body = response.read().decode()
        events = [line[5:] for line in body.splitlines() if line.startswith("data:") and line[5:].strip()]
        answer = json.loads(events[-1] if events else body)
        if "error" in answer:
            sys.exit(f"{method} {name or ''}: {answer['error']}")
        return answer["result"]

    def tools(self):
        """Returns the definitions of all tools by name, as texts without spaces."""
        tools, cursor = {}, {}
        while True:
            page = self.request("tools/list", cursor)
            tools.update((tool["name"], json.dumps(tool, separators=(",", ":"))) for tool in page["tools"])
            if not page.get("nextCursor"):
                return tools
            cursor = {"cursor": page["nextCursor"]}

    def call(self, name, **arguments):
        """Calls a tool and returns the texts of its result; a failure ends the program."""
        result = self.request("tools/call", {"name": name, "arguments": arguments}, name)
        text = "\n".join(block.get("text", "") for block in result["content"])
        if result.get("isError"):
            sys.exit(f"{name} {arguments}: {text}")
        self.calls.append(len(name) + len(json.dumps(arguments, separators=(",", ":"))) + len(text))
        return text

    def find(self, text, **options):
        return self.call("optim_find_tool", tool_description=text, limit=3, **options)

    def call_tool(self, name, **arguments):
        return self.call("optim_call_tool", tool_name=name, parameters=arguments)

    def script(self, code):
        text = self.call("optim_execute_code", code=code)
        return json.loads(text)["result"]


class Task:
    """A task: the calls of the model in each way, and the check that it is done.

    `few`: with direct calls, the model has the tools of FEW_SERVERS alone.
    """

    def __init__(self, words, finds, code, composite=None, few=False):
        self.words, self.finds, self.code, self.composite, self.few = words, finds, code, composite, few

    def prepare(self, folder):
        """Makes the state that the task begins with."""

    def calls(self, call, folder):
        """Makes the task's calls by `call(name, **arguments)`."""
        raise NotImplementedError

    def check(self, text, folder):
        """Returns true if the task is done; `text` is the text of all results."""
        raise NotImplementedError


class Times(Task):
    def calls(self, call, folder):
        return "".join(call("time_get_current_time", timezone=zone) for zone in ZONES)

    def check(self, text, folder):
        return len(set(re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d", str(text)))) == 3


class Status(Task):
    def calls(self, call, folder):
        return call("git_git_status", repo_path=f"{folder}/repository")

    def check(self, text, folder):
        return "On branch" in str(text)


class Sum(Task):
    @staticmethod
    def amounts(month):
        return [row % 9 + month for row in range(40)]

    def prepare(self, folder):
        for month in range(1, 7):
            rows = "".join(f"order-{month}-{row},{amount}\n" for row, amount in enumerate(self.amounts(month)))
            (folder / "sales" / f"2026-{month:02}.csv").write_text("order,amount\n" + rows)

    def calls(self, call, folder):
        call("files_search_files", path=f"{folder}/sales", pattern="*.csv")
        paths = [f"{folder}/sales/2026-{month:02}.csv" for month in range(1, 7)]
        return call("files_read_multiple_files", paths=paths)

    def check(self, text, folder):
        total = sum(sum(self.amounts(month)) for month in range(1, 7))
        # The text may be the sum itself, or rows for a model that adds them up.
        amounts = re.findall(r"order-\d-\d+,(\d+)", str(text))
        return str(text) == str(total) or sum(map(int, amounts)) == total


class SaveLog(Task):
    def prepare(self, folder):
        (folder / "log.txt").unlink(missing_ok=True)

    def calls(self, call, folder):
        log = call("git_git_log", repo_path=f"{folder}/repository", max_count=30)
        return call("files_write_file", path=f"{folder}/log.txt", content=log)

    def check(self, text, folder):
        return (folder / "log.txt").read_text().count("Author:") == 30


class Remember(Task):
    def prepare(self, folder):
        (folder / "memory.json").unlink(missing_ok=True)

    def calls(self, call, folder):
        utc = {"source_timezone": "UTC", "time": "15:00"}
        told = [call("time_convert_time", **utc, target_timezone=zone) for zone in ZONES]
        times = [json.loads(re.search(r"\{.*\}", text, re.DOTALL)[0])["target"]["datetime"] for text in told]
        entity = {"name": "meeting", "entityType": "event", "observations": times}
        return call("memory_create_entities", entities=[entity])

    def check(self, text, folder):
        return len(re.findall(r"T\d\d:00", (folder / "memory.json").read_text())) == 3


class Archive(Task):
    def prepare(self, folder):
        shutil.rmtree(folder / "inbox", ignore_errors=True)
        (folder / "inbox" / "archive").mkdir(parents=True)
        for number in range(12):
            (folder / "inbox" / f"letter-{number}.txt").write_text("x" * (3000 if number % 3 == 0 else 100))

    def calls(self, call, folder):
        call("files_list_directory_with_sizes", path=f"{folder}/inbox")
        for number in (0, 3, 6, 9):
            name = f"letter-{number}.txt"
            call("files_move_file", source=f"{folder}/inbox/{name}", destination=f"{folder}/inbox/archive/{name}")

    def check(self, text, folder):
        moved = sorted(path.name for path in (folder / "inbox/archive").iterdir())
        return moved == [f"letter-{number}.txt" for number in (0, 3, 6, 9)]


TEXT = "def text(value):\n    return value if isinstance(value, str) else value.get('content', value)\n"

TASKS = (
    Times(
        "the time in three cities",
        ["what time is it in a time zone"],
        f"[time.get_current_time(timezone=zone) for zone in {list(ZONES)}]",
        "times",
    ),
    Sum(
        "the sum of a column in the six files that a search finds",
        ["find files by a pattern", "read several text files"],
        TEXT + "found = text(files.search_files(path='FOLDER/sales', pattern='*.csv')).split()\n"
        "lines = text(files.read_multiple_files(paths=found)).splitlines()\n"
        "sum(int(line.split(',')[1]) for line in lines if line.startswith('order-'))",
        "sales",
    ),
    SaveLog(
        "a log of 30 commits, saved in a file",
        ["show the log of commits", "write a text file"],
        TEXT + "log = git.git_log(repo_path='FOLDER/repository', max_count=30)\n"
        "files.write_file(path='FOLDER/log.txt', content=text(log))\n'saved'",
        "save_log",
    ),
    Remember(
        "a time in three zones, remembered",
        ["convert a time to another time zone", "remember entities in a knowledge graph"],
        f"zones = {list(ZONES)}\n"
        "told = [time.convert_time(source_timezone='UTC', time='15:00', target_timezone=zone) for zone in zones]\n"
        "times = [one['target']['datetime'] for one in told]\n"
        "memory.create_entities(entities=[{'name': 'meeting', 'entityType': 'event', 'observations': times}])\n'kept'",
        "remember_time",
    ),
    Archive(
        "the large ones of twelve files, moved",
        ["list the files of a folder with their sizes", "move a file"],
        TEXT + "for line in text(files.list_directory_with_sizes(path='FOLDER/inbox')).splitlines():\n"
        "    words = line.split()\n"
        "    if line.startswith('[FILE]') and words[-1] == 'KB':\n"
        "        source, target = 'FOLDER/inbox/' + words[1], 'FOLDER/inbox/archive/' + words[1]\n"
        "        files.move_file(source=source, destination=target)\n'moved'",
    ),
    Status(
        "the status of a repository: one call, twelve tools",
        ["show the status of the working tree"],
        "git.git_status(repo_path='FOLDER/repository')",
        few=True,
    ),
)


def composites(folder):
    """Returns the composite tools of the tasks."""

    def converted(number, zone):
        arguments = {"source_timezone": "UTC", "time": "{{.params.time}}", "target_timezone": zone}
        return {"id": f"zone{number}", "tool": "time.convert_time", "arguments": arguments}

    def current(number, zone):
        return {"id": f"zone{number}", "tool": "time.get_current_time", "arguments": {"timezone": zone}}

    def shown(number):
        return "{{.steps.zone%d.output.datetime}}" % number

    def target(number):
        return "{{.steps.zone%d.output.target.datetime}}" % number

    times = {f"zone{number}": {"type": "string", "value": shown(number)} for number in range(3)}
    months = [f"{folder}/sales/2026-{month:02}.csv" for month in range(1, 7)]
    meeting = {"name": "meeting", "entityType": "event", "observations": [target(number) for number in range(3)]}
    return [
        {
            "name": "times",
            "description": "Returns the times in New York, Berlin and Tokyo.",
            "steps": [current(number, zone) for number, zone in enumerate(ZONES)],
            "output": {"properties": times},
        },
        {
            "name": "sales",
            "description": "Returns the sales of half a year.",
            "steps": [{"id": "read", "tool": "files.read_multiple_files", "arguments": {"paths": months}}],
        },
        {
            "name": "save_log",
            "description": "Saves the log of the last commits in a file.",
            "parameters": {"type": "object", "properties": {"count": {"type": "integer", "default": 30}}},
            "steps": [
                {
                    "id": "log",
                    "tool": "git.git_log",
                    "arguments": {"repo_path": f"{folder}/repository", "max_count": "{{.params.count}}"},
                },
                {
                    "id": "write",
                    "tool": "files.write_file",
                    "arguments": {"path": f"{folder}/log.txt", "content": "{{.steps.log.output.text}}"},
                },
            ],
        },
        {
            "name": "remember_time",
            "description": "Remembers the time of a meeting in New York, Berlin and Tokyo.",
            "parameters": {"type": "object", "properties": {"time": {"type": "string", "default": "15:00"}}},
            "steps": [
                *(converted(number, zone) for number, zone in enumerate(ZONES)),
                {
                    "id": "keep",
                    "tool": "memory.create_entities",
                    "arguments": {"entities": [meeting]},
                },
            ],
        },
    ]


def free_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def make_repository(folder):
    """Makes a repository of 30 commits."""
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for number in range(30):
        message = f"parser: accept form {number} of a date"
        subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", message], cwd=folder, check=True)


def configuration(servers, folder):
    def node(name):
        return f"{servers}/node/node_modules/.bin/mcp-server-{name}"

    def python(name):
        return f"{servers}/python/bin/mcp-server-{name}"

    memory = {"MEMORY_FILE_PATH": f"{folder}/memory.json"}
    return {
        # The six of examples/demo.yaml; the second time server is a program here, too.
        "backends": [
            {"name": "time", "command": [python("time")]},
            {"name": "git", "command": [python("git")]},
            {"name": "files", "command": [node("filesystem"), str(folder)]},
            {"name": "memory", "command": [node("memory")], "env": memory},
            {"name": "everything", "command": [node("everything")]},
            {"name": "clock", "command": [python("time")]},
        ],
        "aggregation": {"conflictResolution": "prefix"},
        "optimizer": {
            "embeddings": {"provider": "none"},
            "exposure": "All",
            "toolNameStyle": "underscore",
            "tools": ["find_tool", "call_tool", "execute_code"],
            "storage": {"dir": str(folder / "storage")},
        },
        "compositeTools": composites(folder),
    }


def run(client, task, way, folder, definitions):
    """Does a task in one way; returns its three figures, or None if the way cannot do it."""
    if way == "direct":
        names = [name for name in definitions if not name.startswith(("optim_", "composite_"))]
        names = [name for name in names if not task.few or name.startswith(FEW_SERVERS)]
    else:
        names = ["optim_find_tool", "optim_execute_code" if way == "script" else "optim_call_tool"]
    if way == "composite":
        if not task.composite:
            return None
        names.append(f"composite_{task.composite}")
    task.prepare(folder)
    client.reset()
    if way == "direct":
        text = task.calls(client.call, folder)
    elif way == "find, call":
        for words in task.finds:
            client.find(words)
        text = task.calls(client.call_tool, folder)
    elif way == "script":
        for words in task.finds:
            client.find(words, detail="signatures")
        text = client.script(task.code.replace("FOLDER", str(folder)))
    else:
        text = client.call(names[-1])
    if not task.check(text, folder):
        sys.exit(f"{task.words}, {way}: the task is not done: {str(text)[:2000]}")
    contexts = [sum(len(definitions[name]) for name in names)]
    for added in client.calls:
        contexts.append(contexts[-1] + added)
    return -(-contexts[-1] // 4), -(-sum(contexts) // 4), len(client.calls)


def wait_for_tools(client, server, log):
    """Returns the definitions once all servers are listed."""
    wanted = ("time_", "git_", "files_", "memory_", "everything_", "clock_", "composite_remember_time")
    for _ in range(START_SECONDS * 2):
        if server.poll() is not None:
            sys.exit(log.read_text())
        try:
            definitions = client.tools()
        except OSError:
            definitions = {}
        if all(any(name.startswith(prefix) for name in definitions) for prefix in wanted):
            return definitions
        time.sleep(0.5)
    sys.exit(f"not all servers were listed in {START_SECONDS} seconds:\n{log.read_text()}")


def table(client, folder, definitions):
    backends = [name for name in definitions if not name.startswith(("optim_", "composite_"))]
    yield f"{len(backends)} tools of six servers; tokens in the context, tokens read in all turns, calls\n"
    yield "| task | " + " | ".join(WAYS) + " |"
    yield "|---" + "|---:" * len(WAYS) + "|"
    for task in TASKS:
        found = [run(client, task, way, folder, definitions) for way in WAYS]
        least = min(read for _, read, _ in filter(None, found))
        cells = ["–" if not one else f"{one[0]:,} · {one[1]:,} · {one[2]}" for one in found]
        cells = [f"**{cell}**" if one and one[1] == least else cell for cell, one in zip(cells, found)]
        yield f"| {task.words} | " + " | ".join(cells) + " |"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    vmcp, servers = (Path(argument).resolve() for argument in sys.argv[1:])
    # Short and of one length, since the path is in arguments and results.
    folder = Path(tempfile.mkdtemp(prefix="costs-", dir="/tmp"))
    (folder / "sales").mkdir()
    make_repository(folder / "repository")
    log = folder / "log"
    (folder / "vmcp.yaml").write_text(json.dumps(configuration(servers, folder)))
    address = free_address()
    command = [vmcp, "--config", folder / "vmcp.yaml", "serve", "--listen", address, "--admin-listen", free_address()]
    environment = {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    with log.open("w") as errors:
        server = subprocess.Popen(command, stderr=errors, stdout=subprocess.DEVNULL, env=environment)
    try:
        client = Client(address)
        definitions = wait_for_tools(client, server, log)
        for line in table(client, folder, definitions):
            print(line, flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
