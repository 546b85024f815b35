"""The wheel of one platform: the binary as the script `vmcp`, and a module that executes it."""

import base64
import hashlib
import re
from pathlib import Path

from archives import PROGRAM_MODE, TEXT_MODE, write_zip

# Name at PyPI, where `vmcp` belongs to another project. It has to be registered before the first release.
NAME = "vmcp-server"
MODULE = "vmcp_server"
TEMPLATES = Path(__file__).resolve().parent / "templates"


def python_version(version):
    """Returns a version in PyPI's spelling: 1.2.3-rc.1 is 1.2.3rc1 (PEP 440)."""
    return re.sub(r"-(alpha|beta|rc)\.", lambda found: {"alpha": "a", "beta": "b", "rc": "rc"}[found[1]], version)


def _metadata(version, about):
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {version}",
        "Summary: vmcp: many MCP servers, one endpoint, found by search. Brings a native binary.",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Requires-Python: >=3.8",
        "Classifier: Environment :: Console",
        "Classifier: Programming Language :: Rust",
    ]
    if about["repository"]:
        lines.append(f"Project-URL: Source, {about['repository']}")
    return "\n".join(lines) + "\n"


def write_wheel(out, binary, about):
    """Writes `vmcp_server-VERSION-py3-none-TAGS.whl`."""
    version, tags = python_version(about["version"]), binary.wheel_tags
    info, data = f"{MODULE}-{version}.dist-info", f"{MODULE}-{version}.data"
    wheel = ["Wheel-Version: 1.0", "Generator: vmcp packaging", "Root-Is-Purelib: false", *(f"Tag: py3-none-{tag}" for tag in tags)]
    # `uvx vmcp-server` and `pipx run vmcp-server` look for a command of the package's name.
    entry_points = f"[console_scripts]\n{NAME} = {MODULE}.__main__:main\n"
    entries = [
        (f"{MODULE}/__init__.py", TEXT_MODE, b'"""Brings the binary of vmcp."""\n'),
        (f"{MODULE}/__main__.py", TEXT_MODE, (TEMPLATES / "wheel_main.py").read_bytes()),
        (f"{data}/scripts/vmcp", PROGRAM_MODE, binary.path.read_bytes()),
        (f"{info}/licenses/LICENSE", TEXT_MODE, about["license"].read_bytes()),
        (f"{info}/METADATA", TEXT_MODE, _metadata(version, about).encode()),
        (f"{info}/WHEEL", TEXT_MODE, ("\n".join(wheel) + "\n").encode()),
        (f"{info}/entry_points.txt", TEXT_MODE, entry_points.encode()),
    ]
    record = [f"{name},sha256={_digest(content)},{len(content)}" for name, _, content in entries]
    record.append(f"{info}/RECORD,,")
    entries.append((f"{info}/RECORD", TEXT_MODE, ("\n".join(record) + "\n").encode()))
    return write_zip(out / f"{MODULE}-{version}-py3-none-{'.'.join(tags)}.whl", entries, about["level"])


def _digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
