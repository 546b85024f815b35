#!/usr/bin/env python3
"""Types the commands of docs/user/tutorial.md in a fresh home and draws what a person sees as docs/user/tutorial/*.svg.

Usage: uv run --with rich==15.0.0 scripts/record-tutorial.py PATH_OF_VMCP [FOLDER_OF_THE_MODEL]
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/user/tutorial"
# Width of the drawn terminal, in columns.
WIDTH = 100
# Name of the picture that a command begins; commands up to the next one are on it too.
CHAPTERS = {"vmcp validate": "validate", "vmcp model": "model", "vmcp backends": "backends", 'vmcp find "what': "find", "vmcp call": "call"}
NOT_TYPED = ("curl ", "export ", "sh ", "npx ", "vmcp --version", "make ", "docker ", "claude ", "vmcp serve")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def commands(page):
    """Yields the commands of the page's console blocks, with continuation lines and here-documents."""
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        yield from re.findall(r"^\$ (.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE)


def typed(command):
    """Returns the part of a command that a person types, without the output that the page shows below it."""
    lines = command.rstrip("\n").split("\n")
    here = re.search(r"<<'(\w+)'", lines[0])
    if here:
        return "\n".join(lines[: lines.index(here[1]) + 1])
    return lines[0].split("  #")[0].rstrip()


def main():
    vmcp = Path(sys.argv[1]).resolve()
    home = Path(tempfile.mkdtemp())
    environment = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{vmcp.parent}:{os.environ['PATH']}",
        "COLUMNS": str(WIDTH),
        "VMCP_LISTEN": f"127.0.0.1:{free_port()}",
        "VMCP_ADMIN_LISTEN": f"127.0.0.1:{free_port()}",
    }
    model = f"--from {Path(sys.argv[2]).resolve()}" if len(sys.argv) > 2 else ""
    folder, server, picture, drawn = home, None, None, {}
    for command in map(typed, commands((ROOT / "docs/user/tutorial.md").read_text())):
        if command == "vmcp serve":
            server = subprocess.Popen([vmcp, "serve"], cwd=folder, env=environment, stderr=subprocess.DEVNULL)
            wait_until_up(environment)
        if command.startswith(NOT_TYPED):
            continue
        ran_command = f"{command} {model}" if command == "vmcp model pull" else command
        script = f"{ran_command}\nstatus=$?; pwd > $HOME/.folder; exit $status"
        ran = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True, capture_output=True)
        if ran.returncode:
            sys.exit(f"$ {command}\n{ran.stdout}{ran.stderr}")
        folder = Path((home / ".folder").read_text().strip())
        picture = next((name for begin, name in CHAPTERS.items() if command.startswith(begin)), picture)
        drawn.setdefault(picture or "configuration", []).append((command, ran.stdout))
    if server:
        server.terminate()
        server.wait()
    PICTURES.mkdir(exist_ok=True)
    for name, steps in drawn.items():
        draw(PICTURES / f"{name}.svg", steps)


def wait_until_up(environment):
    """Waits until both servers are connected and their tools are embedded."""
    status = ""
    for _ in range(240):
        time.sleep(1)
        try:
            with urllib.request.urlopen(f"http://{environment['VMCP_ADMIN_LISTEN']}/admin/status") as answer:
                status = answer.read().decode()
        except OSError:
            continue
        if status.count('"state":"connected"') >= 2 and '"state":"ready"' in status:
            return
    sys.exit(f"the servers are not up: {status}")


def draw(path, steps):
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)
    for command, output in steps:
        console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
        console.print(Text.from_ansi(output.rstrip("\n")))
    svg = console.export_svg(title="vmcp", unique_id=path.stem)
    # Fonts from elsewhere would be fetched by whoever looks at the picture.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    path.write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE))


main()
