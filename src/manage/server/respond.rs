//! Answers one request: permissions, limits, and the endpoint.

use super::ServerState;
use super::access::{Access, ClientOrigin};
use super::compress;
use super::progress::ReplyProgress;
use super::replay::{MAX_RECORDING, replay};
use super::stream::{EventStream, StreamFormat, WantedEvents};
use crate::manage::action::OperatorAction;
use crate::manage::api::{
    ApiContext, ApiEndpoint, ApiError, ApiQuery, Handler, HttpReply, ServerFigures, find,
};
use crate::manage::event::Event;
use crate::manage::feed::TimedEvent;
use crate::manage::page::CONTENT_SECURITY_POLICY;
use chrono::Utc;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};

/// Maximum length of the body of a request, in bytes.
const MAX_BODY: usize = 16 << 10;

/// Time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a recording.
const RECORDING_TIMEOUT: Duration = Duration::from_secs(15);

/// Time that a request waits for a thread that computes replies.
const WORKER_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) type ReplyBody = UnsyncBoxBody<Bytes, Infallible>;

/// Answers a request.
pub(super) async fn respond(
    request: Request<Incoming>,
    state: Arc<ServerState>,
    client: ClientOrigin,
    progress: Arc<ReplyProgress>,
) -> Response<ReplyBody> {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let answered = answer(request, &state, client, &progress).await;
    answered.unwrap_or_else(|error| error_reply(&error))
}

async fn answer(
    request: Request<Incoming>,
    state: &Arc<ServerState>,
    client: ClientOrigin,
    progress: &Arc<ReplyProgress>,
) -> Result<Response<ReplyBody>, ApiError> {
    let (head, body) = request.into_parts();
    // The server leaves the body of a reply to HEAD out.
    let is_head = head.method == Method::HEAD;
    let method = if is_head { Method::GET } else { head.method };
    let endpoint = find(method.as_str(), head.uri.path());
    if let Ok(ApiEndpoint { handler: Handler::Page(text), .. }) = endpoint {
        return Ok(page(text));
    }
    let access = access_of(client, state, &head.headers)?;
    if !access.may_read {
        return Err(ApiError::forbidden(access.uid, "read"));
    }
    let endpoint = endpoint?;
    let query = ApiQuery::parse(head.uri.query().unwrap_or(""), endpoint.parameters)?;
    match endpoint.handler {
        Handler::Read(_) => read(endpoint, query, &head.headers, state, progress).await,
        Handler::Page(text) => Ok(page(text)),
        Handler::Events if is_head => {
            let content_type = format_of(&head.headers).content_type();
            Ok(response(200, content_type, Empty::new().boxed_unsync()))
        }
        Handler::Events => events(&query, &head.headers, state, progress),
        Handler::Act(parse) => {
            if !access.may_act {
                return Err(ApiError::forbidden(access.uid, "act"));
            }
            act(parse(&read_body(body, MAX_BODY, BODY_TIMEOUT).await?)?, access, state)
        }
        Handler::Replay => {
            if !access.may_act {
                return Err(ApiError::forbidden(access.uid, "act"));
            }
            replayed(body, &head.headers, state, progress).await
        }
    }
}

fn access_of(
    client: ClientOrigin,
    state: &ServerState,
    headers: &HeaderMap,
) -> Result<Access, ApiError> {
    match (client, &state.network) {
        (ClientOrigin::Local(access), _) => Ok(access),
        (ClientOrigin::Network, Some(network)) => network.policy.access(headers),
        (ClientOrigin::Network, None) => Err(ApiError::forbidden(None, "read")),
    }
}

/// The page has no data of the fabric, so that it may ask for the token.
fn page(text: &'static str) -> Response<ReplyBody> {
    let body = Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync();
    let mut response = response(200, "text/html; charset=utf-8", body);
    let policy = HeaderValue::from_static(CONTENT_SECURITY_POLICY);
    response.headers_mut().insert(hyper::header::CONTENT_SECURITY_POLICY, policy);
    response
}

async fn read_body(body: Incoming, max: usize, time: Duration) -> Result<Bytes, ApiError> {
    let body = timeout(time, Limited::new(body, max).collect()).await;
    match body {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ApiError::new(413, format!("the body is longer than {max} bytes")))
        }
        Ok(Err(error)) => Err(ApiError::new(400, format!("the body cannot be read: {error}"))),
        Err(_) => Err(ApiError::new(408, "the body did not arrive in time")),
    }
}

/// Computes the reply of a resource on another thread.
async fn read(
    endpoint: &'static ApiEndpoint,
    query: ApiQuery,
    headers: &HeaderMap,
    state: &Arc<ServerState>,
    progress: &Arc<ReplyProgress>,
) -> Result<Response<ReplyBody>, ApiError> {
    let Handler::Read(handler) = endpoint.handler else {
        return Err(ApiError::new(500, "this resource cannot be read"));
    };
    let worker = timeout(WORKER_TIMEOUT, state.limits.workers.clone().acquire_owned()).await;
    let Ok(Ok(worker)) = worker else {
        return Err(ApiError::new(503, "too many requests are being answered"));
    };
    let accept = text_of(headers, ACCEPT).to_owned();
    let accepts_gzip = compress::accepts_gzip(text_of(headers, ACCEPT_ENCODING));
    let shared = state.clone();
    let runtime = Handle::current();
    let reply = spawn_blocking(move || {
        let live = &shared.live;
        let context = ApiContext {
            status: live.status.load_full(),
            perf: live.perf.load_full(),
            congestion: **live.congestion.load(),
            vendor: live.vendor.load_full(),
            virtual_ports: live.virtual_ports.load_full(),
            incidents: live.incidents.borrow().clone(),
            missing: shared.missing.load_full(),
            query_sa: &live.query_sa,
            runtime,
            accept: &accept,
            server: ServerFigures {
                log_flags: live.control.log_flags(),
                last_event: shared.events.last(),
                connections: shared.connections.count(),
                requests: shared.requests.load(Ordering::Relaxed),
            },
        };
        let reply = handler(&context, &query).map(|reply| compressed(reply, accepts_gzip));
        drop(worker);
        reply
    });
    let reply = reply.await.unwrap_or_else(|panic| {
        warn!("management interface: {} failed: {panic}", endpoint.path);
        Err(ApiError::new(500, "the daemon failed to answer; its log has the reason"))
    })?;
    send(reply, state, progress)
}

