#!/usr/bin/env python3
"""Writes the functions that an idle vmcp and its calls execute, for the linker to put side by side.

    scripts/function_order.py VMCP FIXTURE OUTPUT

The kernel maps 64 KB of the program around each page that is touched. The functions of a start have 5 MB, and lie in
400 such pieces all over the program, 24 MB of resident memory. Release builds are linked with the list
(`--symbol-ordering-file` of lld), which `make function-order` renews. VMCP has its symbols; names that a build does not
have are ignored. Functions of calls come first, then those of the start. Needs valgrind.
"""

import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

# Under valgrind, a start takes some fifty times as long.
START_TIMEOUT = 300
# The start goes on after the first list: a watch of the configuration, clean-ups.
SETTLE_TIME = 8
CALLS = 5
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
CLIENT = {"name": "function-order", "version": "1"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client:
    """A client on one connection, in a session or of the modern era."""

    def __init__(self, port, modern):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_TIMEOUT)
        self.modern, self.session, self.ids = modern, None, 0
        if not modern:
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
            self.request("initialize", hello)
            self.request("notifications/initialized", {}, answered=False)

    def request(self, method, params, answered=True):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if answered:
            self.ids += 1
            message["id"] = self.ids
        if self.modern:
            meta = {"protocolVersion": MODERN, "clientInfo": CLIENT, "clientCapabilities": {}}
            message["params"] = {**params, "_meta": {PREFIX + key: value for key, value in meta.items()}}
            headers.update({"mcp-protocol-version": MODERN, "mcp-method": method})
            if "name" in params:
                headers["mcp-name"] = params["name"]
        elif self.session:
            headers.update({"mcp-protocol-version": LEGACY, "mcp-session-id": self.session})
        self.connection.request("POST", "/mcp", json.dumps(message), headers)
        response = self.connection.getresponse()
        self.session = response.getheader("mcp-session-id") or self.session
        body = response.read().decode()
        if response.status not in (200, 202):
            raise RuntimeError(f"{method}: HTTP {response.status} {body}")
        return body


def when_listed(port):
    """Returns a client of a session once the backend's tools are listed."""
    until = time.monotonic() + START_TIMEOUT
    while time.monotonic() < until:
        try:
            client = Client(port, modern=False)
            if "quick_echo" in client.request("tools/list", {}):
                return client
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.2)
    raise RuntimeError("no list in time")


def use(client):
    """Makes the requests whose functions come first."""
    for _ in range(CALLS):
        client.request("tools/call", {"name": "quick_big", "arguments": {"bytes": 1024}})
        client.request("tools/call", {"name": "quick_echo", "arguments": {"message": "hello"}})
    client.request("tools/list", {})
    client.request("tools/call", {"name": "optim_find_tool", "arguments": {"tool_description": "echo a text"}})


def executed(part):
    """Returns the functions of a dump of callgrind, in its order."""
    found = {}
    for line in part.read_text(errors="replace").splitlines():
        named = re.match(r"c?fn=\(\d+\) (.+?)(?:'\d+)?$", line)
        if named:
            found[named[1]] = None
    return found


def functions_of(program):
    """Returns the names of the program's own functions."""
    symbols = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True)
    entries = (line.split() for line in symbols.stdout.splitlines())
    return {entry[2] for entry in entries if len(entry) == 3 and entry[1] in "tTwW"}


def dump(process, part):
    """Has callgrind write the functions since the last dump to a file, which ends with their totals."""
    subprocess.run(["callgrind_control", "--dump", str(process.pid)], stdout=subprocess.DEVNULL, check=True)
    # The control program returns when the dump begins.
    until = time.monotonic() + START_TIMEOUT
    while not part.exists() or "\ntotals: " not in part.read_text(errors="replace"):
        if time.monotonic() > until:
            raise RuntimeError(f"no dump in {part}")
        time.sleep(0.2)


def profile(vmcp, fixture, home):
    """Returns the functions of calls, then those of the start."""
    with subprocess.Popen(
        [fixture, "--transport", "http", "--name", "quick", "--toolset", "echo"], stdout=subprocess.PIPE, text=True
    ) as backend:
        try:
            url = next(line for line in backend.stdout if "listening on" in line).split("listening on ")[1].strip()
            config = {
                "backends": [{"name": "quick", "url": url}],
                "optimizer": {"embeddings": {"provider": "none"}, "storage": {"dir": str(home / "cache")}},
            }
            (home / "vmcp.yaml").write_text(json.dumps(config))
            port = free_port()
            command = [
                *("valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={home}/out"),
                *(vmcp, "serve", "--config", home / "vmcp.yaml", "--listen", f"127.0.0.1:{port}"),
                *("--admin-listen", f"127.0.0.1:{free_port()}"),
            ]
            folders = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"), str(home))
            with subprocess.Popen(
                command, env={**os.environ, **folders}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                try:
                    session = when_listed(port)
                    time.sleep(SETTLE_TIME)
                    dump(process, home / "out.1")
                    use(session)
                    use(Client(port, modern=True))
                    dump(process, home / "out.2")
                finally:
                    process.kill()
        finally:
            backend.kill()
    return {**executed(home / "out.2"), **executed(home / "out.1")}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    vmcp, fixture, output = map(pathlib.Path, sys.argv[1:])
    own = functions_of(vmcp)
    if not own:
        sys.exit(f"{vmcp} has no symbols: build it with VMCP_KEEP_SYMBOLS=1")
    with tempfile.TemporaryDirectory() as home:
        order = [name for name in profile(vmcp, fixture, pathlib.Path(home)) if name in own]
    output.write_text("".join(name + "\n" for name in order))
    print(f"{len(order)} of {len(own)} functions in {output}")


if __name__ == "__main__":
    main()
