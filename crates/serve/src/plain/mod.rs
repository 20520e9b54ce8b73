//! Plain HTTP on files and directories: GET and HEAD, and, if writing is allowed, PUT and DELETE.
//! Pages come from `page`. Called by the router.

mod archive;
mod listing;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use firstbyte_location::ByteRange;
use http::header::{
    ACCEPT, ACCEPT_RANGES, ALLOW, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    LAST_MODIFIED, LOCATION, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::access::keys::Access;
use crate::access::keys::Rights;
use crate::config::Writing;
use crate::http::condition::{Condition, Current, Unmet, Verdict, judge_read, range_applies};
use crate::http::date::http_date;
use crate::http::etag::{Identity, etag, last_modified, stamp};
use crate::http::range::{RangeAnswer, parse_range};
use crate::http::refusal::{failure, forbidden, not_found, unauthorized};
use crate::http::request::Request;
use crate::http::response::{Body, FileContent, Response, attachment};
use crate::object::content_type::content_type;
use crate::object::metadata::ObjectMetadata;
use crate::object::publish::{self, Kind};
use crate::object::staging::{self, TemporaryFile};
use crate::object::stated::{Stated, Trailers};
use crate::object::writer::Writer;
use crate::page;
use crate::path::{EntryPath, PathError};
use crate::state::ServerState;

/// Answers a plain request for a file or directory.
pub(crate) async fn answer(state: &Arc<ServerState>, request: Request, access: &Access) -> Response {
    let path = match EntryPath::from_url(&request.path) {
        Ok(path) => path,
        Err(PathError::Hidden) => return not_found(),
        Err(error) => return Response::text(StatusCode::BAD_REQUEST, error),
    };
    let method = request.method.clone();
    match method {
        Method::GET | Method::HEAD => get(state, request, path, access).await,
        Method::PUT | Method::DELETE => {
            let Some(path) = state.writable(access, &path) else { return refuse_write(state, access) };
            let done = match method {
                Method::PUT => put(state, request, &path).await,
                _ => delete(state, &request, path).await,
            };
            done.unwrap_or_else(|error| match error.kind() {
                io::ErrorKind::NotADirectory if method == Method::PUT => {
                    Response::text(StatusCode::CONFLICT, "a directory of this name is a file")
                }
                _ => failure(&error),
            })
        }
        _ => Response::text(StatusCode::METHOD_NOT_ALLOWED, format_args!("{method} means nothing here"))
            .with_header(ALLOW, "GET, HEAD, PUT, DELETE, OPTIONS"),
    }
}

/// Answers from the path alone what `access` has no right to: whether anything has that name is not
/// looked at.
async fn get(state: &Arc<ServerState>, request: Request, path: EntryPath, access: &Access) -> Response {
    if matches!(access, Access::Nobody) {
        return if asks_for_page(&request) { page::login(state, &request) } else { unauthorized() };
    }
    let Some(fence) = access.fence(Rights::Read, path.as_bytes()) else {
        if !access.reaches(&path.as_directory()) {
            return refuse_read(state, &request, access).await;
        }
        // A directory above what the key opens: of its entries only those that lead there are
        // shown.
        return match state.root.open_entry(&path).await.and_then(|entry| entry.metadata()) {
            Ok(metadata) if metadata.is_dir() => directory(state, request, &path, access).await,
            _ => refuse_read(state, &request, access).await,
        };
    };
    let path = path.fenced(fence);
    match state.root.open_file(&path).await {
        Ok(_) if request.path.ends_with('/') => missing(state, &request),
        Ok(file) => match file.metadata() {
            Ok(metadata) => file_response(&request, &path, file, &metadata),
            Err(error) => failure(&error),
        },
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            directory(state, request, &path, access).await
        }
        Err(error) => {
            let answer = failure(&error);
            if answer.status == StatusCode::NOT_FOUND { missing(state, &request) } else { answer }
        }
    }
}

/// 404, as a page for browsers.
fn missing(state: &ServerState, request: &Request) -> Response {
    if asks_for_page(request) { page::missing(state, request) } else { not_found() }
}

