#!/usr/bin/env python3
"""Writes tests/features/Cargo.toml: the features that dependencies have in builds of the whole workspace.

Cargo compiles a dependency with the features that the selected packages ask for, so that `-p vmcp-wire` alone would
compile most dependencies again. Beside the package `vmcp-features`, which asks for what the others ask for together, it
does not: `cargo test -p vmcp-features -p vmcp-wire`, or `cargo test-one vmcp-wire`. No package depends on it, so that
programs get the features that they need themselves. With --check, fails when the file is out of date; a state of the
manifests that passed before passes at once.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "tests/features/Cargo.toml"
NAME = "vmcp-features"
# Features are resolved for one platform; those of others are taken as they are.
PLATFORM = "x86_64-unknown-linux-gnu"
HEAD = """\
# Written by `make features`; scripts/features.py says why. Nothing depends on this package.
[package]
name = "vmcp-features"
description = "The features that dependencies have in builds of the whole workspace"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[lib]
test = false
doctest = false
"""


def cargo(*arguments):
    done = subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def features(host, *selected):
    """Returns the features of each package of others: for programs, and, of those in `host`, for build scripts and macros."""
    programs = tree("normal,dev,no-proc-macro", *selected)
    # Packages that are compiled for both are listed twice where their features differ.
    rest = tree("normal,dev,build", *selected)
    rest = {package: sets - programs.get(package, set()) or sets for package, sets in rest.items() if package in host}
    return {"dependencies": programs, "build-dependencies": rest}


def tree(edges, *selected):
    found = collections.defaultdict(set)
    arguments = ["--target", PLATFORM, "--edges", edges, "--prefix", "none", "--format", "{p}|{f}"]
    for line in cargo("tree", "--quiet", *arguments, *selected).splitlines():
        # A package is expanded where it is first listed; the mark of each later place follows the features.
        package, bar, names = line.removesuffix(" (*)").partition("|")
        words = package.split()
        # A third word is the path of a package of ours, or says that it is a macro.
        if bar and not any(word.startswith("(/") for word in words):
            found[words[0], words[1].lstrip("v")].add(frozenset(filter(None, names.split(","))))
    return found


def reached(metadata):
    """Returns the packages that are compiled for build scripts and macros."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    is_macro = {id for id, package in packages.items() if any("proc-macro" in target["kind"] for target in package["targets"])}
    seen = set()
    todo = [(id, False) for id in metadata["workspace_members"] if packages[id]["name"] != NAME]
    while todo:
        id, on_host = todo.pop()
        if (id, on_host) in seen:
            continue
        seen.add((id, on_host))
        for dependency in nodes[id]["deps"]:
            for kind in {kind["kind"] for kind in dependency["dep_kinds"]}:
                # Dependencies of tests count for packages of the workspace only.
                if kind != "dev" or packages[id]["source"] is None:
                    todo.append((dependency["pkg"], on_host or kind == "build" or dependency["pkg"] in is_macro))
    return {(packages[id]["name"], packages[id]["version"]) for id, on_host in seen if on_host}


def compatible(version):
    major, minor, patch = version.split("+")[0].split(".")[:3]
    return major if major != "0" else f"0.{minor}" if minor != "0" else f"0.0.{patch}"


def manifest(wanted):
    """Returns the text of the manifest for the wanted packages and features of each section."""
    text = HEAD
    # Versions of one package are told apart by a name of their own, one for both sections.
    many = collections.Counter(name for name, _ in set().union(*wanted.values()))
    for section, packages in wanted.items():
        lines = []
        for (name, version), names in sorted(packages.items()):
            compact = compatible(version)
            key, package = name, ""
            if many[name] > 1:
                key, package = f"{name}-{compact.replace('.', '-')}", f'package = "{name}", '
            listed = ", ".join(f'"{feature}"' for feature in sorted(names))
            lines.append(f'{key} = {{ {package}version = "{compact}", default-features = false, features = [{listed}] }}')
        if lines:
            text += f"\n[{section}]\n" + "\n".join(lines) + "\n"
    return text


def differing():
    """Returns the packages that are compiled differently for one member, beside `vmcp-features`, and for all."""
    metadata = json.loads(cargo("metadata", "--quiet", "--format-version", "1", "--filter-platform", PLATFORM))
    members = [package["name"] for package in metadata["packages"] if package["source"] is None and package["name"] != NAME]
    host = reached(metadata)
    whole = features(host, "--workspace")
    wanted = {section: {} for section in whole}
    # Each is a process on one core.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        of_members = list(pool.map(lambda member: features(host, "-p", member, "-p", NAME), members))
    for of_member in of_members:
        for section, packages in of_member.items():
            for package, sets in packages.items():
                if not sets <= whole[section].get(package, set()):
                    wanted[section][package] = frozenset().union(*whole[section].get(package, sets))
    return {section: packages for section, packages in wanted.items() if packages}


def passed():
    """Returns the file that notes, in the cache, that these manifests passed."""
    read = [ROOT / "scripts/features.py", ROOT / "Cargo.lock"]
    listed = subprocess.run(["git", "ls-files", "-z", "*Cargo.toml"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    read += [ROOT / name for name in sorted(filter(None, listed.split("\0"))) if (ROOT / name).exists()]
    digest = hashlib.sha256()
    for path in read:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return cache / "vmcp/features" / digest.hexdigest()


def main():
    if "--check" in sys.argv:
        note = passed()
        if note.exists():
            return
        names = {f"{name} {version}" for packages in differing().values() for name, version in packages}
        if names:
            sys.exit(f"compiled differently for one package and for all: {', '.join(sorted(names))}; run: make features")
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
        return
    before = MANIFEST.read_text(encoding="utf-8") if MANIFEST.exists() else ""
    # From nothing, so that what is not needed any longer goes.
    MANIFEST.write_text(HEAD, encoding="utf-8")
    wanted = {"dependencies": {}, "build-dependencies": {}}
    while more := differing():
        known = json.dumps([sorted(map(str, packages.items())) for packages in wanted.values()])
        for section, packages in more.items():
            wanted[section].update(packages)
        if known == json.dumps([sorted(map(str, packages.items())) for packages in wanted.values()]):
            sys.exit(f"cannot be unified: {more}")
        MANIFEST.write_text(manifest(wanted), encoding="utf-8")
    print("written" if MANIFEST.read_text(encoding="utf-8") != before else "up to date")


main()
