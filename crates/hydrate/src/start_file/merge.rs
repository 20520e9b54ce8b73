//! Joins the start files of several runs into one.

use std::collections::HashMap;

use firstbyte_location::{Location, Version};

use super::{Builder, StartFile};

/// The joined file, and the reads that were left out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedStartFile {
    /// The joined file.
    pub file: StartFile,
    /// Objects that have another version in a later file. The reads of their older versions are
    /// left out.
    pub changed: Vec<Location>,
    /// Number of bytes that were left out because they exceeded the limit.
    pub left_out: u64,
}

/// Joins start files, the newest of which must be the last. Ranges are sorted by the number of
/// bytes that their run had read before them. If several runs have read a range, the smallest of
/// their numbers counts. Ranges after the first `max` bytes are left out, in whole blocks.
///
/// # Errors
/// The files are of several locations, or a file is from a release that recorded no location.
pub fn merge(files: &[StartFile], max: u64) -> Result<MergedStartFile, String> {
    let roots: Vec<Option<&Location>> = files.iter().map(|file| file.root.as_ref()).collect();
    let Some(Some(root)) = roots.first().copied() else {
        return Err("the first file has no location: an older release wrote it; record it again".to_owned());
    };
    match roots.iter().find(|other| **other != Some(root)) {
        None => {}
        Some(None) => {
            return Err("one file has no location: an older release wrote it; record it again".to_owned());
        }
        Some(Some(other)) => {
            return Err(format!("one file is of {root}, another of {other}; join files of one location"));
        }
    }
    let mut newest: HashMap<&Location, &Option<Version>> = HashMap::new();
    for object in files.iter().flat_map(|file| &file.objects) {
        newest.insert(&object.location, &object.version);
    }
    let (mut merged, mut ordered) = (MergedStartFile::default(), Vec::new());
    for file in files {
        let older = file.objects.iter().filter(|object| *newest[&object.location] != object.version);
        merged.changed.extend(older.map(|object| object.location.clone()));
        let mut before = 0;
        for read in &file.reads {
            let object = &file.objects[read.object as usize];
            if *newest[&object.location] == object.version {
                ordered.push((before, object, read.range));
            }
            before = u64::saturating_add(before, read.range.len());
        }
    }
    // The sort is stable. So if ranges have equal numbers, the ranges of the first run come first.
    ordered.sort_by_key(|(before, ..)| *before);
    let mut builder = Builder { root: Some(root.clone()), ..Builder::default() };
    for directory in files.iter().flat_map(|file| &file.directories) {
        builder.add_directory(directory.clone());
    }
    for (_, object, range) in ordered {
        let number = builder.object(object.location.clone(), object.version.clone());
        number.into_iter().for_each(|number| builder.add_read(number, range));
    }
    merged.left_out = builder.shorten(max);
    merged.changed.sort_by_key(ToString::to_string);
    merged.changed.dedup();
    merged.file = builder.into_start_file();
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BLOCK;

    fn file(etag: &str, reads: &[(&str, u64, u64)]) -> StartFile {
        let mut text = "{\"start_file\":1,\"root\":\"s3://b/\"}\n".to_owned();
        for (at, (name, from, to)) in reads.iter().enumerate() {
            let (from, to, size) = (from * BLOCK, to * BLOCK, 100 * BLOCK);
            text += &format!(
                "{{\"read\":\"{name}\",\"from\":{from},\"to\":{to},\"at\":{at},\"size\":{size},\"etag\":\"{etag}\"}}\n"
            );
        }
        StartFile::parse(text.as_bytes()).unwrap()
    }

    fn blocks(merged: &MergedStartFile) -> Vec<(String, u64, u64)> {
        let reads = merged.file.reads.iter();
        let name = |object: u32| merged.file.objects[object as usize].location.to_string();
        reads
            .map(|read| (name(read.object)[7..].to_owned(), read.range.start / BLOCK, read.range.end / BLOCK))
            .collect()
    }

    #[test]
    fn a_range_comes_as_early_as_any_run_wanted_it_and_once() {
        let one = file("v", &[("x", 0, 2), ("y", 0, 1)]);
        let two = file("v", &[("z", 0, 1), ("x", 1, 3)]);
        let merged = merge(&[one, two], u64::MAX).unwrap();
        let of = |name: &str, from, to| (name.to_owned(), from, to);
        assert_eq!(blocks(&merged), [of("x", 0, 2), of("z", 0, 1), of("x", 2, 3), of("y", 0, 1)]);
        assert_eq!((merged.left_out, merged.changed.len()), (0, 0));
    }

    #[test]
    fn the_bound_leaves_out_what_does_not_fit_and_older_versions_go() {
        let one = file("v", &[("x", 0, 4), ("y", 0, 2)]);
        let merged = merge(std::slice::from_ref(&one), 5 * BLOCK).unwrap();
        assert_eq!(blocks(&merged), [("x".to_owned(), 0, 4), ("y".to_owned(), 0, 1)]);
        assert_eq!(merged.left_out, BLOCK);
        let newer = merge(&[one, file("w", &[("x", 7, 8)])], u64::MAX).unwrap();
        assert_eq!(blocks(&newer), [("x".to_owned(), 7, 8), ("y".to_owned(), 0, 2)]);
        assert_eq!(newer.changed.len(), 1);
    }

    #[test]
    fn the_bound_ends_the_file_and_counts_each_byte_once() {
        let long = file("v", &[("a", 0, 1), ("b", 0, 10), ("c", 0, 1)]);
        let merged = merge(std::slice::from_ref(&long), 3 * BLOCK - 1).unwrap();
        assert_eq!(blocks(&merged), [("a".to_owned(), 0, 1), ("b".to_owned(), 0, 1)]);
        assert_eq!((merged.left_out, merged.file.totals().objects), (10 * BLOCK, 2));
        let one = file("v", &[("x", 0, 1)]);
        let same = merge(&[one.clone(), one], BLOCK).unwrap();
        assert_eq!((blocks(&same).len(), same.left_out), (1, 0));
    }

    #[test]
    fn files_of_several_places_are_not_joined() {
        let other = StartFile::parse(b"{\"start_file\":1,\"root\":\"s3://c/\"}\n").unwrap();
        let why = merge(&[file("v", &[]), other], 1).unwrap_err();
        assert!(why.contains("s3://b/") && why.contains("s3://c/"), "{why}");
        let old = StartFile::parse(b"0 1 s3://b/x\n").unwrap();
        assert!(merge(&[file("v", &[]), old], 1).unwrap_err().contains("older release"));
    }
}
