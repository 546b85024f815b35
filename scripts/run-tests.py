#!/usr/bin/env python3
"""Runs one test binary for cargo: hides the lines of tests that pass, and records the time of every test.

Appends `SECONDS BINARY::TEST` to the file that VMCP_TIMES names and the names of failed tests to the file of
VMCP_FAILED; keeps one line of progress in the folder VMCP_PROGRESS. All else that the binary prints, its closing
`test result:` line included, passes through. The time of a test is an unstable option of libtest: RUSTC_BOOTSTRAP
unlocks it for the process of the tests alone, and compiles nothing.
"""

import os
import re
import subprocess
import sys
import threading

ENDED = re.compile(r"^test (?P<test>\S+)(?: - should panic)? \.\.\. (?P<how>ok|FAILED)(?: <(?P<seconds>[0-9.]+)s>)?$")
RUNNING = re.compile(r"^running (\d+) tests?$")
# Streams stay open while a process that a test left behind lives; the binary's own last lines come at once.
LAST_LINES_SECONDS = 5


def append(variable, line):
    path = os.environ.get(variable)
    if path:
        # One write of one short line does not mix with those of other binaries.
        with open(path, "a", encoding="utf-8", buffering=1) as file:
            file.write(line + "\n")


class Report:
    """Filters the lines of one binary."""

    def __init__(self, binary):
        # VMCP_SUITE tells two runs of one binary apart.
        name = re.sub(r"-[0-9a-f]{16}$", "", os.path.basename(binary))
        if name == "it":
            # Several packages have a binary of this name; cargo names the package.
            name = os.environ.get("CARGO_PKG_NAME", name)
        self.binary = os.environ.get("VMCP_SUITE", "") + name
        self.failures = []
        self.total = 0
        self.ended = 0
        self.failed = 0
        folder = os.environ.get("VMCP_PROGRESS")
        self.progress = folder and os.path.isdir(folder) and os.path.join(folder, f"{self.binary}-{os.getpid()}")

    def line(self, text):
        running = RUNNING.match(text)
        if running:
            self.total = int(running[1])
            return
        ended = ENDED.match(text)
        if not ended:
            is_closing = text.startswith("test result:")
            if is_closing and self.total:
                print(f"{self.binary}, {self.total} tests")
            # Reports of failures come in one piece, even if another binary prints as well.
            if self.failures or text == "failures:":
                self.failures.append(text)
            elif text and not (is_closing and not self.total):
                print(text, flush=True)
            return
        self.ended += 1
        append("VMCP_TIMES", f"{ended['seconds'] or 0} {self.binary}::{ended['test']}")
        if ended["how"] == "FAILED":
            self.failed += 1
            append("VMCP_FAILED", f"{self.binary}::{ended['test']}")
            print(f"FAILED: {self.binary}::{ended['test']} ({ended['seconds']} s)", flush=True)
        if self.progress:
            try:
                with open(self.progress, "w", encoding="utf-8") as file:
                    file.write(f"{self.binary}: {self.ended} of {self.total} tests\n")
            except FileNotFoundError:
                self.progress = None

    def end(self, status):
        if self.failures:
            print("\n".join([self.binary, *self.failures]), flush=True)
        if status and not self.failed:
            append("VMCP_FAILED", f"{self.binary} (ended with {status} after {self.ended} of {self.total} tests)")
        if self.progress and os.path.exists(self.progress):
            os.remove(self.progress)


def main():
    binary, arguments = sys.argv[1], [argument for argument in sys.argv[2:] if argument != "--quiet"]
    # Documentation tests come here too; only binaries of `cargo test` lie in `deps`.
    if os.path.basename(os.path.dirname(binary)) != "deps" or "--list" in arguments or "--nocapture" in arguments:
        os.execv(binary, sys.argv[1:])
    arguments += ["-Zunstable-options", "--report-time", "--color=never"]
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1")
    report = Report(binary)
    with subprocess.Popen([binary, *arguments], stdout=subprocess.PIPE, env=environment) as process:

        def read():
            for line in process.stdout:
                report.line(line.decode("utf-8", "replace").rstrip("\n"))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            status = process.wait()
        except KeyboardInterrupt:
            # Ctrl-C reached the binary as well.
            status = process.wait()
        reader.join(LAST_LINES_SECONDS)
        report.end(status)
        sys.stdout.flush()
        os._exit(128 - status if status < 0 else status)


main()
