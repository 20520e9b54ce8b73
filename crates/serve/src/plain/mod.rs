//! Answers plain HTTP requests for files and directories: GET and HEAD, and, if writing is allowed,
//! PUT and DELETE. `page` makes the HTML pages. Called by the router.

mod archive;
mod lines;
mod listing;
mod remote;

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use firstbyte_location::ByteRange;
use firstbyte_store::format_http_date;
use http::header::{
    ACCEPT, ACCEPT_RANGES, ALLOW, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    LAST_MODIFIED, LOCATION, RANGE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::access::keys::KeyRights;
use crate::access::keys::RequestRights;
use crate::config::WritePolicy;
use crate::http::condition::{
    Condition, ConditionResult, CurrentVersion, UnmetCondition, judge_read, range_applies,
};
use crate::http::etag::{EtagIdentity, stamp};
use crate::http::range::{RangeAnswer, parse_range};
use crate::http::refusal::{forbidden, not_found, of_io_error, unauthorized};
use crate::http::request::HttpRequest;
use crate::http::response::{FileContent, HttpResponse, ResponseBody, attachment};
use crate::object::content_type::{UNKNOWN, content_type};
use crate::object::described::Described;
use crate::object::metadata::{MetadataRefusal, ObjectMetadata};
use crate::object::publish::{self, RemovedKind};
use crate::object::staging::{self, TemporaryFile};
use crate::object::stated::{StatedChecksums, Trailers};
use crate::object::writer::PieceWriter;
use crate::page;
use crate::path::{EntryPath, PathError};
use crate::plain::lines::ListingFormat;
use crate::state::DirectoryState;

pub(crate) use self::remote::{answer as remote, refusal_response};

/// The content type of a form's fields, which curl and wget send with any body.
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Says to caches that the client's headers decide the form of a response: the page, or one of the
/// lists for programs. Only the content of a file is the same for all clients. (RFC 9110, 12.5.5)
pub(crate) fn with_vary(mut response: HttpResponse) -> HttpResponse {
    if !response.headers.contains_key(ETAG) {
        response.headers.append(VARY, HeaderValue::from_static("accept, user-agent"));
    }
    response
}

/// Answers a plain request for a file or directory.
pub(crate) async fn answer(
    state: &Arc<DirectoryState>,
    request: HttpRequest,
    access: &RequestRights,
) -> HttpResponse {
    let path = match EntryPath::from_url(&request.path) {
        Ok(path) => path,
        Err(PathError::Hidden) => return not_found(),
        Err(error) => return HttpResponse::text(StatusCode::BAD_REQUEST, error),
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
            done.unwrap_or_else(|error| match (MetadataRefusal::of(&error), error.kind()) {
                (Some(refusal), _) => refused_metadata(refusal),
                (None, io::ErrorKind::NotADirectory) if method == Method::PUT => {
                    HttpResponse::text(StatusCode::CONFLICT, "a directory of this name is a file")
                }
                _ => of_io_error(&error),
            })
        }
        _ => HttpResponse::text(StatusCode::METHOD_NOT_ALLOWED, format_args!("{method} means nothing here"))
            .with_header(ALLOW, "GET, HEAD, PUT, DELETE, OPTIONS"),
    }
}

/// Answers a GET or HEAD. A path without rights is refused by its name alone, without a look-up.
async fn get(
    state: &Arc<DirectoryState>,
    request: HttpRequest,
    path: EntryPath,
    access: &RequestRights,
) -> HttpResponse {
    if matches!(access, RequestRights::Nobody) {
        return if asks_for_page(&request) { page::login(state, &request) } else { unauthorized() };
    }
    let Some(fence) = access.fence(KeyRights::Read, path.as_bytes()) else {
        if !access.reaches(&path.as_directory()) {
            return refuse_read(state, &request, access).await;
        }
        // In a directory above the key's prefixes, only the entries that lead to these prefixes are
        // shown.
        return match state.root.open_entry(&path).await.and_then(|entry| entry.metadata()) {
            Ok(metadata) if metadata.is_dir() => directory(state, request, &path, access).await,
            _ => refuse_read(state, &request, access).await,
        };
    };
    let path = path.fenced(fence);
    match state.root.open_file(&path).await {
        Ok(_) if request.path.ends_with('/') => answer_missing(state, &request),
        Ok(file) => match file.metadata() {
            Ok(metadata) => file_response(&request, &path, file, &metadata),
            Err(error) => of_io_error(&error),
        },
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            directory(state, request, &path, access).await
        }
        Err(error) => {
            let answer = of_io_error(&error);
            if answer.status == StatusCode::NOT_FOUND { answer_missing(state, &request) } else { answer }
        }
    }
}

