//! The end of the way of the browser: a loopback address that it is sent to, or the address that a person
//! pastes.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::cli::console::failure::CommandFailure;

/// Bytes of a browser's request line; an authorization code is short.
const MAX_LINE: u64 = 16 << 10;
/// Time for a browser to send it; a port scan sends nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Path that the browser is sent to.
const PATH: &str = "/callback";

/// Answer of the authorization server, as the browser brings it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Callback {
    pub(super) code: String,
    /// Bound to this login: the exchange refuses another.
    pub(super) state: String,
    /// Issuer (RFC 9207), where the server names it.
    pub(super) issuer: Option<String>,
}

/// A loopback address that waits for the browser.
pub(super) struct CallbackListener {
    listener: TcpListener,
    url: String,
}

impl CallbackListener {
    /// Listens on a port of 127.0.0.1; 0 is any.
    pub(super) async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let url = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, url })
    }

    /// The address for the browser to return to.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Waits for the browser, or for a line on the terminal.
    pub(super) async fn wait(self, timeout: Duration) -> Result<Callback, CommandFailure> {
        let waited = tokio::time::timeout(timeout, async {
            tokio::select! {
                callback = self.browser() => callback,
                Some(line) = pasted() => read(&line).unwrap_or_else(|| {
                    Err(CommandFailure::new("that is not the address at which the browser ends"))
                }),
            }
        });
        waited.await.unwrap_or_else(|_| {
            Err(CommandFailure::new("nobody signed in in time").remedy("run it again; --timeout allows more"))
        })
    }

    async fn browser(&self) -> Result<Callback, CommandFailure> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let served = tokio::time::timeout(READ_TIMEOUT, serve(stream)).await;
            // Browsers ask for icons too, and connect ahead of need.
            if let Ok(Ok(Some(callback))) = served {
                return callback;
            }
        }
    }
}

/// Answers one request of a browser; `None` for a request of another page.
async fn serve(stream: TcpStream) -> io::Result<Option<Result<Callback, CommandFailure>>> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    (&mut stream).take(MAX_LINE).read_line(&mut line).await?;
    let target = line.split(' ').nth(1).filter(|target| target.split('?').next() == Some(PATH));
    let callback = target.and_then(|target| read(&format!("http://127.0.0.1{target}")));
    let (status, text) = match &callback {
        Some(Ok(_)) => ("200 OK", "Signed in. You can close this page and go back to the terminal."),
        Some(Err(_)) => ("200 OK", "Not signed in. The terminal says why."),
        None => ("404 Not Found", "Nothing is here."),
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    );
    stream.get_mut().write_all(answer.as_bytes()).await?;
    stream.get_mut().shutdown().await?;
    Ok(callback)
}

/// Reads the address at which the browser ended; `None` for another address than that of an authorization.
fn read(address: &str) -> Option<Result<Callback, CommandFailure>> {
    let url = Url::parse(address.trim()).ok()?;
    let mut pairs: HashMap<String, String> = url.query_pairs().into_owned().collect();
    if let Some(error) = pairs.remove("error") {
        let description = pairs.remove("error_description").map(|words| format!(": {words}"));
        let message = format!("the server refused: {error}{}", description.unwrap_or_default());
        return Some(Err(CommandFailure::new(message)));
    }
    let (code, state) = (pairs.remove("code")?, pairs.remove("state")?);
    Some(Ok(Callback { code, state, issuer: pairs.remove("iss") }))
}

/// Reads a line from the terminal; never ends without a terminal.
async fn pasted() -> Option<String> {
    if !io::stdin().is_terminal() {
        return std::future::pending().await;
    }
    let mut line = String::new();
    loop {
        line.clear();
        match BufReader::new(tokio::io::stdin()).take(MAX_LINE).read_line(&mut line).await {
            Ok(0) | Err(_) => return std::future::pending().await,
            Ok(_) if line.trim().is_empty() => {}
            Ok(_) => return Some(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_at_which_the_browser_ends_is_read() {
        let read =
            |address| read(address).map(|callback| callback.map_err(|error| error.message().to_owned()));
        let callback = Callback { code: "a b".into(), state: "s".into(), issuer: Some("https://i".into()) };
        assert_eq!(
            read("http://127.0.0.1:1/callback?code=a+b&state=s&iss=https%3A%2F%2Fi\n"),
            Some(Ok(callback))
        );
        assert_eq!(
            read("http://127.0.0.1:1/callback?error=access_denied&error_description=no"),
            Some(Err("the server refused: access_denied: no".to_owned()))
        );
        for other in ["http://127.0.0.1:1/callback", "hello", "http://127.0.0.1:1/callback?code=a"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_browser_is_answered_and_others_do_not_disturb() {
        let listener = CallbackListener::bind(0).await.unwrap();
        let address = listener.listener.local_addr().unwrap();
        let ask = async move |target: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let browser = tokio::spawn(async move {
            let icon = ask("/favicon.ico").await;
            (icon, ask("/callback?code=c&state=s").await)
        });
        let callback = listener.browser().await.unwrap();
        assert_eq!((callback.code.as_str(), callback.state.as_str()), ("c", "s"));
        let (icon, page) = browser.await.unwrap();
        assert!(icon.starts_with("HTTP/1.1 404") && page.contains("Signed in"), "{icon} {page}");
    }
}
