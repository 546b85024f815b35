"""Runs one script for vmcp, in a pod of its own. Needs CPython 3.9 or newer and its standard library.

The pod makes no connection. It listens on a port, and takes its script from the first client that knows the token whose
SHA-256 the pod was given. Frames are those of `vmcp_script::protocol`: four bytes of length, most significant first, then
JSON. The pod is the sandbox: the script may do here whatever CPython can do.
"""

import ast
import base64
import builtins
import dataclasses
import hashlib
import hmac
import io
import json
import os
import queue
import socket
import struct
import sys
import threading
import time
import traceback

PORT, DIGEST, START_SECONDS, MAX_FRAME = (
    os.environ.get("VMCP_SCRIPT_" + name, "") for name in ("PORT", "DIGEST", "START_SECONDS", "MAX_FRAME")
)
# The script reads no setting of its driver, and no address of the cluster.
for variable in [name for name in os.environ if name.startswith(("VMCP_", "KUBERNETES_"))]:
    del os.environ[variable]

TOKEN_BYTES = 64
# Seconds that a client has to send the token; then the next one is heard.
TOKEN_SECONDS = 5
SCRIPT = "script"
MAX_DEPTH = 100
MAX_USES = 200
# Characters of the text of a failure; a longer one is cut.
MAX_ERROR = 10_000
# Folder whose files the answer shows, in the order of their names; bounds as in `drawn_pictures.rs`.
PICTURES = os.path.join(os.environ.get("TMPDIR", "/tmp"), "pictures")
MAX_PICTURES, MAX_PICTURE, MAX_ALL_PICTURES = 8, 1 << 20, 4 << 20
PNG = b"\x89PNG\r\n\x1a\n"
# Parts of a script that this driver knows.
PARTS = {"code", "context", "namespaces", "limits"}
RAISED = {
    "failed": RuntimeError,
    "unknown": LookupError,
    "arguments": ValueError,
    "unanswered": OSError,
    "asks": PermissionError,
}


def listen():
    """Listens on all addresses of the pod, in both families where it has both."""
    try:
        return socket.create_server(("", int(PORT)), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4)
    except (OSError, ValueError):
        return socket.create_server(("", int(PORT)), backlog=4)


def accept():
    """Returns the connection of the client that knows the token; ends the pod if none comes in time."""
    end = time.monotonic() + float(START_SECONDS)
    listener = listen()
    while True:
        listener.settimeout(max(0.01, end - time.monotonic()))
        try:
            connection, _ = listener.accept()
        except socket.timeout:
            sys.exit("no server came for this pod")
        connection.settimeout(TOKEN_SECONDS)
        try:
            token = receive(connection, TOKEN_BYTES)
        except OSError:
            token = b""
        if hmac.compare_digest(hashlib.sha256(token).hexdigest(), DIGEST):
            connection.settimeout(None)
            listener.close()
            return connection
        connection.close()


def receive(connection, length):
    """Reads so many bytes; raises when the connection ends before."""
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 16))
        if not part:
            raise ConnectionError("the server is gone")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class Server:
    """The server's end of the connection."""

    def __init__(self, connection):
        self.connection = connection
        self.frames = queue.Queue()
        self.turn = threading.RLock()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        """Reads frames; ends the process once the server is gone.

        A script may replace `os._exit`; the deadline of its pod ends it then.
        """
        try:
            while True:
                (length,) = struct.unpack(">I", receive(self.connection, 4))
                self.frames.put(json.loads(receive(self.connection, length)))
        except BaseException:
            os._exit(1)

    def send(self, frame):
        data = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
        if len(data) > int(MAX_FRAME):
            raise ValueError(f"arguments of {len(data)} bytes, the limit is {MAX_FRAME}")
        self.connection.sendall(struct.pack(">I", len(data)) + data)

    def ask(self, frame):
        """Sends a frame and returns the answer to it."""
        with self.turn:
            self.send(frame)
            return self.frames.get()


class Output(io.TextIOBase):
    """Text that the script prints, up to a bound; one more byte ends the script."""

    def __init__(self, most, end):
        self.most, self.end = most, end
        self.parts, self.size = [], 0

    def writable(self):
        return True

    def write(self, text):
        data = text.encode("utf-8", "replace")
        if self.size + len(data) > self.most:
            rest = data[: self.most - self.size].decode("utf-8", "ignore")
            self.parts.append(rest)
            self.end(failure("OutputLimitError", f"the script printed more than {self.most} bytes", limit=self.most))
        self.parts.append(text)
        self.size += len(data)
        return len(text)

    def text(self):
        return "".join(self.parts)


def failure(kind, error, line=None, limit=None):
    return {"Err": {"error_type": kind, "error": error[:MAX_ERROR], "line": line, "limit": limit}}


