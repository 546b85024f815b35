#!/usr/bin/env python3
"""Makes the packages of one version from built binaries: archives, npm, wheels, install.sh, Homebrew formula, SHA256SUMS.

Compiles nothing and asks no network. The same binaries and version give the same bytes.
"""

import argparse
import re
import sys
from pathlib import Path

from archives import write_archive
from binaries import BinaryError, read_binary
from npm import write_main_package, write_platform_package
from release_files import write_formula, write_installer, write_sums
from wheel import write_wheel

# Folder of the binaries of a platform: its processor and its system, as in the names of archives.
PLATFORMS = ("x86_64-linux", "aarch64-linux", "x86_64-macos", "aarch64-macos")
# A version of Cargo that npm takes as it is and PyPI in its own spelling.
VERSION = re.compile(r"\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?")
ROOT = Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=Path, help=f"folder with PLATFORM/vmcp; platforms: {', '.join(PLATFORMS)}")
    parser.add_argument("out", type=Path, help="folder for the packages; must be empty or absent")
    parser.add_argument("--version", required=True, help="1.2.3, or 1.2.3-rc.1 (alpha, beta, rc)")
    parser.add_argument("--repository", help="URL of the code host's repository, for the metadata of packages")
    parser.add_argument("--downloads", help="URL below which the archives will lie; default: the folder itself, as file://")
    parser.add_argument("--complete", action="store_true", help="fail unless every platform is there")
    parser.add_argument("--level", type=int, default=9, choices=range(1, 10), metavar="1-9", help="compression, 9 by default")
    return parser.parse_args()


def package(options):
    """Writes every package, and returns the paths of the files."""
    if not VERSION.fullmatch(options.version):
        raise BinaryError(f"--version {options.version}: write MAJOR.MINOR.PATCH, or with -alpha.N, -beta.N, -rc.N behind it")
    for option, url in (("--repository", options.repository), ("--downloads", options.downloads)):
        # Both are written into scripts, between quotes.
        if url and not re.fullmatch(r"(https|http|file)://[A-Za-z0-9._~:/\[\]@%+-]+", url):
            raise BinaryError(f"{option} {url}: not an https, http or file URL of plain characters")
    platforms = [name for name in PLATFORMS if (options.binaries / name / "vmcp").is_file()]
    missing = [name for name in PLATFORMS if name not in platforms]
    if not platforms or (options.complete and missing):
        raise BinaryError(f"{options.binaries} lacks {', '.join(f'{name}/vmcp' for name in missing)}")
    binaries = [read_binary(options.binaries / name / "vmcp", name) for name in platforms]
    options.out.mkdir(parents=True, exist_ok=True)
    if any(options.out.iterdir()):
        raise BinaryError(f"{options.out} is not empty; remove it, so that no file of another version is released")

    downloads = (options.downloads or options.out.resolve().as_uri()).rstrip("/")
    documents = [ROOT / name for name in ("LICENSE", "NOTICE", "README.md")]
    about = {"version": options.version, "repository": options.repository, "level": options.level, "license": ROOT / "LICENSE"}
    archives = {binary.platform: write_archive(options.out, binary, documents, about) for binary in binaries}
    files = list(archives.values())
    files += [write_platform_package(options.out, binary, about) for binary in binaries]
    files.append(write_main_package(options.out, binaries, about))
    files += [write_wheel(options.out, binary, about) for binary in binaries]
    files.append(write_installer(options.out, archives, downloads, about))
    # The formula names all platforms.
    if not missing:
        files.append(write_formula(options.out, archives, downloads, about))
    files.append(write_sums(options.out, files))
    return files


if __name__ == "__main__":
    try:
        for path in package(arguments()):
            print(path)
    except (BinaryError, OSError) as error:
        sys.exit(f"package.py: {error}")