/// Answers 404, for browsers with a page.
fn answer_missing(state: &DirectoryState, request: &HttpRequest) -> HttpResponse {
    if asks_for_page(request) { page::answer_missing(state, request) } else { not_found() }
}

fn asks_for_page(request: &HttpRequest) -> bool {
    request.header(ACCEPT).is_some_and(|accept| accept.contains("text/html"))
}

async fn refuse_read(state: &DirectoryState, request: &HttpRequest, access: &RequestRights) -> HttpResponse {
    if asks_for_page(request) {
        page::answer_refused(state, Some(&state.root), request, access).await
    } else {
        forbidden()
    }
}

async fn directory(
    state: &Arc<DirectoryState>,
    request: HttpRequest,
    path: &EntryPath,
    access: &RequestRights,
) -> HttpResponse {
    if !request.path.ends_with('/') {
        return to_directory(&request);
    }
    if let Some(format) = request.query("archive") {
        return archive::answer(state, &request, path, &format, access).await;
    }
    let format = ListingFormat::requested_by(&request);
    if matches!(format, None | Some(ListingFormat::Links))
        && let Some(moved) = page::below_the_bucket(state, &request, path).await
    {
        return moved;
    }
    match format {
        Some(format) => listing::answer(state, &request, path, format, access).await,
        None => page::directory(state, &request, path, access).await,
    }
}

/// Redirects a request for a directory to its URL, which ends in `/`.
fn to_directory(request: &HttpRequest) -> HttpResponse {
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    let path = format!("{}{}", request.prefix, request.path);
    // Browsers read `//x` and `/\x` as another host.
    let path = match path.split_at_checked(1) {
        Some(("/", rest)) if rest.starts_with('/') => format!("/%2F{}", &rest[1..]),
        Some(("/", rest)) if rest.starts_with('\\') => format!("/%5C{}", &rest[1..]),
        _ => path,
    };
    HttpResponse::text(StatusCode::MOVED_PERMANENTLY, "this is a directory")
        .with_header(LOCATION, format!("{path}/{query}"))
}

/// Answers with a file, after evaluating conditions and ranges.
fn file_response(request: &HttpRequest, path: &EntryPath, file: File, metadata: &Metadata) -> HttpResponse {
    let version = EtagIdentity::from(metadata);
    let kept = ObjectMetadata::read(&file);
    let (described, name) = (Described::from(&version), path.name());
    match select(request, &described, &kept) {
        Err(refused) => *refused,
        Ok(selected) => {
            let range = selected.part().unwrap_or(ByteRange::new(0, version.size));
            let content = FileContent { file: Arc::new(file), range, version };
            object_response(request, name, &described, &kept, selected).with_body(ResponseBody::File(content))
        }
    }
}

/// The part of an object that a request selects.
#[derive(Clone, Copy, Debug)]
enum SelectedPart {
    Whole,
    /// A range, and the length of the whole object.
    Part(ByteRange, u64),
}

impl SelectedPart {
    /// Returns the range. `None`: the whole object.
    fn part(self) -> Option<ByteRange> {
        match self {
            Self::Whole => None,
            Self::Part(range, _) => Some(range),
        }
    }
}

/// Evaluates the conditions and the range of a read. Of an object without ranges, the whole object
/// is selected.
///
/// # Errors
/// The response without content, if a condition fails or the range cannot be satisfied.
fn select(
    request: &HttpRequest,
    described: &Described,
    kept: &ObjectMetadata,
) -> Result<SelectedPart, Box<HttpResponse>> {
    let current = described.current();
    let without = |status| Box::new(described_response(status, described));
    match judge_read(&request.headers, current) {
        ConditionResult::Proceed => {}
        ConditionResult::NotModified => {
            let mut response = without(StatusCode::NOT_MODIFIED);
            response.headers.extend(kept.cache_headers());
            return Err(response);
        }
        ConditionResult::Failed => return Err(without(StatusCode::PRECONDITION_FAILED)),
    }
    let Some(size) = described.ranged_size() else { return Ok(SelectedPart::Whole) };
    match range_of_header(&request.headers, current, size) {
        RangeAnswer::Whole => Ok(SelectedPart::Whole),
        RangeAnswer::Part(range) => Ok(SelectedPart::Part(range, size)),
        RangeAnswer::Unsatisfiable => {
            let refused = described_response(StatusCode::RANGE_NOT_SATISFIABLE, described);
            Err(Box::new(refused.with_header(CONTENT_RANGE, format!("bytes */{size}"))))
        }
    }
}

