//! Requests to the daemon.

use super::instance::Selected;
use crate::cli::output::complain;
use crate::cli::{CommandFailure, ExitCode};
use form_urlencoded::Serializer;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Time for the reply to a request, streams excepted.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const JSON: &str = "application/json";
pub(super) const JSON_LINES: &str = "application/x-ndjson";

/// A path with the parameters that have a value.
pub(super) fn with_query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// A daemon.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    socket: PathBuf,
    /// Which daemon it is, where that is not plain.
    notice: Option<String>,
}

impl HttpClient {
    pub(super) fn new(Selected { socket, notice }: Selected) -> Self {
        Self { socket, notice }
    }

    /// Before an action, tells on standard error which daemon it is for, where that is not plain.
    fn tell_daemon(&self) {
        if let Some(notice) = &self.notice {
            complain(&format!("this action is for {notice}"));
        }
    }

    /// The process ID of the daemon; `None` if it is in another PID namespace.
    ///
    /// # Errors
    /// There is no daemon.
    pub(super) async fn process(&self) -> Result<Option<i32>, CommandFailure> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.no_daemon(&error))?;
        Ok(stream.peer_cred().ok().and_then(|peer| peer.pid()))
    }

    /// The reply to a GET.
    ///
    /// # Errors
    /// There is no daemon, or its reply is an error.
    pub(super) async fn get(&self, path: &str, accept: &str) -> Result<Bytes, CommandFailure> {
        let reply = async {
            let response = self.send("GET", path, accept, String::new()).await?;
            self.body(response).await
        };
        timeout(REPLY_TIMEOUT, reply).await.unwrap_or_else(|_| Err(self.silent()))
    }

    /// The reply to a GET as JSON.
    ///
    /// # Errors
    /// There is no daemon, or its reply is an error.
    pub(super) async fn get_json(&self, path: &str) -> Result<Value, CommandFailure> {
        self.parse(&self.get(path, JSON).await?)
    }

    /// Requests an action.
    ///
    /// # Errors
    /// There is no daemon, or it refuses.
    pub(super) async fn post(&self, path: &str, body: String) -> Result<Value, CommandFailure> {
        self.tell_daemon();
        let reply = async {
            let response = self.send("POST", path, JSON, body).await?;
            self.parse(&self.body(response).await?)
        };
        timeout(REPLY_TIMEOUT, reply).await.unwrap_or_else(|_| Err(self.silent()))
    }

    /// Passes each line of a stream to `take` until that returns false, or the stream ends.
    ///
    /// # Errors
    /// There is no daemon, the connection is lost, or `take` fails.
    pub(super) async fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&str) -> Result<bool, CommandFailure>,
    ) -> Result<(), CommandFailure> {
        let mut body = self.send("GET", path, JSON_LINES, String::new()).await?.into_body();
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.failure(&error))?;
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                // Empty lines only show that the connection lives.
                if !line.trim().is_empty() && !take(line.trim_end())? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends a request; returns the reply if it is no error.
    async fn send(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        body: String,
    ) -> Result<Response<Incoming>, CommandFailure> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.no_daemon(&error))?;
        let connected = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connected.map_err(|error| self.failure(&error))?;
        // Errors appear in the reply, too.
        tokio::spawn(async move { drop(connection.await) });
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, JSON)
            .body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| CommandFailure::new(ExitCode::Usage, error))?;
        let response = sender.send_request(request).await.map_err(|error| self.failure(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = self.body(response).await?;
        let problem: Option<Value> = serde_json::from_slice(&text).ok();
        let problem = problem.as_ref().and_then(|value| value["error"].as_str());
        let problem = problem.map_or_else(|| status.to_string(), str::to_owned);
        Err(CommandFailure::new(ExitCode::Fatal, problem))
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, CommandFailure> {
        let body = response.into_body().collect().await;
        Ok(body.map_err(|error| self.failure(&error))?.to_bytes())
    }

    fn parse(&self, text: &[u8]) -> Result<Value, CommandFailure> {
        serde_json::from_slice(text).map_err(|_| self.failure(&"the reply is not JSON"))
    }

    fn failure(&self, error: &dyn std::fmt::Display) -> CommandFailure {
        let text = format!("connection to torus-sm at {}: {error}", self.socket.display());
        CommandFailure::new(ExitCode::NoPort, text)
    }

    fn silent(&self) -> CommandFailure {
        self.failure(&format!("no reply within {} s", REPLY_TIMEOUT.as_secs()))
    }

    fn no_daemon(&self, error: &std::io::Error) -> CommandFailure {
        let hint = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => "; no daemon uses this socket",
            ErrorKind::PermissionDenied => {
                "; root and the user of the daemon may connect, others as management_group and \
                 management_read_all permit"
            }
            _ => "",
        };
        let text = format!("no torus-sm at {}: {error}{hint}", self.socket.display());
        CommandFailure::new(ExitCode::NoPort, text)
    }
}
