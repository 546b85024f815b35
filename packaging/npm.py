"""npm packages: `vmcp` with a launcher, and one package a platform with its binary, of which npm installs the fitting one."""

import json
from pathlib import Path

from archives import PROGRAM_MODE, TEXT_MODE, write_tar

# Organization of npm that owns the packages of platforms; it has to be registered before the first release.
SCOPE = "@vmcp"
TEMPLATES = Path(__file__).resolve().parent / "templates"


def _manifest(name, description, about):
    manifest = {"name": name, "version": about["version"], "description": description, "license": "Apache-2.0"}
    if about["repository"]:
        manifest["homepage"] = about["repository"]
        manifest["repository"] = {"type": "git", "url": f"git+{about['repository']}.git"}
    return manifest


def _write(out, file, manifest, entries, about):
    """Writes a package as `npm pack` does: everything below `package/`."""
    readme = f"# {manifest['name']}\n\n{manifest['description']}\n"
    if about["repository"]:
        readme += f"\nInstall `vmcp`: [how]({about['repository']}/blob/main/docs/user/install.md).\n"
    entries = [
        ("package/package.json", TEXT_MODE, (json.dumps(manifest, indent=2) + "\n").encode()),
        ("package/README.md", TEXT_MODE, readme.encode()),
        ("package/LICENSE", TEXT_MODE, about["license"].read_bytes()),
        *entries,
    ]
    return write_tar(out / f"{file}-{about['version']}.tgz", entries, about["level"])


def write_platform_package(out, binary, about):
    """Writes `@vmcp/PLATFORM`, which npm installs on that platform alone."""
    description = f"The binary of vmcp for {binary.npm_platform}."
    manifest = _manifest(f"{SCOPE}/{binary.npm_platform}", description, about)
    system, processor = binary.npm_platform.split("-")
    manifest |= {"os": [system], "cpu": [processor], "preferUnplugged": True}
    if system == "linux" and not binary.is_static:
        manifest["libc"] = ["glibc"]
    entry = ("package/bin/vmcp", PROGRAM_MODE, binary.path.read_bytes())
    # The name that `npm pack` gives to a package of a scope.
    return _write(out, f"{SCOPE[1:]}-{binary.npm_platform}", manifest, [entry], about)


def write_main_package(out, binaries, about):
    """Writes `vmcp`: the launcher, and the packages of platforms as optional dependencies of the same version."""
    description = "Many MCP servers, one endpoint, found by search. Brings a native binary."
    manifest = _manifest("vmcp", description, about)
    manifest |= {"bin": {"vmcp": "bin/vmcp.js"}, "engines": {"node": ">=18"}}
    manifest["optionalDependencies"] = {f"{SCOPE}/{binary.npm_platform}": about["version"] for binary in binaries}
    launcher = ("package/bin/vmcp.js", PROGRAM_MODE, (TEMPLATES / "launcher.js").read_bytes())
    return _write(out, "vmcp", manifest, [launcher], about)
