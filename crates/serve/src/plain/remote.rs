//! Answers plain HTTP requests for the objects of a gateway: GET and HEAD of objects, listings for
//! programs, and the page of a directory. Called by the router.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use firstbyte_location::{ByteRange, Entry, EntryKind};
use firstbyte_store::{ListOptions, Listing, date_of};
use http::header::{ACCEPT, ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{Method, StatusCode};
use time::format_description::well_known::Rfc3339;

use super::lines::{Lines, ListingFormat, ListingLine};
use super::{object_response, select, to_directory};
use crate::access::keys::RequestRights;
use crate::gateway::{
    BlockFrames, FRAMES, Gateway, GatewayRefusal, RETRY_SECONDS, RemoteObject, STALE, Visible,
};
use crate::http::refusal::{not_found, unauthorized};
use crate::http::request::HttpRequest;
use crate::http::response::{HttpResponse, ResponseBody};
use crate::page;
use crate::page::html::url_path;
use crate::page::rows::{self, PageRow, ROWS_WITHOUT_SCRIPTS};
use crate::path::EntryPath;
use crate::state::ServerState;

/// Answers a plain request for an object or a directory.
pub(crate) async fn answer(
    state: &ServerState,
    gateway: &Arc<Gateway>,
    request: HttpRequest,
    access: &RequestRights,
) -> HttpResponse {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        let refused = GatewayRefusal::ReadOnly(gateway.location().to_string());
        let mut response = refusal_response(&refused).with_header(ALLOW, "GET, HEAD, OPTIONS");
        response.status = StatusCode::METHOD_NOT_ALLOWED;
        return response;
    }
    let asks_for_page = request.header(ACCEPT).is_some_and(|accept| accept.contains("text/html"));
    if matches!(access, RequestRights::Nobody) {
        return if asks_for_page { page::login(state, &request) } else { unauthorized() };
    }
    let Some(name) = Name::parse(gateway, &request.path) else {
        return HttpResponse::text(StatusCode::BAD_REQUEST, "no key is named so: keys are UTF-8");
    };
    let answered = match name.is_directory() {
        true => directory(state, gateway, &request, &name, access).await,
        false => object(gateway, &request, &name, access).await,
    };
    match answered {
        Err(GatewayRefusal::Forbidden) if asks_for_page => {
            page::answer_refused(state, None, &request, access).await
        }
        answered => answered.unwrap_or_else(|refused| refusal_response(&refused)),
    }
}

/// Makes the response for a request that the gateway does not serve.
pub(crate) fn refusal_response(refused: &GatewayRefusal) -> HttpResponse {
    let response = match refused {
        GatewayRefusal::NotFound | GatewayRefusal::NoVersion | GatewayRefusal::NoBucket => {
            return not_found();
        }
        refused => HttpResponse::text(refused.status(), refused),
    };
    match refused.status() {
        StatusCode::SERVICE_UNAVAILABLE => response.with_header(RETRY_AFTER, RETRY_SECONDS.to_string()),
        _ => response,
    }
}

/// The bucket and key that a path names.
struct Name {
    bucket: String,
    key: String,
}

impl Name {
    /// Decodes the path once. If there is only one bucket, the router has already removed its name.
    fn parse(gateway: &Gateway, path: &str) -> Option<Self> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?.into_owned();
        if !gateway.has_buckets() {
            return Some(Self { bucket: String::new(), key: path });
        }
        let (bucket, key) =
            path.split_once('/').map_or((path.as_str(), None), |(bucket, key)| (bucket, Some(key)));
        // A bucket is a directory, and a directory's URL ends in a slash.
        let key = key.map_or_else(String::new, str::to_owned);
        Some(Self { bucket: bucket.to_owned(), key })
    }

    fn is_directory(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }
}

