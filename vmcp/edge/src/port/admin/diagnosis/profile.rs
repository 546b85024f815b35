//! `/admin/profile`: where the process spends its CPU time, sampled for some seconds. A build has it with the
//! feature `profiling`.

#[cfg(feature = "profiling")]
mod sampler;

use std::ops::RangeInclusive;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::bad_request;

/// Seconds of one profile.
const SECONDS: RangeInclusive<u64> = 1..=60;

/// The query `?seconds=10`.
#[derive(Deserialize)]
pub(in crate::port::admin) struct ProfileLength {
    seconds: Option<u64>,
}

/// Answers `POST /admin/profile` after the time of the query with folded stacks, one a line.
pub(in crate::port::admin) async fn take(Query(length): Query<ProfileLength>) -> Response {
    match length.seconds {
        Some(seconds) if SECONDS.contains(&seconds) => sampled(seconds).await,
        _ => {
            let (least, most) = (SECONDS.start(), SECONDS.end());
            bad_request(&format!("seconds: write a number from {least} to {most}, such as seconds=10"))
        }
    }
}

#[cfg(feature = "profiling")]
async fn sampled(seconds: u64) -> Response {
    use sampler::SampleError;

    match sampler::sample(std::time::Duration::from_secs(seconds)).await {
        Ok(stacks) => stacks.into_response(),
        Err(error @ SampleError::Busy) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
        Err(error) => {
            tracing::warn!(%error, "a profile could not be taken");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

#[cfg(not(feature = "profiling"))]
#[expect(clippy::unused_async, reason = "with the feature `profiling` it waits")]
async fn sampled(_seconds: u64) -> Response {
    let remedy = "this build has no profiler; build one with names of functions: \
                  cargo build --profile bench -p vmcp --features profiling\n";
    (StatusCode::NOT_IMPLEMENTED, remedy).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;
    use crate::port::admin::Admin;
    use crate::port::admin::routes::router;
    use vmcp_engine::testing::{KEYWORDS, engine};

    async fn asked(address: [u8; 4], method: &str, query: &str) -> (StatusCode, String) {
        let router = router(Admin::new(engine(KEYWORDS).await, None), (address, 0).into());
        let request = Request::builder().method(method).uri(format!("/admin/profile{query}"));
        let request = request.header("host", "localhost").body(Body::empty()).unwrap();
        let answer = router.oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1 << 24).await.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn a_profile_has_a_length_within_bounds_and_is_an_order_of_an_operator() {
        for query in ["", "?seconds=0", "?seconds=61"] {
            let (status, text) = asked([127, 0, 0, 1], "POST", query).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
            assert!(text.contains("from 1 to 60"), "{text}");
        }
        assert_eq!(asked([127, 0, 0, 1], "POST", "?seconds=x").await.0, StatusCode::BAD_REQUEST);
        assert_eq!(asked([127, 0, 0, 1], "GET", "?seconds=1").await.0, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(asked([0, 0, 0, 0], "POST", "?seconds=1").await.0, StatusCode::UNAUTHORIZED);
    }

    #[cfg(not(feature = "profiling"))]
    #[tokio::test]
    async fn a_build_without_a_profiler_says_how_to_get_one() {
        let (status, text) = asked([127, 0, 0, 1], "POST", "?seconds=1").await;
        assert_eq!(status, StatusCode::NOT_IMPLEMENTED);
        assert!(text.contains("--features profiling"), "{text}");
    }

    #[cfg(feature = "profiling")]
    #[tokio::test(flavor = "multi_thread")]
    async fn one_profile_at_a_time_names_the_functions_that_are_busy() {
        use std::sync::atomic::{AtomicBool, Ordering};

        static DONE: AtomicBool = AtomicBool::new(false);
        let busy = std::thread::spawn(|| {
            let mut sum = 0_u64;
            while !DONE.load(Ordering::Relaxed) {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
            sum
        });
        let first = tokio::spawn(asked([127, 0, 0, 1], "POST", "?seconds=2"));
        // The second request arrives while the first one samples.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert_eq!(asked([127, 0, 0, 1], "POST", "?seconds=1").await.0, StatusCode::CONFLICT);
        let (status, text) = first.await.unwrap();
        DONE.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        assert_eq!(status, StatusCode::OK, "{text}");
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.iter().any(|line| line.contains("one_profile_at_a_time")), "{text}");
        for line in lines {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            assert!(stack.contains(';') && count.parse::<u64>().is_ok_and(|count| count > 0), "{line}");
        }
    }
}