def to_json(value, depth=0, within=()):
    """Returns a value as JSON has it: tuples and sets become lists, objects of the script dicts, all else text."""
    if depth > MAX_DEPTH:
        raise ValueError(f"a value is nested more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return float(value) if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Pending):
        raise ValueError("the result of a call inside of parallel is there when parallel returns")
    if id(value) in within:
        raise ValueError("a value contains itself")
    within = within + (id(value),)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    elif type(value).__module__ == "__main__" and hasattr(value, "__dict__") and not isinstance(value, (Tool, Tools)):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): to_json(item, depth + 1, within) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(item, depth + 1, within) for item in value]
    return str(value)


def drawn():
    """Returns the pictures that the script has saved, as frames have them; raises for a file that is none."""
    names = sorted(os.listdir(PICTURES)) if os.path.isdir(PICTURES) else []
    if len(names) > MAX_PICTURES:
        raise ValueError(f"PICTURES has {len(names)} files, the limit is {MAX_PICTURES}")
    pictures, size = [], 0
    for name in names:
        path = os.path.join(PICTURES, name)
        with open(path, "rb") as file:
            data = file.read(MAX_PICTURE + 1)
        if not data.startswith(PNG):
            raise ValueError(f"{name} in PICTURES is no PNG; save a PNG, or return the content")
        size += len(data)
        if len(data) > MAX_PICTURE:
            raise ValueError(f"{name} in PICTURES has {os.path.getsize(path)} bytes, the limit is {MAX_PICTURE}")
        if size > MAX_ALL_PICTURES:
            raise ValueError(f"the files in PICTURES have more than {MAX_ALL_PICTURES} bytes")
        pictures.append({"format": "png", "data": base64.b64encode(data).decode("ascii")})
    return pictures


class Pending:
    """The result of a call inside of `parallel`; it is there when `parallel` returns."""

    def __init__(self, place):
        self.place = place


class Host:
    """Functions that the script finds by their names."""

    def __init__(self, server, limits, end):
        self.server, self.limits, self.end = server, limits, end
        self.collected = None
        self.calls = 0

    def make(self, call):
        if self.calls >= self.limits["calls"]:
            most = self.limits["calls"]
            self.end(failure("CallLimitError", f"the script made more than {most} calls", line_of_script(), most))
        self.calls += 1
        if self.collected is not None:
            self.collected.append(call)
            return Pending(len(self.collected) - 1)
        return self.results([call])[0]

    def results(self, calls):
        values = []
        for end in self.server.ask({"calls": calls})["results"]:
            if "raised" in end:
                raise RAISED[end["raised"]["kind"]](end["raised"]["message"])
            values.append(end["value"])
        return values

    def call_tool(self, *given, **keywords):
        usage = 'write call_tool("server", "tool", {"argument": value})'
        names = [it for it in given if isinstance(it, str)]
        others = [it for it in given if not isinstance(it, str)]
        server, tool, arguments = (keywords.pop(name, None) for name in ("server", "tool", "args"))
        if others:
            arguments = others[0]
        if len(names) == 2 and server is None and tool is None:
            server, tool = names
        elif len(names) == 1 and tool is not None and server is None:
            server = names[0]
        elif len(names) == 1 and tool is None:
            tool = names[0]
        elif names:
            raise TypeError(usage)
        if not isinstance(tool, str) or len(others) > 1 or not isinstance(arguments, (dict, type(None))):
            raise TypeError(usage)
        arguments = {**keywords, **(arguments or {})}
        return self.make({"tool": {"server": server, "tool": tool, "arguments": to_json(arguments)}})

    def search_tools(self, query=None, limit=None):
        if not isinstance(query, str):
            raise TypeError('write search_tools("what the tool should do", limit=5)')
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise TypeError("limit must be a whole number")
        limit = limit if limit is not None and limit >= 0 else None
        return self.make({"search": {"query": query, "limit": limit}})

    def describe(self, name=None):
        name = name.name if isinstance(name, Tool) else name
        if not isinstance(name, str):
            raise TypeError('write describe("server.tool")')
        return self.make({"describe": {"name": name}})

    def parallel(self, calls):
        if self.collected is not None:
            raise ValueError("parallel inside of parallel")
        self.collected = []
        try:
            pending = []
            for call in list(calls):
                if isinstance(call, tuple):
                    pending.append(call[0](**(call[1] if len(call) > 1 else {})))
                else:
                    pending.append(call())
            collected = self.collected
        finally:
            self.collected = None
        values = self.results(collected) if collected else []
        return [values[item.place] if isinstance(item, Pending) else item for item in pending]


