//! Installation from local files: packages of all platforms are inspected, those of this machine installed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{
    Packages, Process, eventually, free_port, npm_manifest, own_platform, package, python, stand_ins,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const NPM_PLATFORMS: [(&str, &str); 4] =
    [("linux", "x64"), ("linux", "arm64"), ("darwin", "x64"), ("darwin", "arm64")];

/// Exit code of a command, and all that it printed.
type Ran = (Option<i32>, String);

/// Runs a command of a shell in a home, where installers know these packages alone.
async fn run(home: &Path, command: &str, environment: &[(&str, &str)]) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(home).env("HOME", home).env_remove("XDG_CACHE_HOME");
    shell.env("PATH", search_path(&[&python("uvx")])).envs(Packages::made().environment(home));
    let output = shell.envs(environment.iter().copied()).output().await.expect("sh");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), text.concat())
}

/// Runs a command that must succeed; returns its output.
async fn must(home: &Path, command: &str) -> String {
    let (code, output) = run(home, command, &[]).await;
    assert_eq!(code, Some(0), "$ {command}\n{output}");
    output
}

/// Returns the search path of this process, with the folders of `programs` first.
fn search_path(programs: &[&Path]) -> std::ffi::OsString {
    let mut path: Vec<PathBuf> =
        programs.iter().filter_map(|program| program.parent().map(Path::to_owned)).collect();
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    std::env::join_paths(path).expect("a path")
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns name and mode of each entry of a gzipped tar file, such as `-rwxr-xr-x`.
async fn entries(archive: &Path) -> BTreeMap<String, String> {
    let listed = Command::new("tar").arg("-tvzf").arg(archive).output().await.expect("tar");
    let text = String::from_utf8(listed.stdout).expect("text");
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let mode = words.next().unwrap_or_default().to_owned();
        (words.next_back().unwrap_or_default().to_owned(), mode)
    };
    text.lines().map(entry).collect()
}

/// Returns the texts of a wheel and the modes of its files, by name.
async fn wheel(path: &Path) -> Value {
    let script = "import json, sys, zipfile\n\
        archive = zipfile.ZipFile(sys.argv[1])\n\
        text = lambda entry: archive.read(entry).decode() if entry.file_size < 99999 else ''\n\
        print(json.dumps({e.filename: {'mode': oct(e.external_attr >> 16), 'text': text(e) if '.data/' not in e.filename else ''} for e in archive.infolist()}))";
    let read = Command::new("python3").args(["-c", script]).arg(path).output().await.expect("python3");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).expect("JSON")
}

#[tokio::test]
async fn npm_packages_of_all_platforms_say_where_they_run() {
    let packages = Packages::made();
    for (system, processor) in NPM_PLATFORMS {
        let archive = packages.file(&format!("vmcp-{system}-{processor}-"), ".tgz");
        let manifest = npm_manifest(&archive).expect("package.json");
        let name = format!("@vmcp/{system}-{processor}");
        assert_eq!((manifest["name"].as_str(), manifest["version"].as_str()), (Some(&*name), Some(VERSION)));
        assert_eq!((&manifest["os"], &manifest["cpu"]), (&json!([system]), &json!([processor])));
        let entries = entries(&archive).await;
        assert_eq!(entries.get("package/bin/vmcp").map(String::as_str), Some("-rwxr-xr-x"), "{entries:?}");
        for text in ["package/LICENSE", "package/README.md", "package/package.json"] {
            assert_eq!(entries.get(text).map(String::as_str), Some("-rw-r--r--"), "{entries:?}");
        }
    }
    let main = npm_manifest(&packages.file(&format!("vmcp-{VERSION}"), ".tgz")).expect("package.json");
    let wanted: BTreeMap<_, _> =
        NPM_PLATFORMS.map(|(system, processor)| (format!("@vmcp/{system}-{processor}"), VERSION)).into();
    assert_eq!(main["optionalDependencies"], json!(wanted));
}