fn asks_for_page(request: &Request) -> bool {
    request.header(ACCEPT).is_some_and(|accept| accept.contains("text/html"))
}

async fn refuse_read(state: &ServerState, request: &Request, access: &Access) -> Response {
    if asks_for_page(request) { page::refused(state, request, access).await } else { forbidden() }
}

async fn directory(
    state: &Arc<ServerState>,
    request: Request,
    path: &EntryPath,
    access: &Access,
) -> Response {
    if !request.path.ends_with('/') {
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        let target = format!("{}{}/{query}", request.prefix, request.path);
        return Response::text(StatusCode::MOVED_PERMANENTLY, "this is a directory")
            .with_header(LOCATION, target);
    }
    if let Some(format) = request.query("archive") {
        return archive::answer(state, &request, path, &format, access).await;
    }
    let format = listing::Format::asked_by(&request);
    if matches!(format, None | Some(listing::Format::Links))
        && let Some(moved) = page::below_the_bucket(state, &request, path).await
    {
        return moved;
    }
    match format {
        Some(format) => listing::answer(state, &request, path, format, access).await,
        None => page::directory(state, &request, path, access).await,
    }
}

/// The answer with a file, or what conditions and ranges make of it.
fn file_response(request: &Request, path: &EntryPath, file: File, metadata: &Metadata) -> Response {
    let tag = etag(metadata);
    let current = Current { etag: &tag, modified: last_modified(metadata) };
    let described = |status| {
        Response::new(status)
            .with_header(ETAG, format!("\"{tag}\""))
            .with_header(LAST_MODIFIED, http_date(current.modified))
            .with_header(ACCEPT_RANGES, "bytes")
    };
    match judge_read(&request.headers, current) {
        Verdict::Proceed => {}
        Verdict::NotModified => return described(StatusCode::NOT_MODIFIED),
        Verdict::Failed => return described(StatusCode::PRECONDITION_FAILED),
    }
    let size = metadata.len();
    let kept = ObjectMetadata::read(&file);
    let version = Identity::from(metadata);
    let content = |file, range| Body::File(FileContent { file: Arc::new(file), range, version });
    let mut response = match asked_range(&request.headers, current, size) {
        RangeAnswer::Unsatisfiable => {
            return described(StatusCode::RANGE_NOT_SATISFIABLE)
                .with_header(CONTENT_RANGE, format!("bytes */{size}"));
        }
        RangeAnswer::Whole => described(StatusCode::OK).with_body(content(file, ByteRange::new(0, size))),
        RangeAnswer::Part(range) => described(StatusCode::PARTIAL_CONTENT)
            .with_header(CONTENT_RANGE, format!("bytes {}-{}/{size}", range.start, range.end - 1))
            .with_body(content(file, range)),
    };
    response.headers.extend(kept.headers());
    let by_name = content_type(path.name());
    let content_type = kept.content_type.as_deref().unwrap_or(by_name);
    response = response.with_header(CONTENT_TYPE, content_type);
    if request.query("download").is_some() {
        let name = path.name().unwrap_or_default().as_bytes();
        response = response.with_header(CONTENT_DISPOSITION, attachment(name));
    }
    response
}

fn asked_range(headers: &HeaderMap, current: Current<'_>, size: u64) -> RangeAnswer {
    let mut values = headers.get_all(RANGE).iter();
    let only = values.next().filter(|_| values.next().is_none());
    match only.and_then(|value| value.to_str().ok()) {
        Some(value) if range_applies(headers, current) => parse_range(value, size),
        _ => RangeAnswer::Whole,
    }
}

