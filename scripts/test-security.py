#!/usr/bin/env python3
"""Runs the tests that two tables of SECURITY.md name, "Findings and their tests" and "What outlives a request"; fails if one
fails or did not run.

  scripts/test-security.py          runs them
  scripts/test-security.py --list   prints each finding with its tests"""

import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
page = (root / "SECURITY.md").read_text()
findings = []
for heading, title in [("Findings and their tests", "finding"), ("What outlives a request", "what")]:
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    # A name may have the path of its module.
    findings += [(row[0], re.findall(r"`(?:[a-z0-9_]+::)*([a-z0-9_]+)`", row[-1])) for row in rows if row[0] != title]
if "--list" in sys.argv:
    for finding, tests in findings:
        print(finding)
        for test in tests:
            print(f"  {test}")
    sys.exit()
names = sorted({name for _, tests in findings for name in tests})
command = ["cargo", "test", "--workspace", "--tests", "--no-fail-fast", "--", *names]
run = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)
outcomes = {}
for path, outcome in re.findall(r"^test (\S+) .*?\.\.\. (\w+)", run.stdout, re.MULTILINE):
    outcomes.setdefault(path.rsplit("::", 1)[-1], set()).add(outcome)
failed = False
for finding, tests in findings:
    states = {test: "+".join(sorted(outcomes.get(test, {"did not run"}))) for test in tests}
    failed |= any(state != "ok" for state in states.values())
    print(("ok      " if all(state == "ok" for state in states.values()) else "FAILED  ") + finding)
    for test, state in states.items():
        if state != "ok":
            print(f"        {test}: {state}")
if failed:
    print(run.stdout)
    sys.exit(1)
print(f"{len(findings)} findings, {len(names)} tests")