class Tool:
    """A tool of a server, as a function."""

    def __init__(self, host, server, tool):
        self.host, self.server, self.tool = host, server, tool
        self.name = f"{server}.{tool}"

    def __call__(self, *given, **keywords):
        if len(given) > 1 or (given and not isinstance(given[0], dict)):
            name = self.name
            raise TypeError(
                f"{name} takes its arguments by keyword, such as {name}(argument=value), or as one dict"
            )
        arguments = to_json({**keywords, **(given[0] if given else {})})
        return self.host.make({"tool": {"server": self.server, "tool": self.tool, "arguments": arguments}})

    def __repr__(self):
        return f"<function {self.name}>"


class Tools:
    """The tools of a server, as attributes."""

    def __init__(self, host, server):
        self._host, self._server = host, server

    def __getattr__(self, tool):
        if tool.startswith("__"):
            raise AttributeError(tool)
        return Tool(self._host, self._server, tool)


class Uses(ast.NodeVisitor):
    """Finds the tools that the text names, but in the body of a `try` with `except`, where a script may probe."""

    def __init__(self, servers):
        self.servers, self.named, self.bound = set(servers), [], set()

    def visit_Try(self, node):
        before = len(self.named)
        for part in node.body:
            self.visit(part)
        if node.handlers:
            del self.named[before:]
        for part in [*node.handlers, *node.orelse, *node.finalbody]:
            self.visit(part)

    def visit_Attribute(self, node):
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in self.servers and not node.attr.startswith("__"):
            self.named.append((owner.id, node.attr, node.lineno))
        self.generic_visit(node)

    def visit_Name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)

    def visit_arg(self, node):
        self.bound.add(node.arg)
        self.generic_visit(node)

    def visit_alias(self, node):
        self.bound.add((node.asname or node.name).split(".")[0])

    def generic_visit(self, node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)) and node.name:
            self.bound.add(node.name)
        super().generic_visit(node)

    def found(self, module):
        self.visit(module)
        uses = {}
        for server, tool, line in self.named:
            if server not in self.bound:
                uses.setdefault((server, tool), line)
        return [{"server": server, "tool": tool, "line": line} for (server, tool), line in uses.items()][:MAX_USES]


def line_of_script(trace=None):
    """Returns the innermost line of the script, of a traceback or of the running call."""
    frames = traceback.walk_tb(trace) if trace else reversed(list(traceback.walk_stack(None)))
    lines = [line for frame, line in frames if frame.f_code.co_filename == SCRIPT]
    return lines[-1] if lines else None


def evaluate(start, server, host):
    """Runs the script; returns the value of its last expression, `None` without one."""
    others = sorted(set(start) - PARTS)
    if others:
        return failure("ValueError", f"a script in a Kubernetes Job takes no {others[0]}; run it with `code.engine: worker`")
    namespaces = start["namespaces"]
    module = ast.parse(start["code"], SCRIPT)
    uses = Uses(namespaces).found(module)
    if uses:
        for use, mistake in zip(uses, server.ask({"uses": uses})["checked"]):
            if mistake is not None:
                return failure("LookupError", mistake, use["line"])
    names = dict(vars(builtins))
    for namespace in namespaces:
        names.setdefault(namespace, Tools(host, namespace))
    for function in (host.call_tool, host.search_tools, host.describe, host.parallel):
        names[function.__name__] = function
    names.setdefault("PICTURES", PICTURES)
    scope = {"__name__": "__main__", "__builtins__": names, "CONTEXT": start["context"]}
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    exec(compile(module, SCRIPT, "exec"), scope)
    value = eval(compile(ast.Expression(last.value), SCRIPT, "eval"), scope) if last else None
    try:
        value = to_json(value)
        size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
    except ValueError as error:
        return failure("ValueError", str(error))
    most = start["limits"]["result_bytes"]
    if size > most:
        error = f"the result is longer than {most} bytes; return less, such as a count or a part"
        return failure("ResultLimitError", error, limit=most)
    return {"Ok": value}


def main():
    server = Server(accept())
    server.send({"ready": {"seccomp": True, "landlock": False}})
    start = server.frames.get()["start"]

    def end(result):
        """Sends the end of the script and ends the pod, whatever the script would catch."""
        pictures = []
        try:
            pictures = drawn()
        except BaseException as error:
            if "Ok" in result:
                result = failure("ValueError", str(error))
        with server.turn:
            server.send({"finished": {"end": result, "output": output.text(), "pictures": pictures}})
        os._exit(0)

    output = Output(start["limits"]["output_bytes"], end)
    sys.stdout, sys.stderr, sys.stdin = output, open(os.devnull, "w"), open(os.devnull)
    host = Host(server, start["limits"], end)
    try:
        os.makedirs(PICTURES, exist_ok=True)
        result = evaluate(start, server, host)
    except SyntaxError as error:
        result = failure("SyntaxError", error.msg or str(error), error.lineno)
    except BaseException as error:
        result = failure(type(error).__name__, str(error), line_of_script(error.__traceback__))
    end(result)


main()