/// Makes a response with the version of an object.
fn described_response(status: StatusCode, described: &Described) -> HttpResponse {
    let mut response = HttpResponse::new(status).with_header(ACCEPT_RANGES, described.accepted_ranges());
    if let Some(etag) = &described.etag {
        response = response.with_header(ETAG, etag);
    }
    if let Some(modified) = described.modified {
        response = response.with_header(LAST_MODIFIED, format_http_date(modified));
    }
    response
}

/// Makes the response with the object `name`, without its body.
fn object_response(
    request: &HttpRequest,
    name: Option<&OsStr>,
    described: &Described,
    kept: &ObjectMetadata,
    selected: SelectedPart,
) -> HttpResponse {
    let mut response = match selected {
        SelectedPart::Whole => described_response(StatusCode::OK, described),
        SelectedPart::Part(range, size) => described_response(StatusCode::PARTIAL_CONTENT, described)
            .with_header(CONTENT_RANGE, format!("bytes {}-{}/{size}", range.start, range.end - 1)),
    };
    response.headers.extend(kept.headers());
    let content_type = kept.content_type.as_deref().unwrap_or_else(|| content_type(name));
    response = response.with_header(CONTENT_TYPE, content_type);
    if request.query("download").is_some() {
        let name = name.unwrap_or_default().as_bytes();
        response = response.with_header(CONTENT_DISPOSITION, attachment(name));
    }
    response
}

fn range_of_header(headers: &HeaderMap, current: CurrentVersion<'_>, size: u64) -> RangeAnswer {
    let mut values = headers.get_all(RANGE).iter();
    let only = values.next().filter(|_| values.next().is_none());
    match only.and_then(|value| value.to_str().ok()) {
        Some(value) if range_applies(headers, current) => parse_range(value, size),
        _ => RangeAnswer::Whole,
    }
}

async fn put(
    state: &Arc<DirectoryState>,
    mut request: HttpRequest,
    path: &EntryPath,
) -> io::Result<HttpResponse> {
    if request.path.ends_with('/') {
        return Ok(HttpResponse::text(StatusCode::BAD_REQUEST, "a file's name cannot end in `/`"));
    }
    if request.headers.contains_key(CONTENT_RANGE) {
        // RFC 9110 section 14.5: a server must refuse a partial PUT, because storing the part as
        // the whole file would corrupt the file.
        return Ok(HttpResponse::text(StatusCode::BAD_REQUEST, "a PUT must carry the whole file"));
    }
    if request.headers.get_all(CONTENT_ENCODING).iter().any(is_chunk_coding) {
        let line = "a body in aws-chunked coding is S3's: send x-amz-content-sha256 with it";
        return Ok(HttpResponse::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, line));
    }
    let stated = match StatedChecksums::of_headers(&request.headers, &[], None, Trailers::default()) {
        Ok(stated) => stated,
        Err(refused) => return Ok(HttpResponse::text(StatusCode::BAD_REQUEST, refused)),
    };
    let kept = match parse_metadata(&request.headers, path.name()) {
        Ok(kept) => kept,
        Err(refusal) => return Ok(refused_metadata(refusal)),
    };
    let condition = Condition::of_headers(&request.headers);
    if let Err(unmet) = check_write(state, path, &condition).await? {
        return Ok(unmet_answer(unmet));
    }
    let (root, buckets, parent) = (state.root.clone(), state.config.buckets.clone(), path.parent());
    let create = move || TemporaryFile::create(&root, &staging::bucket_of(&root, &buckets, &parent));
    let temporary = blocking(create).await?;
    let mut writer = PieceWriter::new(temporary.file().clone(), 0, stated.hashers_to_compare());
    while let Some(piece) = request.body.next().await {
        let piece = piece?;
        state.metrics.received_bytes.fetch_add(piece.len() as u64, Relaxed);
        writer.write(piece).await?;
    }
    if let Err(refused) = stated.check(writer.finish().await?.finish()) {
        return Ok(HttpResponse::text(StatusCode::BAD_REQUEST, refused));
    }
    let (root, path) = (state.root.clone(), path.clone());
    let publish = move || {
        match kept == ObjectMetadata::default() {
            true => stamp(temporary.file())?,
            false => kept.write(temporary.file())?,
        }
        separate_unmet(publish::publish_temporary(&root, temporary, &EntryPath::default(), &path, &condition))
    };
    let published = match blocking(publish).await? {
        Ok(published) => published,
        Err(unmet) => return Ok(unmet_answer(unmet)),
    };
    let status = if published.replaced.is_some() { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    Ok(HttpResponse::new(status).with_header(ETAG, published.identity.quoted_etag()))
}