/// Compresses a large reply if the client accepts that.
fn compressed(reply: HttpReply, accepts_gzip: bool) -> HttpReply {
    if accepts_gzip && let Some(body) = compress::gzip(&reply.body) {
        return HttpReply { body, is_gzip: true, ..reply };
    }
    reply
}

/// Sends a reply within the memory for replies.
fn send(
    reply: HttpReply,
    state: &ServerState,
    progress: &ReplyProgress,
) -> Result<Response<ReplyBody>, ApiError> {
    let kib = u32::try_from(reply.body.len() >> 10).unwrap_or(u32::MAX).saturating_add(1);
    let memory = state.limits.kib.clone().try_acquire_many_owned(kib);
    progress.hold(memory.map_err(|_| ApiError::new(503, "too many replies are being sent"))?);
    Ok(finished(reply))
}

/// Replays the recording in the body, or what the flight recorder holds if the body is empty. The process
/// has a thread of its own, so that other requests are answered meanwhile.
async fn replayed(
    body: Incoming,
    headers: &HeaderMap,
    state: &Arc<ServerState>,
    progress: &ReplyProgress,
) -> Result<Response<ReplyBody>, ApiError> {
    let Ok(turn) = state.limits.replays.clone().try_acquire_owned() else {
        return Err(ApiError::new(503, "another recording is being replayed"));
    };
    let recording = read_body(body, MAX_RECORDING, RECORDING_TIMEOUT).await?;
    let accepts_gzip = compress::accepts_gzip(text_of(headers, ACCEPT_ENCODING));
    let shared = state.clone();
    let (sender, reply) = oneshot::channel();
    let thread = std::thread::Builder::new().name("replay".into()).spawn(move || {
        let recording = if recording.is_empty() {
            shared.live.control.recording().map_err(|problem| ApiError::new(409, problem))
        } else {
            Ok(recording.to_vec())
        };
        let reply = recording.and_then(|recording| replay(&shared.program, &recording));
        drop(turn);
        // Nobody waits for the reply to a connection that was closed.
        let _ = sender.send(reply.map(|reply| compressed(reply, accepts_gzip)));
    });
    thread.map_err(|problem| failed(&problem))?;
    send(reply.await.map_err(|problem| failed(&problem))??, state, progress)
}

fn failed(problem: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(500, format!("replay: {problem}"))
}

fn events(
    query: &ApiQuery,
    headers: &HeaderMap,
    state: &Arc<ServerState>,
    progress: &Arc<ReplyProgress>,
) -> Result<Response<ReplyBody>, ApiError> {
    let resumed = headers.get("last-event-id").map(|value| {
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| ApiError::new(400, "Last-Event-ID is not a number"))
    });
    let after = match query.number("after")? {
        Some(after) => after,
        None => resumed.transpose()?.unwrap_or_else(|| state.events.last()),
    };
    let format = format_of(headers);
    let follow = query.flag("follow")?.unwrap_or(true);
    let names = query.get("event").unwrap_or("").split(',').filter(|name| !name.is_empty());
    let names = names.map(str::to_owned).collect();
    let wanted = WantedEvents { after, follow, names };
    let stream = EventStream::new(state.clone(), progress.clone(), format, wanted);
    Ok(response(200, format.content_type(), stream.boxed_unsync()))
}

/// The format of a stream of events that the client accepts.
fn format_of(headers: &HeaderMap) -> StreamFormat {
    if text_of(headers, ACCEPT).contains("application/x-ndjson") {
        StreamFormat::JsonLines
    } else {
        StreamFormat::ServerSentEvents
    }
}

/// The text of a header; empty without it.
fn text_of(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

fn act(
    action: OperatorAction,
    access: Access,
    state: &ServerState,
) -> Result<Response<ReplyBody>, ApiError> {
    let name = action.name();
    let uid = access.uid;
    info!("management interface: {} requests {name}", access.client());
    let after = state.events.last();
    let request =
        state.live.control.start(&action).map_err(|problem| ApiError::new(409, problem))?;
    let event = Event::ActionRequested { action: name.to_owned(), uid, request: request.0 };
    state.push(&TimedEvent { time: Utc::now(), event });
    Ok(finished(HttpReply::accepted(name, after, request)))
}

fn finished(reply: HttpReply) -> Response<ReplyBody> {
    let body = Full::new(Bytes::from(reply.body)).boxed_unsync();
    let mut response = response(reply.status, reply.content_type, body);
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if reply.is_gzip {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn error_reply(error: &ApiError) -> Response<ReplyBody> {
    let mut reply = finished(HttpReply::error(error));
    if let Some(allowed) = error.allowed {
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    reply
}

fn response(status: u16, content_type: &'static str, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).expect("all statuses are of HTTP");
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
