//! Packages made from the built binary, and a host that offers them as npm's registry and as downloads of a
//! release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock, mpsc};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::paths::binary;

/// Header of a program, as a stand-in for a binary has it.
type Header = fn() -> Vec<u8>;

/// Platforms of packages, each with the header of its stand-in.
const PLATFORMS: [(&str, Header); 4] = [
    ("x86_64-linux", || elf(62)),
    ("aarch64-linux", || elf(183)),
    ("x86_64-macos", || macho(0x0100_0007, 10 << 16 | 12 << 8)),
    ("aarch64-macos", || macho(0x0100_000c, 11 << 16)),
];

/// Packages of the built binary for this machine, and of stand-ins for the other platforms.
pub struct Packages {
    /// Folder of the packages.
    pub folder: PathBuf,
    /// URL of the host. `/files/NAME` is a file, `/changed/NAME` the same with one other byte, `/half/NAME`
    /// its first half, `/npm` a registry.
    pub host: String,
    /// Held to the end of the process: another one with the same folder waits.
    _lock: fs::File,
}

impl Packages {
    /// Returns the packages, which are made once in a process, in the folder of the binaries.
    pub fn made() -> &'static Packages {
        static MADE: OnceLock<Packages> = OnceLock::new();
        MADE.get_or_init(|| {
            let folder = binary("vmcp").with_file_name("packages");
            let lock = fs::File::create(folder.with_extension("lock")).expect("a file");
            lock.lock().expect("a lock");
            let binaries = tempfile::tempdir().expect("a folder");
            stand_ins(binaries.path());
            strip(&binaries.path().join(own_platform()).join("vmcp"));
            let _absent = fs::remove_dir_all(&folder);
            let host = host(folder.clone());
            let downloads = format!("{host}/files");
            let output =
                package(binaries.path(), &folder, &["--complete", "--level=1", "--downloads", &downloads]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Packages { folder, host, _lock: lock }
        })
    }

    /// Variables by which npm, uv and pip take these packages, and no others.
    pub fn environment(&self, home: &Path) -> Vec<(&'static str, String)> {
        let below = |folder: &str| home.join(folder).display().to_string();
        vec![
            ("npm_config_registry", format!("{}/npm", self.host)),
            ("npm_config_prefix", below(".npm-global")),
            ("npm_config_cache", below(".npm-packages")),
            ("npm_config_update_notifier", "false".to_owned()),
            ("UV_NO_INDEX", "1".to_owned()),
            ("UV_FIND_LINKS", self.folder.display().to_string()),
            ("UV_CACHE_DIR", below(".uv-packages")),
            ("PIP_NO_INDEX", "1".to_owned()),
            ("PIP_FIND_LINKS", self.folder.display().to_string()),
        ]
    }

    /// Returns the paths of the files that a checkout makes on this machine.
    pub fn of_this_platform(&self) -> Vec<PathBuf> {
        let version = env!("CARGO_PKG_VERSION");
        let npm = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "x64",
        };
        let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
        let wheel =
            if npm == "arm64" && cfg!(target_os = "macos") { "arm64" } else { std::env::consts::ARCH };
        let wheels = format!("-py3-none-{}", if cfg!(target_os = "macos") { "macosx" } else { "manylinux" });
        vec![
            self.folder.join("install.sh"),
            self.file(&format!("vmcp-{version}"), ".tgz"),
            self.file(&format!("vmcp-{system}-{npm}-{version}"), ".tgz"),
            self.file(&format!("vmcp_server-{version}{wheels}"), &format!("_{wheel}.whl")),
        ]
    }

    /// Returns the path of a package whose name begins and ends like this.
    pub fn file(&self, begin: &str, end: &str) -> PathBuf {
        let files =
            fs::read_dir(&self.folder).expect("the folder").map(|entry| entry.expect("a file").path());
        let fits = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(begin) && name.ends_with(end)
        };
        let found: Vec<_> = files.filter(fits).collect();
        assert_eq!(found.len(), 1, "{begin}…{end}: {found:?}");
        found[0].clone()
    }
}

