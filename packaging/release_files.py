"""Files of a release that name the checksums of its archives: install.sh, the Homebrew formula, SHA256SUMS."""

import hashlib
from pathlib import Path

from archives import PROGRAM_MODE

TEMPLATES = Path(__file__).resolve().parent / "templates"


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _fill(template, values):
    """Returns the text of a template with each `@NAME@` replaced."""
    text = (TEMPLATES / template).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def write_installer(out, archives, downloads, about):
    """Writes install.sh, which knows the checksum of each archive of this version."""
    sums = "\n".join(f"    {platform}) echo {_sha256(path)} ;;" for platform, path in archives.items())
    values = {"VERSION": about["version"], "DOWNLOADS": downloads, "SUMS": sums.lstrip(), "PLATFORMS": ", ".join(archives)}
    path = out / "install.sh"
    path.write_text(_fill("install.sh", values))
    path.chmod(PROGRAM_MODE)
    return path


def write_formula(out, archives, downloads, about):
    """Writes vmcp.rb, for a tap of Homebrew."""
    values = {"VERSION": about["version"], "HOMEPAGE": about["repository"] or downloads}
    for platform, path in archives.items():
        values[f"URL {platform}"] = f"{downloads}/{path.name}"
        values[f"SHA256 {platform}"] = _sha256(path)
    path = out / "vmcp.rb"
    path.write_text(_fill("formula.rb", values))
    return path


def write_sums(out, files):
    """Writes SHA256SUMS, as `sha256sum --check` reads it."""
    path = out / "SHA256SUMS"
    path.write_text("".join(f"{_sha256(file)}  {file.name}\n" for file in sorted(files)))
    return path