/// Answers with the object, or with a redirection if the name is that of a directory.
async fn object(
    gateway: &Arc<Gateway>,
    request: &HttpRequest,
    name: &Name,
    access: &RequestRights,
) -> Result<HttpResponse, GatewayRefusal> {
    let found = match gateway.look_up(access, &name.bucket, &name.key, (None, &request.headers)).await {
        Err(GatewayRefusal::NotFound | GatewayRefusal::Forbidden)
            if gateway.visible(access, &name.bucket).reaches(&format!("{}/", name.key)) =>
        {
            if !gateway.is_directory(&name.bucket, &name.key).await? {
                return Err(GatewayRefusal::NotFound);
            }
            return Ok(to_directory(request));
        }
        found => found?,
    };
    let (described, kept) = (found.described(), found.metadata());
    let selected = match select(request, &described, &kept) {
        Ok(selected) => selected,
        Err(refused) => return Ok(*refused),
    };
    let part = selected.part();
    let file_name = name.key.rsplit('/').next().map(OsStr::new);
    let response = object_response(request, file_name, &described, &kept, selected);
    let response = with_stale_header(response, &found);
    if request.method == Method::HEAD {
        return Ok(match part.map(ByteRange::len).or(described.size) {
            Some(length) => response.with_header(CONTENT_LENGTH, length.to_string()),
            None => response.with_body(ResponseBody::of_unknown_length()),
        });
    }
    let frames = Gateway::frames(&request.headers, part, &found);
    let response = match frames {
        BlockFrames::Blocks => response.with_header(HeaderName::from_static(FRAMES), "1"),
        BlockFrames::None => response,
    };
    Ok(response.with_body(gateway.read(&found, part, frames).await?))
}

/// Adds the age of the look-up to the response if the origin could not be asked again.
fn with_stale_header(response: HttpResponse, found: &RemoteObject) -> HttpResponse {
    match found.stale {
        Some(age) => response.with_header(HeaderName::from_static(STALE), age.as_secs().to_string()),
        None => response,
    }
}

async fn directory(
    state: &ServerState,
    gateway: &Arc<Gateway>,
    request: &HttpRequest,
    name: &Name,
    access: &RequestRights,
) -> Result<HttpResponse, GatewayRefusal> {
    if request.query("archive").is_some() {
        return Err(GatewayRefusal::Unsupported(
            "a gateway makes no archives; copy the prefix with `firstbyte cp -r`",
        ));
    }
    let recursive = request.query("recursive").is_some();
    let mut rows = Rows::open(gateway, name, access, recursive).await?;
    let path = EntryPath::parse(gateway.path(&name.bucket, &name.key).as_bytes());
    match (ListingFormat::requested_by(request), path) {
        (None, Ok(path)) => {
            let first = blocking(move || {
                let mut first = Vec::new();
                while first.len() < ROWS_WITHOUT_SCRIPTS
                    && let Some(row) = rows.next()?
                {
                    first.push(PageRow {
                        name: row.name,
                        is_file: row.kind == EntryKind::File,
                        size: row.size,
                    });
                }
                rows::sort(&mut first);
                Ok(first)
            });
            let first = first.await.map_err(|error| GatewayRefusal::Unavailable(error.to_string()))?;
            Ok(page::remote_directory(state, request, &path, access, &first))
        }
        (format, _) => {
            let format = format.unwrap_or(ListingFormat::Links);
            let below = gateway.path(&name.bucket, &name.key);
            let links = format!("{}/{}", request.prefix, url_path(below.as_bytes()));
            Ok(stream(rows, format, links))
        }
    }
}

/// The next lines of a listing, and the state to continue it, which is `None` after the last lines.
type ListingStep = (Bytes, Option<(Rows, Lines)>);

/// Answers with a listing for programs. No thread waits for the client.
fn stream(rows: Rows, format: ListingFormat, links: String) -> HttpResponse {
    let state = Some((rows, Lines::new(format, links)));
    let stream = futures::stream::try_unfold(state, |state| async move {
        let Some((mut rows, mut lines)) = state else { return Ok(None) };
        // An error breaks off the response, so that the client sees that the list is incomplete.
        let next = move || -> io::Result<Option<ListingStep>> {
            while !lines.is_full() {
                match rows.next()? {
                    Some(entry) => lines.add(&line(&entry))?,
                    None => {
                        lines.end();
                        return Ok(lines.take().map(|piece| (piece, None)));
                    }
                }
            }
            Ok(lines.take().map(|piece| (piece, Some((rows, lines)))))
        };
        blocking(next).await.inspect_err(|error| tracing::warn!(%error, "a list ended early"))
    });
    HttpResponse::new(StatusCode::OK)
        .with_header(CONTENT_TYPE, format.content_type())
        .with_body(ResponseBody::Stream(Box::pin(stream)))
}