async fn put(state: &Arc<ServerState>, mut request: Request, path: &EntryPath) -> io::Result<Response> {
    if request.path.ends_with('/') {
        return Ok(Response::text(StatusCode::BAD_REQUEST, "a file's name cannot end in `/`"));
    }
    if request.headers.contains_key(CONTENT_RANGE) {
        // RFC 9110 section 14.5: storing a part as the whole would corrupt the file.
        return Ok(Response::text(StatusCode::BAD_REQUEST, "a PUT must carry the whole file"));
    }
    if request.headers.get_all(CONTENT_ENCODING).iter().any(names_chunks) {
        let line = "a body in aws-chunked coding is S3's: send x-amz-content-sha256 with it";
        return Ok(Response::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, line));
    }
    let stated = match Stated::of_headers(&request.headers, &[], None, Trailers::default()) {
        Ok(stated) => stated,
        Err(refused) => return Ok(Response::text(StatusCode::BAD_REQUEST, refused)),
    };
    let condition = Condition::of_headers(&request.headers);
    if let Err(unmet) = check_write(state, path, &condition).await? {
        return Ok(refused(unmet));
    }
    let (root, buckets, parent) = (state.root.clone(), state.config.buckets.clone(), path.parent());
    let create = move || TemporaryFile::create(&root, &staging::bucket_of(&root, &buckets, &parent));
    let temporary = blocking(create).await?;
    let mut writer = Writer::new(temporary.file().clone(), 0, stated.checksums_to_compare());
    while let Some(piece) = request.body.next().await {
        let piece = piece?;
        state.metrics.received_bytes.fetch_add(piece.len() as u64, Relaxed);
        writer.write(piece).await?;
    }
    if let Err(refused) = stated.check(writer.finish().await?.finish()) {
        return Ok(Response::text(StatusCode::BAD_REQUEST, refused));
    }
    let (root, path) = (state.root.clone(), path.clone());
    let publish = move || {
        stamp(temporary.file())?;
        settled(publish::publish_temporary(&root, temporary, &EntryPath::default(), &path, &condition))
    };
    let published = match blocking(publish).await? {
        Ok(published) => published,
        Err(unmet) => return Ok(refused(unmet)),
    };
    let status = if published.replaced.is_some() { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    Ok(Response::new(status).with_header(ETAG, format!("\"{}\"", published.identity.etag())))
}

async fn delete(state: &Arc<ServerState>, request: &Request, path: EntryPath) -> io::Result<Response> {
    let (root, condition) = (state.root.clone(), Condition::of_headers(&request.headers));
    let remove = move || {
        let remove = |kind| settled(publish::remove(&root, &path, kind, &condition));
        match remove(Kind::File)? {
            Ok(false) | Err(Unmet::Missing) => remove(Kind::Directory),
            done => Ok(done),
        }
    };
    Ok(match blocking(remove).await? {
        Ok(true) => Response::new(StatusCode::NO_CONTENT),
        Ok(false) => not_found(),
        Err(unmet) => refused(unmet),
    })
}

/// Whether a `Content-Encoding` names S3's own coding: its framing must never be stored.
fn names_chunks(value: &HeaderValue) -> bool {
    String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase().contains("aws-chunked")
}

/// Judges a write early, before its body is read; it is judged again when it is published.
async fn check_write(
    state: &ServerState,
    path: &EntryPath,
    condition: &Condition,
) -> io::Result<Result<(), Unmet>> {
    if *condition == Condition::default() {
        return Ok(Ok(()));
    }
    let (root, path, condition) = (state.root.clone(), path.clone(), condition.clone());
    blocking(move || settled(publish::check(&root, &path, &condition))).await
}

/// Runs file system work where it may wait without holding up other connections.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// An unmet condition apart from what went wrong.
fn settled<T>(done: publish::Result<T>) -> io::Result<Result<T, Unmet>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(publish::Error::Unmet(unmet)) => Ok(Err(unmet)),
        Err(publish::Error::Io(error)) => Err(error),
    }
}

fn refused(unmet: Unmet) -> Response {
    Response::text(StatusCode::PRECONDITION_FAILED, unmet)
}

fn refuse_write(state: &ServerState, access: &Access) -> Response {
    if state.config.writing == Writing::Refused {
        return Response::text(StatusCode::FORBIDDEN, "this server takes no writes; start it with --write");
    }
    if matches!(access, Access::Nobody) { unauthorized() } else { forbidden() }
}