#[tokio::test]
async fn wheels_of_all_platforms_have_the_tags_of_their_binaries() {
    let packages = Packages::made();
    let stand_ins = [
        ("linux", "x86_64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"),
        ("linux", "aarch64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"),
        ("macos", "x86_64", "macosx_10_12_x86_64"),
        ("macos", "aarch64", "macosx_11_0_arm64"),
    ];
    for (system, processor, tags) in stand_ins {
        let is_own = own_platform() == format!("{processor}-{system}");
        // The tags of the binary of the tests depend on the glibc of this machine, or its macOS.
        let begin = if system == "linux" { "manylinux_2_" } else { "macosx_" };
        let named = if system == "macos" && processor == "aarch64" { "arm64" } else { processor };
        let (begin, end) =
            if is_own { (begin, format!("_{named}.whl")) } else { ("", format!("{tags}.whl")) };
        let file = packages.file(&format!("vmcp_server-{VERSION}-py3-none-{begin}"), &end);
        let content = wheel(&file).await;
        let program = format!("vmcp_server-{VERSION}.data/scripts/vmcp");
        assert_eq!(content[&program]["mode"], "0o100755", "{file:?}");
        let info = |name: &str| {
            let text = content[format!("vmcp_server-{VERSION}.dist-info/{name}")]["text"].as_str();
            text.unwrap_or_default().to_owned()
        };
        assert!(info("METADATA").contains(&format!("\nName: vmcp-server\nVersion: {VERSION}\n")));
        // A wheel's name compresses its tags; the file inside has each on a line of its own.
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let named = name.trim_end_matches(".whl").rsplit('-').next().unwrap_or_default();
        let tags: Vec<_> = named.split('.').map(|tag| format!("Tag: py3-none-{tag}")).collect();
        let written = info("WHEEL");
        assert_eq!(written.lines().filter(|line| line.starts_with("Tag:")).collect::<Vec<_>>(), tags);
    }
}

#[tokio::test]
async fn archives_formula_and_sums_name_the_same_files() {
    let packages = Packages::made();
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&packages.folder);
    let status = check.status().await.expect("sha256sum");
    assert!(status.success());
    let sums = std::fs::read_to_string(packages.folder.join("SHA256SUMS")).expect("sums");
    let files = std::fs::read_dir(&packages.folder).expect("the folder").count();
    assert_eq!(sums.lines().count() + 1, files, "every file but SHA256SUMS has its line:\n{sums}");
    let formula = std::fs::read_to_string(packages.folder.join("vmcp.rb")).expect("the formula");
    assert!(!formula.contains('@'), "a place of the template is left:\n{formula}");
    let archives: Vec<_> = sums.lines().filter(|line| line.ends_with(".tar.gz")).collect();
    assert_eq!(archives.len(), 4, "{sums}");
    for line in archives {
        let (sum, name) = line.split_once("  ").expect("a sum and a name");
        let place =
            format!("url \"{}/files/{name}\"\n", packages.host) + &format!("      sha256 \"{sum}\"\n");
        assert!(formula.contains(&place), "{place}\n{formula}");
        let entries = entries(&packages.folder.join(name)).await;
        assert_eq!(entries.get("vmcp").map(String::as_str), Some("-rwxr-xr-x"), "{entries:?}");
        assert!(entries.contains_key("LICENSE") && entries.contains_key("NOTICE"), "{entries:?}");
    }
}

