//! Tests the survey: names that do not suit a layout, shapes, and counts, which are all reported
//! before any file moves.

use std::fs;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

/// Makes a directory with an empty file for each name.
fn directory_with_files(names: impl IntoIterator<Item = String>) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    names.into_iter().for_each(|name| fs::write(directory.path().join(name), "").unwrap());
    directory
}

/// Returns the SHA-256 of a number, in hexadecimal digits.
fn digest(number: u32) -> String {
    hex::encode(Sha256::digest(number.to_le_bytes()))
}

fn by(hash: DigitSource) -> LayoutRequest {
    LayoutRequest { hash: Some(hash), ..LayoutRequest::default() }
}

/// Returns the error for a refused directory. Asserts that the directory is unchanged.
#[track_caller]
fn refusal(directory: &TempDir, request: &LayoutRequest) -> Error {
    let before = listing(directory.path());
    let error = sharded(directory.path(), request).unwrap_err();
    assert_eq!(listing(directory.path()), before, "{error}");
    let told = survey(directory.path(), request).unwrap().fit().unwrap_err();
    assert_eq!(told.to_string(), error.to_string());
    error
}

#[test]
fn a_survey_reports_what_would_happen_and_changes_nothing() {
    let directory = flat(995);
    fs::create_dir(directory.path().join("sub")).unwrap();
    let before = listing(directory.path());
    let survey = survey(directory.path(), &LayoutRequest::default()).unwrap();
    assert_eq!((survey.files, survey.left, survey.directories), (1000, 1, 16));
    assert!(survey.unsuitable().is_none() && !survey.estimate.is_zero());
    assert_eq!(listing(directory.path()), before);
    sharded(directory.path(), &LayoutRequest::default()).unwrap();
    assert_eq!(survey_back(directory.path()).unwrap().files, 1000);
}

#[test]
fn names_that_stand_in_the_way_are_reported_before_anything_moves() {
    let directory = flat(10);
    fs::write(directory.path().join("c"), "").unwrap();
    let before = listing(directory.path());
    let error = sharded(directory.path(), &two_levels()).unwrap_err();
    assert!(matches!(error, Error::Unfit { count: 1, .. }), "{error}");
    fs::remove_file(directory.path().join("c")).unwrap();
    fs::create_dir(directory.path().join("d")).unwrap();
    assert!(matches!(sharded(directory.path(), &two_levels()), Err(Error::Unfit { .. })));
    assert_eq!(listing(directory.path()).len(), before.len());
}

#[test]
fn names_that_are_not_hashes_are_not_used_as_hashes() {
    let directory = flat(400);
    let request = LayoutRequest { hash: Some(DigitSource::NamePrefix), ..two_levels() };
    assert!(matches!(sharded(directory.path(), &request), Err(Error::Uneven { .. } | Error::Unfit { .. })));
    let hashes = tempfile::tempdir().unwrap();
    for number in 0..400_u32 {
        let name = hex::encode(Sha256::digest(number.to_le_bytes()));
        fs::write(hashes.path().join(name), "").unwrap();
    }
    assert_eq!(sharded(hashes.path(), &request).unwrap().moved, 400);
    fs::write(hashes.path().join("zz"), "").unwrap();
    assert_eq!(sharded(hashes.path(), &request).unwrap().failures, 1, "too short to be cut");
}

#[test]
fn names_that_no_shape_could_hold_are_reported_before_anything_moves() {
    let names = || (0..20).map(digest);
    let stray = directory_with_files(names().chain(["README".into()]));
    let error = refusal(&stray, &by(DigitSource::ContentSha256));
    assert!(matches!(error, Error::Unfit { count: 1, .. }), "{error}");
    assert!(error.to_string().contains("\"README\"") && error.to_string().contains("SHA-256"), "{error}");
    let cut = LayoutRequest {
        leaf: Some(Leaf::Rest),
        levels: Some(1),
        width: Some(2),
        ..by(DigitSource::NamePrefix)
    };
    let names = || (0..20).map(|number| digest(number)[..16].to_owned());
    for odd in ["ab.firstbyte-layout", "ab.", "..evil"] {
        let error = refusal(&directory_with_files(names().chain([odd.into()])), &cut);
        assert!(matches!(error, Error::Unfit { count: 1, .. }), "{error}");
    }
}

