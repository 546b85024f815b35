"""A built binary: its platform is checked by its own header, and its requirements become the tags of packages."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path

ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
MACHO_PROCESSORS = {"x86_64": 0x01000007, "aarch64": 0x0100000C}
# Names of processors and systems in npm, by the names in Rust's targets.
NPM_PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
NPM_SYSTEMS = {"linux": "linux", "macos": "darwin"}
# Oldest glibc of a manylinux tag; a static program runs there too.
OLDEST_GLIBC = 17
# Minor version of glibc 2 that first starts programs with packed relocations.
GLIBC_OF_PACKED_RELOCATIONS = 36
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
STRING_TABLE, STRING_TABLE_SIZE = 5, 10
VERSION_MIN_MACOS, BUILD_VERSION = 0x24, 0x32


class BinaryError(Exception):
    """A file or an argument from which no package can be made; the text is for a person."""


@dataclass(frozen=True)
class Binary:
    """A program of one platform, such as `x86_64-linux`."""

    platform: str
    path: Path
    # True for a program without a loader: it runs on glibc, on musl and on neither.
    is_static: bool
    # Minor version of glibc 2 that a dynamic program needs; version of macOS, `(major, minor)`.
    needs: object

    @property
    def processor(self):
        return self.platform.split("-")[0]

    @property
    def system(self):
        return self.platform.split("-")[1]

    @property
    def npm_platform(self):
        return f"{NPM_SYSTEMS[self.system]}-{NPM_PROCESSORS[self.processor]}"

    @property
    def wheel_tags(self):
        """Platform tags of the wheel (PEP 425, 600, 656)."""
        if self.system == "macos":
            major, minor = self.needs
            return [f"macosx_{major}_{minor}_{'arm64' if self.processor == 'aarch64' else self.processor}"]
        if not self.is_static:
            return [f"manylinux_2_{self.needs}_{self.processor}"]
        old_name = [f"manylinux2014_{self.processor}"]
        return [f"manylinux_2_{OLDEST_GLIBC}_{self.processor}", *old_name, f"musllinux_1_1_{self.processor}"]


def read_binary(path, platform):
    """Returns the binary at `path`; raises BinaryError if it is of another platform."""
    content = path.read_bytes()
    processor, system = platform.split("-")
    try:
        if system == "linux" and content[:4] == b"\x7fELF":
            return _read_elf(content, path, platform, processor)
        if system == "macos" and content[:4] == b"\xcf\xfa\xed\xfe":
            return _read_macho(content, path, platform, processor)
    except struct.error as error:
        raise BinaryError(f"{path} is cut off: {error}") from error
    raise BinaryError(f"{path} is not a 64-bit program of {system}")


def _check_processor(path, found, known, processor):
    if found != known[processor]:
        name = next((name for name, number in known.items() if number == found), f"processor {found}")
        raise BinaryError(f"{path} is a program for {name}, in the folder of {processor}")


def _read_elf(content, path, platform, processor):
    if content[4:6] != b"\x02\x01":
        raise BinaryError(f"{path} is not a 64-bit little-endian ELF file")
    (machine,) = struct.unpack_from("<H", content, 18)
    _check_processor(path, machine, ELF_MACHINES, processor)
    (headers,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    segments = [struct.unpack_from("<IIQQQQ", content, headers + at * size) for at in range(count)]
    if not any(kind == INTERPRETER for kind, *_ in segments):
        return Binary(platform, path, True, None)
    strings = _dynamic_strings(content, segments)
    versions = re.findall(rb"\0GLIBC_2\.(\d+)", strings)
    if b"\0GLIBC_ABI_DT_RELR\0" in strings:
        versions.append(GLIBC_OF_PACKED_RELOCATIONS)
    if not versions:
        raise BinaryError(f"{path} has a loader but no version of glibc: build it for musl or glibc")
    return Binary(platform, path, False, max(OLDEST_GLIBC, *map(int, versions)))


def _dynamic_strings(content, segments):
    """Returns the table of strings in which a dynamic program names versions of symbols."""
    entries = {}
    for _, _, offset, _, _, length in (segment for segment in segments if segment[0] == DYNAMIC):
        entries.update(struct.iter_unpack("<QQ", content[offset : offset + length - length % 16]))
    address = entries.get(STRING_TABLE, 0)
    for _, _, offset, start, _, length in (segment for segment in segments if segment[0] == LOAD):
        if start <= address < start + length:
            begin = offset + address - start
            return content[begin : begin + entries.get(STRING_TABLE_SIZE, 0)]
    return b""


def _read_macho(content, path, platform, processor):
    (found,) = struct.unpack_from("<I", content, 4)
    _check_processor(path, found, MACHO_PROCESSORS, processor)
    (commands,) = struct.unpack_from("<I", content, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", content, at)
        if command in (VERSION_MIN_MACOS, BUILD_VERSION):
            (version,) = struct.unpack_from("<I", content, at + (12 if command == BUILD_VERSION else 8))
            major, minor = version >> 16, version >> 8 & 0xFF
            # Since macOS 11, tags of wheels know major versions alone.
            return Binary(platform, path, False, (major, minor if major < 11 else 0))
        if size < 8:
            break
        at += size
    raise BinaryError(f"{path} does not say which macOS it needs")