fn line(entry: &Entry) -> ListingLine<'_> {
    let modified = entry.modified.and_then(date_of).and_then(|date| date.format(&Rfc3339).ok());
    ListingLine {
        name: &entry.name,
        is_file: entry.kind == EntryKind::File,
        size: entry.size,
        modified: modified.unwrap_or_default(),
        etag: entry.etag.as_deref().map(|etag| etag.trim_matches('"').to_owned()),
    }
}

/// The entries of a directory that a request may see, in the origin's order.
struct Rows {
    gateway: Arc<Gateway>,
    access: RequestRights,
    bucket: String,
    key: String,
    first: Option<Entry>,
    rest: Option<Listing>,
}

impl Rows {
    /// Opens the listing and reads its first entry.
    ///
    /// # Errors
    /// The directory does not exist, the request may not see any of its entries, or the origin does
    /// not answer.
    async fn open(
        gateway: &Arc<Gateway>,
        name: &Name,
        access: &RequestRights,
        recursive: bool,
    ) -> Result<Self, GatewayRefusal> {
        let Name { bucket, key } = name;
        let visible = gateway.visible(access, bucket);
        let (gateway, access) = (Arc::clone(gateway), access.clone());
        let mut rows = Self {
            gateway: gateway.clone(),
            access: access.clone(),
            bucket: bucket.clone(),
            key: key.clone(),
            first: None,
            rest: None,
        };
        if gateway.has_buckets() && bucket.is_empty() {
            let names = gateway.buckets().await?.into_iter();
            let entries = names.map(|name| Ok(Entry::named(name.into_bytes(), EntryKind::Directory)));
            rows.rest = Some(Listing::of(entries));
            return Ok(rows);
        }
        if !visible.reaches(key) {
            return Err(GatewayRefusal::Forbidden);
        }
        let root = visible.root().ok_or(GatewayRefusal::Forbidden)?;
        if let Some(below) = root.strip_prefix(key.as_str()).filter(|below| below.contains('/') && !recursive)
        {
            // All visible entries lie below one subdirectory, so only that subdirectory is listed.
            let next = below.split('/').next().unwrap_or_default();
            rows.first = Some(Entry::named(next.as_bytes().to_vec(), EntryKind::Directory));
            return Ok(rows);
        }
        let options = ListOptions { recursive, ..ListOptions::default() };
        let listing = gateway.list(bucket, key, options).await?;
        rows.rest = Some(listing);
        blocking(move || {
            rows.first = rows.next()?;
            Ok(rows)
        })
        .await
        .map_err(|error| GatewayRefusal::Unavailable(error.to_string()))
        .and_then(|rows| {
            if rows.first.is_none() && !rows.key.is_empty() {
                Err(GatewayRefusal::NotFound)
            } else {
                Ok(rows)
            }
        })
    }

    fn next(&mut self) -> io::Result<Option<Entry>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some(rest) = &mut self.rest else { return Ok(None) };
        for entry in rest.by_ref() {
            let entry = entry.map_err(io::Error::other)?;
            let Ok(name) = std::str::from_utf8(&entry.name) else { continue };
            let (is_bucket, is_file) =
                (self.gateway.has_buckets() && self.bucket.is_empty(), entry.kind == EntryKind::File);
            let bucket = if is_bucket { name } else { &self.bucket };
            let visible: Visible<'_> = self.gateway.visible(&self.access, bucket);
            let shown = match (is_bucket, is_file) {
                (true, _) => visible.reaches(""),
                (_, true) => visible.shows(&format!("{}{name}", self.key)),
                (_, false) => visible.reaches(&format!("{}{name}/", self.key)),
            };
            if shown && !name.is_empty() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Runs `work` on a blocking thread, so that other connections do not wait for the origin.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