async fn delete(
    state: &Arc<DirectoryState>,
    request: &HttpRequest,
    path: EntryPath,
) -> io::Result<HttpResponse> {
    let (root, condition) = (state.root.clone(), Condition::of_headers(&request.headers));
    // A path that ends in `/` names a directory, so it must not remove a file.
    let names_directory = request.path.ends_with('/');
    let remove = move || {
        let remove = |kind| separate_unmet(publish::remove(&root, &path, kind, &condition));
        if names_directory {
            return remove(RemovedKind::Directory);
        }
        match remove(RemovedKind::File)? {
            Ok(false) | Err(UnmetCondition::Missing) => remove(RemovedKind::Directory),
            done => Ok(done),
        }
    };
    Ok(match blocking(remove).await? {
        Ok(true) => HttpResponse::new(StatusCode::NO_CONTENT),
        Ok(false) => not_found(),
        Err(unmet) => unmet_answer(unmet),
    })
}

/// Returns the metadata of the file `name` from the headers of its PUT that describe the content
/// (RFC 9110, section 8). `Cache-Control` describes the request, unlike in S3. The sent content
/// type counts only if the name gives none, because clients send some type with any body.
fn parse_metadata(headers: &HeaderMap, name: Option<&OsStr>) -> Result<ObjectMetadata, MetadataRefusal> {
    let ObjectMetadata { content_type, content_disposition, content_encoding, content_language, .. } =
        ObjectMetadata::of_headers(headers)?;
    let typed_by_name = self::content_type(name);
    let described = ObjectMetadata {
        content_type: content_type.filter(|sent| typed_by_name == UNKNOWN && !sent.starts_with(FORM_TYPE)),
        content_disposition,
        content_encoding: content_encoding.filter(|coding| !coding.eq_ignore_ascii_case("identity")),
        content_language,
        ..ObjectMetadata::default()
    };
    described.check()?;
    Ok(described)
}

fn refused_metadata(refusal: MetadataRefusal) -> HttpResponse {
    let is_unsupported = refusal == MetadataRefusal::NoAttributes;
    let status = if is_unsupported { StatusCode::NOT_IMPLEMENTED } else { StatusCode::BAD_REQUEST };
    HttpResponse::text(status, refusal)
}

/// True if a `Content-Encoding` names S3's own coding, whose framing must never be stored.
fn is_chunk_coding(value: &HeaderValue) -> bool {
    String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase().contains("aws-chunked")
}

/// Evaluates the condition of a write before its body is read. Publishing evaluates it again.
async fn check_write(
    state: &DirectoryState,
    path: &EntryPath,
    condition: &Condition,
) -> io::Result<Result<(), UnmetCondition>> {
    if *condition == Condition::default() {
        return Ok(Ok(()));
    }
    let (root, path, condition) = (state.root.clone(), path.clone(), condition.clone());
    blocking(move || separate_unmet(publish::check(&root, &path, &condition))).await
}

/// Runs file system work on a blocking thread, so that other connections do not wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Separates an unmet condition from other errors.
fn separate_unmet<T>(done: publish::Result<T>) -> io::Result<Result<T, UnmetCondition>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(publish::Error::Unmet(unmet)) => Ok(Err(unmet)),
        Err(publish::Error::Io(error)) => Err(error),
    }
}

fn unmet_answer(unmet: UnmetCondition) -> HttpResponse {
    HttpResponse::text(StatusCode::PRECONDITION_FAILED, unmet)
}

fn refuse_write(state: &DirectoryState, access: &RequestRights) -> HttpResponse {
    if state.config.writing == WritePolicy::Refused {
        return HttpResponse::text(
            StatusCode::FORBIDDEN,
            "this server takes no writes; start it with --write",
        );
    }
    if matches!(access, RequestRights::Nobody) { unauthorized() } else { forbidden() }
}
