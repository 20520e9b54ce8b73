//! Tests listings whose pages do not state clearly whether they are complete. A listing returns all
//! names or an error, never fewer names.

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{Error, ListOptions, Result, Upload};

use crate::server::{Server, Step, refusal, whole};

fn object(key: &str) -> Location {
    Location::parse(format!("s3://bucket/{key}").as_ref()).unwrap()
}

fn keys(names: &[&str]) -> String {
    names.iter().map(|name| format!("<Contents><Key>{name}</Key><Size>1</Size></Contents>")).collect()
}

fn page(truncated: &str, more: &str, names: &[&str]) -> String {
    let keys = keys(names);
    whole("", &format!("<ListBucketResult>{truncated}{more}{keys}</ListBucketResult>"))
}

/// Lists a bucket of the keys a, b, c and d, in pages of two. The first page has these elements.
fn listed(truncated: &'static str, more: &'static str) -> Result<Vec<String>> {
    let server = Server::answering(move |head| {
        let later = ["continuation-token=", "start-after=", "marker="];
        match later.iter().any(|name| head.contains(name)) {
            true => page("<IsTruncated>false</IsTruncated>", "", &["c", "d"]),
            false => page(truncated, more, &["a", "b"]),
        }
    });
    let entries =
        server.store().list(&object(""), &ListOptions { recursive: true, ..ListOptions::default() })?;
    entries.map(|entry| Ok(String::from_utf8(entry?.name).unwrap())).collect()
}

const TOKEN: &str = "<NextContinuationToken>t</NextContinuationToken>";

#[test]
fn a_truncated_page_is_followed_in_every_spelling_of_true() {
    for truncated in ["true", "True", "TRUE", "1", " true "] {
        let element: &'static str = format!("<IsTruncated>{truncated}</IsTruncated>").leak();
        for more in [TOKEN, "", "<NextContinuationToken></NextContinuationToken>", "<NextContinuationToken/>"]
        {
            let mut names = listed(element, more).unwrap();
            names.sort();
            assert_eq!(names, ["a", "b", "c", "d"], "{element} {more}");
        }
    }
}

#[test]
fn a_page_that_does_not_say_whether_it_is_the_last_is_an_error() {
    for (truncated, more) in [
        ("<IsTruncated>yes</IsTruncated>", TOKEN),
        ("<IsTruncated>2</IsTruncated>", ""),
        ("<IsTruncated></IsTruncated>", TOKEN),
        ("", TOKEN),
    ] {
        let listed = listed(truncated, more);
        assert!(matches!(listed, Err(Error::Protocol { .. })), "{truncated} {more}: {listed:?}");
    }
    for truncated in ["<IsTruncated>false</IsTruncated>", "<IsTruncated>0</IsTruncated>", ""] {
        assert_eq!(listed(truncated, "").unwrap(), ["a", "b"]);
    }
}

#[test]
fn a_truncated_page_without_names_and_without_a_token_is_an_error() {
    let server = Server::answering(|_| page("<IsTruncated>true</IsTruncated>", "", &[]));
    let listed = server.store().list(&object(""), &ListOptions::default());
    assert!(matches!(listed.err(), Some(Error::Protocol { .. })));
}

#[test]
fn lists_of_uploads_and_parts_are_complete_or_an_error() {
    let uploads = |elements: &str| {
        let text = format!(
            "<ListMultipartUploadsResult>{elements}<Upload><Key>k</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>"
        );
        let last = whole("", "<ListMultipartUploadsResult></ListMultipartUploadsResult>");
        let server = Server::start(vec![Step::Keep(whole("", &text)), Step::Close(last)]);
        server.store().stale_uploads(&object("")).map(|uploads| (uploads.len(), server.heads().len()))
    };
    let marker = "<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>";
    for truncated in ["true", "True", "1"] {
        let both = format!("<IsTruncated>{truncated}</IsTruncated>{marker}");
        assert_eq!(uploads(&both).unwrap(), (1, 2), "{truncated}");
    }
    assert_eq!(uploads("<IsTruncated>0</IsTruncated>").unwrap(), (1, 1));
    for bad in ["<IsTruncated>true</IsTruncated>", "<IsTruncated>maybe</IsTruncated>"] {
        assert!(matches!(uploads(bad), Err(Error::Protocol { .. })), "{bad}");
    }
    // Parts are numbered, so that the last number is the marker.
    let part = "<Part><PartNumber>1</PartNumber><Size>3</Size><ETag>e</ETag></Part>";
    let first = format!("<ListPartsResult><IsTruncated>1</IsTruncated>{part}</ListPartsResult>");
    let last = "<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>";
    let server = Server::start(vec![Step::Keep(whole("", &first)), Step::Close(whole("", last))]);
    let upload = Upload { location: object("k"), id: "u".to_owned() };
    assert_eq!(server.store().list_parts(&upload).unwrap().len(), 1);
    assert!(server.heads()[1].contains("part-number-marker=1"));
}

#[test]
fn a_listed_prefix_is_not_below_itself_and_names_are_complete() {
    let server = Server::answering(|_| {
        let prefixes = ["p/", "", "p/dir", "p/sub/", "p//"];
        let prefixes: String = prefixes
            .iter()
            .map(|it| format!("<CommonPrefixes><Prefix>{it}</Prefix></CommonPrefixes>"))
            .collect();
        page("<IsTruncated>false</IsTruncated>", &prefixes, &["p/file"])
    });
    let entries = server.store().list(&object("p/"), &ListOptions::default()).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (String::from_utf8(entry.name).unwrap(), entry.kind == EntryKind::Directory))
        .collect();
    names.sort();
    let wanted = [("/", true), ("dir", true), ("file", false), ("sub", true)];
    assert_eq!(names, wanted.map(|(name, is_directory)| (name.to_owned(), is_directory)));
}

#[test]
fn an_object_without_a_listed_size_has_no_size_and_not_0() {
    for size in ["", "<Size></Size>", "<Size/>"] {
        let element: &'static str = format!("<Contents><Key>a</Key>{size}</Contents>").leak();
        let server = Server::answering(move |_| page("<IsTruncated>false</IsTruncated>", element, &["b"]));
        let entries = server.store().list(&object(""), &ListOptions::default()).unwrap();
        let sizes: Vec<_> = entries.map(|entry| entry.unwrap().size).collect();
        assert_eq!(sizes, [None, Some(1)], "{size}");
    }
}

#[test]
fn a_web_page_cut_by_the_end_of_its_connection_lists_nothing() {
    let list = |body: &'static str| {
        let server = Server::start(vec![
            Step::Close(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n{body}"
            )),
            Step::Close(refusal("403 Forbidden", "", "")),
            Step::Close(refusal("403 Forbidden", "", "")),
        ]);
        let options =
            firstbyte_store::StoreOptions { retries: 0, ..firstbyte_store::StoreOptions::default() };
        let store = firstbyte_store::Store::new(options).unwrap();
        let entries: Result<Vec<_>> =
            store.list(&server.url("/d/"), &ListOptions::default()).and_then(Iterator::collect);
        entries.map(|entries| entries.len())
    };
    assert_eq!(list("<html><title>Index of /d/</title><a href=a>a</a></HTML>\n").unwrap(), 1);
    let cut = list("<html><title>Index of /d/</title><a href=a>a</a><a hre");
    assert!(matches!(cut, Err(Error::Disconnected { .. })), "{cut:?}");
}
