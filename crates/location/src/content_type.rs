//! Derives the content type of a file from its extension, for the types that browsers and data
//! tools act upon. `serve` sends the type, and uploads store it.

use std::ffi::OsStr;
use std::path::Path;

/// Returns the content type of a file of this name. `None` for an unknown extension.
#[must_use]
pub fn content_type(name: &OsStr) -> Option<&'static str> {
    let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    Some(match extension.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" | "log" | "md" | "toml" | "yaml" | "yml" | "ini" | "cfg" | "rs" | "py" | "c" | "h" | "sh" => {
            "text/plain; charset=utf-8"
        }
        "csv" => "text/csv; charset=utf-8",
        "tsv" => "text/tab-separated-values; charset=utf-8",
        "xml" => "application/xml",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "geojson" => "application/geo+json",
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
        "ttf" => "font/ttf",
        "otf" => "font/otf",
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
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_known_in_any_case_and_a_name_without_one_has_no_type() {
        assert_eq!(content_type(OsStr::new("A.JSON")), Some("application/json"));
        assert_eq!(content_type(OsStr::new("d.html/index.HTML")), Some("text/html; charset=utf-8"));
        for name in ["reads.bam", "json", ".html", "d.html/x", ""] {
            assert_eq!(content_type(OsStr::new(name)), None, "{name}");
        }
    }
}