#[test]
fn entries_that_are_not_files_may_have_any_name() {
    let directory = directory_with_files((0..40).map(digest));
    fs::create_dir(directory.path().join("x")).unwrap();
    symlink("nowhere", directory.path().join("README")).unwrap();
    let request = LayoutRequest { levels: Some(1), width: Some(2), ..by(DigitSource::NamePrefix) };
    assert_eq!(sharded(directory.path(), &request).unwrap().left, 2);
    unsharded(directory.path()).unwrap();
    fs::create_dir(directory.path().join("xy")).unwrap();
    assert!(matches!(refusal(&directory, &request), Error::Unfit { count: 1, .. }));
}

#[test]
fn names_are_judged_by_the_digits_that_are_used() {
    let begun_alike = directory_with_files((0..900).map(|number| format!("x{}", &digest(number)[..8])));
    assert!(matches!(refusal(&begun_alike, &by(DigitSource::NamePrefix)), Error::Uneven { .. }));
    let numbered = directory_with_files((0..100).map(|number| format!("s-{number}.json")));
    assert!(matches!(refusal(&numbered, &by(DigitSource::NamePrefix)), Error::Uneven { .. }));
    let begun_evenly =
        directory_with_files((0..600).map(|number| format!("{}-{number:05}.dat", &digest(number)[..2])));
    let done = sharded(begun_evenly.path(), &by(DigitSource::NamePrefix)).unwrap();
    assert_eq!((done.scheme.levels(), done.scheme.width(), done.moved), (1, 1, 600));
}

#[test]
fn a_survey_of_a_layout_counts_neither_its_directories_nor_what_stays() {
    let directory = flat(100);
    fs::create_dir(directory.path().join("sub")).unwrap();
    symlink("nowhere", directory.path().join("link")).unwrap();
    make_fifo(&directory.path().join("pipe"));
    sharded(directory.path(), &two_levels()).unwrap();
    let before = listing(directory.path());
    let ahead = survey(directory.path(), &LayoutRequest::default()).unwrap();
    assert_eq!((ahead.files, ahead.left, ahead.directories), (0, 3, 0));
    let other = LayoutRequest { levels: Some(3), ..LayoutRequest::default() };
    assert!(matches!(survey(directory.path(), &other), Err(Error::Differs { .. })));
    let back = survey_back(directory.path()).unwrap();
    let layout = Layout::open(directory.path()).unwrap();
    let mut made = std::collections::BTreeSet::new();
    for name in &layout {
        let path = layout.path(&name.unwrap()).unwrap();
        made.extend(path.ancestors().skip(1).take(2).map(Path::to_owned));
    }
    assert_eq!((back.files, back.left, back.directories), (105, 0, made.len() as u64));
    assert_eq!(listing(directory.path()), before);
}

#[test]
fn a_name_that_never_fits_does_not_keep_a_layout_unfinished() {
    let directory = tempfile::tempdir().unwrap();
    for content in ["one", "two"] {
        fs::write(directory.path().join(hex::encode(Sha256::digest(content))), content).unwrap();
    }
    shard(directory.path(), &by(DigitSource::ContentSha256), &mut |_| ControlFlow::Break(())).unwrap_err();
    fs::write(directory.path().join("README"), "by a stranger").unwrap();
    let state = || check(directory.path(), Mend::Report, &mut |_| {}).unwrap().state;
    assert_eq!(state(), LayoutState::Sharding);
    let done = sharded(directory.path(), &LayoutRequest::default()).unwrap();
    assert_eq!((done.failures, state()), (1, LayoutState::Sharded));
    let damaged = directory.path().join(digest(7));
    fs::write(damaged, "not that").unwrap();
    shard(directory.path(), &LayoutRequest::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(state(), LayoutState::Sharded, "a layout that was finished stays so");
}
