//! Derives the content type of a file from its extension, for the types that browsers and data
//! tools act upon.

use std::ffi::OsStr;
use std::path::Path;

/// The content type for unknown extensions. Browsers then save the file.
const UNKNOWN: &str = "application/octet-stream";

/// The content type a file of this name is served with.
pub(crate) fn content_type(name: Option<&OsStr>) -> &'static str {
    let extension = name.and_then(|name| Path::new(name).extension()).and_then(OsStr::to_str);
    let Some(extension) = extension.map(str::to_ascii_lowercase) else { return UNKNOWN };
    match extension.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" | "log" | "md" | "toml" | "yaml" | "yml" | "ini" | "cfg" | "rs" | "py" | "c" | "h" | "sh" => {
            "text/plain; charset=utf-8"
        }
        "csv" => "text/csv; charset=utf-8",
        "tsv" => "text/tab-separated-values; charset=utf-8",
        "xml" => "application/xml",
        "json" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "svg" => "image/svg+xml",
        "ico" => "image/x-icon",
        "tif" | "tiff" => "image/tiff",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" | "oga" => "audio/ogg",
        "flac" => "audio/flac",
        "mp4" | "m4v" => "video/mp4",
        "webm" => "video/webm",
        "mkv" => "video/x-matroska",
        "mov" => "video/quicktime",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "bz2" => "application/x-bzip2",
        "xz" => "application/x-xz",
        "zst" => "application/zstd",
        "tar" => "application/x-tar",
        "parquet" => "application/vnd.apache.parquet",
        "arrow" => "application/vnd.apache.arrow.file",
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_known_in_any_case_and_unknown_ones_are_saved() {
        assert_eq!(content_type(Some(OsStr::new("A.JSON"))), "application/json");
        assert_eq!(content_type(Some(OsStr::new("reads.bam"))), UNKNOWN);
        assert_eq!(content_type(Some(OsStr::new("json"))), UNKNOWN);
    }
}