/// Returns the platform of this machine, as packages name it.
pub fn own_platform() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// Writes a stand-in for the binary of each platform: a header, and nothing that runs.
pub fn stand_ins(folder: &Path) {
    for (platform, header) in PLATFORMS {
        fs::create_dir_all(folder.join(platform)).expect("a folder");
        fs::write(folder.join(platform).join("vmcp"), header()).expect("writing");
    }
}

/// Runs `packaging/package.py` for the version of this build.
pub fn package(binaries: &Path, out: &Path, options: &[&str]) -> std::process::Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/package.py");
    let mut command = Command::new("python3");
    command.arg(script).args([binaries, out]).args(["--version", env!("CARGO_PKG_VERSION")]).args(options);
    command.env("PYTHONDONTWRITEBYTECODE", "1").output().expect("python3")
}

/// Puts the built binary at `path`, without the symbols of a debug build where `strip` is installed.
fn strip(path: &Path) {
    let stripped = Command::new("strip").arg("-o").arg(path).arg(binary("vmcp")).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(binary("vmcp"), path).expect("copying");
    }
}

/// Header of a static ELF program for a processor.
fn elf(machine: u16) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16] = 2;
    header[18..20].copy_from_slice(&machine.to_le_bytes());
    header
}

/// Header of a Mach-O program for a processor, which needs a version of macOS (`major << 16 | minor << 8`).
fn macho(processor: u32, version: u32) -> Vec<u8> {
    // The fields after the processor: subtype, kind, one command of 24 bytes, flags, reserved; the command
    // says LC_BUILD_VERSION.
    let words = [0xfeed_facf, processor, 0, 2, 1, 24, 0, 0, 0x32, 24, 1, version, version, 0];
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

/// Starts the host on a thread of its own, which outlives the runtime of a single test; returns its URL.
fn host(folder: PathBuf) -> String {
    let (address, bound) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            address.send(url.clone()).expect("a receiver");
            let router = Router::new().fallback(answer).with_state(Arc::new((folder, url)));
            axum::serve(listener, router).await.expect("serving");
        });
    });
    bound.recv().expect("the address")
}

async fn answer(State(host): State<Arc<(PathBuf, String)>>, uri: Uri) -> Response {
    let (folder, url) = &*host;
    let path = uri.path().to_lowercase().replace("%2f", "/");
    let (kind, name) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    if kind == "npm" {
        return match versions(folder, url, name) {
            Some(document) => axum::Json(document).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        };
    }
    // Names on disk have no upper case but SHA256SUMS, which no client asks for.
    let file = Path::new(name).file_name().and_then(|name| fs::read(folder.join(name)).ok());
    let Some(mut bytes) = file else { return StatusCode::NOT_FOUND.into_response() };
    match kind {
        "half" => bytes.truncate(bytes.len() / 2),
        "changed" => bytes.last_mut().into_iter().for_each(|byte| *byte ^= 1),
        _ => {}
    }
    bytes.into_response()
}

/// Returns the document of a package that npm's registry has: its versions and the URLs of their archives.
fn versions(folder: &Path, url: &str, name: &str) -> Option<Value> {
    let file =
        format!("{}-{}.tgz", name.trim_start_matches('@').replace('/', "-"), env!("CARGO_PKG_VERSION"));
    let mut manifest = npm_manifest(&folder.join(&file))?;
    let version = manifest["version"].as_str()?.to_owned();
    manifest["dist"] = json!({ "tarball": format!("{url}/files/{file}") });
    Some(json!({ "name": name, "dist-tags": { "latest": version }, "versions": { &version: manifest } }))
}

/// Returns `package.json` of an archive of npm.
pub fn npm_manifest(archive: &Path) -> Option<Value> {
    let shown = Command::new("tar").arg("-xOzf").arg(archive).arg("package/package.json").output().ok()?;
    serde_json::from_slice(&shown.stdout).ok()
}