#[tokio::test]
async fn the_same_binaries_make_the_same_bytes() {
    let folder = home();
    let sums = ["one", "two"].map(|out| {
        let binaries = folder.path().join(format!("binaries of {out}"));
        stand_ins(&binaries);
        let out = folder.path().join(out);
        let made = package(&binaries, &out, &["--downloads", "https://example.com/v1"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::read_to_string(out.join("SHA256SUMS")).expect("sums")
    });
    assert_eq!(sums[0], sums[1]);
}

#[tokio::test]
async fn packages_of_wrong_binaries_are_refused() {
    let folder = home();
    let (binaries, out) = (folder.path().join("binaries"), folder.path().join("out"));
    let x86_64 = binaries.join("x86_64-linux/vmcp");
    let refusal = |options: &[&str]| {
        let refused = package(&binaries, &out, options);
        assert_eq!(refused.status.code(), Some(1));
        String::from_utf8_lossy(&refused.stderr).into_owned()
    };
    stand_ins(&binaries);
    std::fs::copy(binaries.join("aarch64-linux/vmcp"), &x86_64).expect("copying");
    let message = refusal(&[]);
    assert!(message.contains("is a program for aarch64, in the folder of x86_64"), "{message}");
    std::fs::write(&x86_64, "#!/bin/sh\n").expect("writing");
    assert!(refusal(&[]).contains("not a 64-bit program of linux"));
    std::fs::write(&x86_64, b"\x7fELF\x02\x01").expect("writing");
    assert!(refusal(&[]).contains("is cut off"));
    std::fs::remove_file(&x86_64).expect("removing");
    assert!(refusal(&["--complete"]).contains("lacks x86_64-linux/vmcp"));
    assert!(refusal(&["--version", "1.0"]).contains("--version 1.0: write MAJOR.MINOR.PATCH"));
    assert!(refusal(&["--downloads", "https://x/'; rm"]).contains("not an https, http or file URL"));
    std::fs::create_dir_all(out.join("old")).expect("a folder");
    assert!(refusal(&[]).contains("is not empty"));
}

#[tokio::test]
async fn a_wheel_is_installed_into_a_fresh_environment() {
    let home = home();
    let home = home.path();
    must(
        home,
        "python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check vmcp-server",
    )
    .await;
    for command in
        ["venv/bin/vmcp", "venv/bin/vmcp-server", "venv/bin/python -m vmcp_server", "uvx vmcp-server"]
    {
        let output = must(home, &format!("{command} --version")).await;
        assert!(output.starts_with(&format!("vmcp {VERSION}\n")), "{command}: {output}");
    }
}

#[tokio::test]
async fn npm_installs_the_binary_of_this_machine_alone() {
    let home = home();
    let home = home.path();
    must(home, "npm install --global --no-audit --no-fund vmcp").await;
    assert_eq!(must(home, ".npm-global/bin/vmcp --version").await, format!("vmcp {VERSION}\n"));
    let installed = must(home, "find .npm-global -path '*/@vmcp/*' -name vmcp -type f").await;
    assert_eq!(installed.lines().count(), 1, "{installed}");
    assert_eq!(must(home, "npx --yes vmcp --version").await, format!("vmcp {VERSION}\n"));
    let (code, _) = run(home, ".npm-global/bin/vmcp no-such-command", &[]).await;
    assert_eq!(code, Some(2), "the exit code is the binary's");
    // Without optional packages only the launcher is there.
    must(home, "npm install --prefix bare --omit=optional --no-audit --no-fund vmcp").await;
    let (code, output) = run(home, "bare/node_modules/.bin/vmcp --version", &[]).await;
    assert!(code == Some(1) && output.contains("is not installed; install vmcp again"), "{output}");
}

#[tokio::test]
async fn a_signal_to_the_launcher_ends_the_server_of_npm() {
    let home = home();
    let home = home.path();
    must(home, "npm install --prefix npm --no-audit --no-fund vmcp").await;
    std::fs::write(home.join("vmcp.yaml"), "backends: []\noptimizer: { embeddings: { provider: none } }\n")
        .expect("writing");
    let [port, admin] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let mut command = Command::new(home.join("npm/node_modules/.bin/vmcp"));
    command.args(["serve", "--listen", &port, "--admin-listen", &admin]).current_dir(home).env("HOME", home);
    let mut launcher = Process::start("the launcher", &mut command);
    let accepts = async || tokio::net::TcpStream::connect(&port).await.ok().map(drop);
    eventually("the server", accepts).await;
    launcher.signal("TERM").await;
    assert_eq!(launcher.ended().await.code(), Some(0), "{}", launcher.output());
    assert!(accepts().await.is_none(), "the server ended with its launcher");
}

/// Runs a script with options of the environment; its prefix is `prefix` of the home.
async fn install(home: &Path, script: &str, environment: &[(&str, &str)]) -> Ran {
    let mut all = vec![("PREFIX", "prefix")];
    all.extend(environment);
    run(home, script, &all).await
}

#[tokio::test]
async fn install_sh_installs_a_checked_archive() {
    let packages = Packages::made();
    let home = home();
    let home = home.path();
    let piped = format!("curl -fsSL {}/files/install.sh | sh", packages.host);
    let (code, output) = install(home, &piped, &[]).await;
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains(&format!("installed vmcp {VERSION} as prefix/bin/vmcp")), "{output}");
    assert_eq!(must(home, "prefix/bin/vmcp --version").await, format!("vmcp {VERSION}\n"));
    // Again, over the installed one, and from a mirror of files.
    let mirror = format!("file://{}", packages.folder.display());
    let script = format!("sh {}/install.sh", packages.folder.display());
    let (code, output) = install(home, &script, &[("VMCP_DOWNLOADS", &mirror)]).await;
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(must(home, "ls -A prefix/bin").await, "vmcp\n", "temporary files are gone");
}

#[tokio::test]
async fn install_sh_refuses_anything_but_the_released_archive() {
    let packages = Packages::made();
    let home = home();
    let home = home.path();
    must(home, "mkdir -p prefix/bin && echo old > prefix/bin/vmcp").await;
    let script = format!("sh {}/install.sh", packages.folder.display());
    for (kind, message) in [
        ("changed", "is not the released one: SHA-256"),
        ("half", "is not the released one: SHA-256"),
        ("npm", "cannot fetch"),
    ] {
        let mirror = format!("{}/{kind}", packages.host);
        let (code, output) = install(home, &script, &[("VMCP_DOWNLOADS", &mirror)]).await;
        assert!(code == Some(1) && output.contains(message), "{kind}: {output}");
        assert_eq!(must(home, "cat prefix/bin/vmcp; ls -A prefix/bin").await, "old\nvmcp\n", "{kind}");
    }
}

#[tokio::test]
async fn a_part_of_install_sh_installs_nothing() {
    let packages = Packages::made();
    let home = home();
    let home = home.path();
    let script = std::fs::read_to_string(packages.folder.join("install.sh")).expect("the script");
    let lines: Vec<_> = script.lines().collect();
    // Cut behind each line but the last, which alone calls anything.
    for end in 1..lines.len() {
        std::fs::write(home.join("part.sh"), lines[..end].join("\n")).expect("writing");
        let (_, output) = install(home, "sh part.sh", &[]).await;
        assert!(!home.join("prefix").exists(), "{end} lines: {output}");
    }
}

#[tokio::test]
async fn install_sh_names_missing_platforms_programs_and_rights() {
    let packages = Packages::made();
    let home = home();
    let home = home.path();
    let script = format!("sh {}/install.sh", packages.folder.display());
    // A search path with these programs alone, of which `uname` says another processor.
    let programs = home.join("programs");
    std::fs::create_dir(&programs).expect("a folder");
    for program in ["sh", "mkdir", "mktemp", "rm"] {
        let found = must(home, &format!("command -v {program}")).await;
        std::os::unix::fs::symlink(found.trim_end(), programs.join(program)).expect("a link");
    }
    let uname = |processor: &str| {
        let text =
            format!("#!/bin/sh\n[ \"$1\" = -m ] && echo {processor} || echo {}\n", std::env::consts::OS);
        let path = programs.join("uname");
        std::fs::write(&path, text.replace("echo linux", "echo Linux").replace("echo macos", "echo Darwin"))
            .expect("writing");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    };
    let path = programs.display().to_string();
    uname("riscv64");
    let (code, output) = install(home, &script, &[("PATH", &path)]).await;
    assert!(code == Some(1) && output.contains("no binary for riscv64-"), "{output}");
    uname(std::env::consts::ARCH);
    let (code, output) = install(home, &script, &[("PATH", &path)]).await;
    assert!(code == Some(1) && output.contains("curl and wget are missing"), "{output}");
    let (code, output) = install(home, &script, &[("PREFIX", "/dev/null")]).await;
    assert!(code == Some(1) && output.contains("/dev/null/bin cannot be written; set PREFIX"), "{output}");
}
