//! Answers requests below `/.firstbyte/changes`, which change entries. Every request names the
//! directory by `path`, and entries as in their URLs. All requests are POST with a JSON body.
//!
//! | request | body | answers |
//! | --- | --- | --- |
//! | `changes/folder?path=` | `{name}` | `{}` |
//! | `changes/rename?path=` | `{entry, name}` | `{}` |
//! | `changes/delete?path=` | `{entries: [], forever}` | `{done: [], failed: []}` |
//! | `changes/restore?path=` | `{ids: []}` | `{done: [], failed: []}` |
//!
//! A done entry is `{entry, id}`, without an id if it was deleted forever. A failed entry also has
//! `error` and `message`. The trash needs some space on the disk. If the disk is full, a delete
//! fails with the error `space`, and only a delete with `forever` works.
//!
//! Refusals and the protection from other sites are the same as in the upload [`super::protocol`].

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::entries::{EditedDirectory, Error};
use super::protocol::{PageRefusal, PageResult, blocking, json_response, read_json, writable};
use crate::access::keys::RequestRights;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::state::DirectoryState;

/// Maximum length of a JSON body in bytes: 10,000 names of common length, selected on the page.
const MAX_JSON_BYTES: usize = 1 << 20;

impl From<Error> for PageRefusal {
    fn from(error: Error) -> Self {
        let (status, code) = error.code();
        if status.is_server_error() {
            tracing::warn!("a change from the page: {error}");
        }
        Self(status, code, error.to_string())
    }
}

#[derive(Deserialize)]
struct Folder {
    name: String,
}

#[derive(Deserialize)]
struct Renaming {
    entry: String,
    name: String,
}

#[derive(Deserialize)]
struct Deletion {
    entries: Vec<String>,
    #[serde(default)]
    forever: bool,
}

#[derive(Deserialize)]
struct Restoration {
    ids: Vec<String>,
}

/// Answers one request of the protocol. `what` is the last component of its path.
pub(super) async fn answer(
    state: &DirectoryState,
    access: &RequestRights,
    request: HttpRequest,
    what: &str,
) -> HttpResponse {
    dispatch(state, access, request, what).await.unwrap_or_else(PageRefusal::into_response)
}

async fn dispatch(
    state: &DirectoryState,
    access: &RequestRights,
    mut request: HttpRequest,
    what: &str,
) -> PageResult {
    let path = writable(state, access, &request)?;
    if request.method != Method::POST {
        return Err(PageRefusal(
            StatusCode::METHOD_NOT_ALLOWED,
            "request",
            "changes are POST requests".into(),
        ));
    }
    let directory = EditedDirectory { root: state.root.clone(), buckets: state.config.buckets.clone(), path };
    let body = &mut request.body;
    let done = match what {
        "folder" => {
            let Folder { name } = read_json(body, MAX_JSON_BYTES).await?;
            blocking(move || directory.make(&name)).await?;
            json!({})
        }
        "rename" => {
            let Renaming { entry, name } = read_json(body, MAX_JSON_BYTES).await?;
            blocking(move || directory.rename(&entry, &name)).await?;
            json!({})
        }
        "delete" => {
            let Deletion { entries, forever } = read_json(body, MAX_JSON_BYTES).await?;
            let delete = move |entry: &str| match forever {
                true => directory.delete_forever(entry).map(|()| json!({ "entry": entry })),
                false => directory.delete(entry).map(|id| json!({ "entry": entry, "id": id })),
            };
            blocking(move || Ok::<_, Error>(apply_to_each(&entries, "entry", delete))).await?
        }
        "restore" => {
            let Restoration { ids } = read_json(body, MAX_JSON_BYTES).await?;
            let restore =
                move |id: &str| directory.restore(id).map(|entry| json!({ "entry": entry, "id": id }));
            blocking(move || Ok::<_, Error>(apply_to_each(&ids, "id", restore))).await?
        }
        _ => return Err(PageRefusal(StatusCode::NOT_FOUND, "request", "there is no such change".into())),
    };
    Ok(json_response(StatusCode::OK, &done))
}

/// Calls `work` for each of `items`, and collects the results. A failed item does not stop the
/// others.
fn apply_to_each(items: &[String], key: &str, work: impl Fn(&str) -> Result<Value, Error>) -> Value {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for item in items {
        match work(item) {
            Ok(value) => done.push(value),
            Err(error) => {
                failed.push(json!({ key: item, "error": error.code().1, "message": error.to_string() }));
            }
        }
    }
    json!({ "done": done, "failed": failed })
}
