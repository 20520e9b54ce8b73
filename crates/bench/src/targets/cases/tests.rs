use super::*;

fn tree(files: usize) -> Target {
    let sizes = (0..files).map(|n| (format!("f{n:03}"), 1000 + n as u64)).collect();
    let found = Found::Tree(Shape { sizes, complete: true, class: None });
    Target { location: "s3://b/p/".into(), local: false, found, class: None }
}

#[test]
fn fitting_workloads_depend_on_the_sizes_of_the_target() {
    let fit = |found: Found| fitting(&Target { found, ..tree(0) }, &Request::default());
    let of = |sizes: &[u64]| {
        let sizes = sizes.iter().enumerate().map(|(n, size)| (n.to_string(), *size)).collect();
        Found::Tree(Shape { sizes, complete: true, class: None })
    };
    assert_eq!(fit(of(&[5, 9_000])), ["open", "rand-read", "list"]);
    assert_eq!(fit(of(&[5, 40])), ["open", "list"]);
    assert_eq!(fit(of(&[0, 0])), ["list"]);
    assert_eq!(fit(of(&[7; 30])), ["open", "many-small", "list"]);
    assert_eq!(fit(Found::Object(4_095)), ["open"]);
    assert_eq!(fit(Found::Object(4_096)), ["open", "rand-read"]);
}

#[test]
fn only_the_first_files_are_read() {
    let request = Request { files: Some(10), ..Request::default() };
    let case = case(&tree(30), "many-small", &request, &[1]).unwrap();
    let job = case.contenders[0].job.as_ref().unwrap();
    assert_eq!(job["names"], "..f010");
    assert_eq!(case.contenders[0].bytes.as_deref(), Some("10045"));
}

#[test]
fn billed_reads_are_estimated_from_above() {
    let target =
        Target { location: "s3://b/k".into(), local: false, found: Found::Object(5 << 30), class: None };
    let case = case(&target, "rand-read", &Request::default(), &[1]).unwrap();
    let billed = |name: &str| {
        let found = case.contenders.iter().find(|contender| contender.name == name);
        found.unwrap().billed.clone().unwrap()
    };
    // A copy fetches the whole object, even if only a part of it is read.
    assert_eq!(billed("cp, then read").bytes, (5_u64 << 30).to_string());
    assert_eq!(billed("lazy open").bytes, (200 * (4_096 + 131_072)).to_string());
    assert_eq!(billed("lazy open").gets, "400");
    assert!(billed("mount, hydrated").once && !billed("mount").once);
}

#[test]
fn only_a_part_of_a_large_object_is_read_and_expected() {
    let target =
        Target { location: "s3://b/k".into(), local: false, found: Found::Object(5 << 30), class: None };
    let request = Request { read: "1%".into(), ..Request::default() };
    let large = case(&target, "open", &request, &[1]).unwrap();
    let bytes = large.contenders[1].bytes.as_deref().and_then(|bytes| bytes.parse::<u64>().ok());
    assert_eq!(bytes, Some(51 << 20));
    let wrong = Request { read: "much".into(), ..Request::default() };
    assert!(case(&target, "open", &wrong, &[1]).unwrap_err().starts_with("--read much"));
}

#[test]
fn a_part_of_an_object_is_not_titled_as_the_whole() {
    let target =
        Target { location: "s3://b/k".into(), local: false, found: Found::Object(310_000_000), class: None };
    let names = |case: &Case| case.contenders.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    // `one-big` reads the whole object by every access.
    let whole = case(&target, "one-big", &Request::default(), &[1]).unwrap();
    assert_eq!(whole.title, "one-big of s3://b/k, 310 MB");
    assert_eq!(names(&whole), ["cp, then read", "lazy open", "mount", "mount, hydrated"]);
    assert!(whole.contenders.iter().all(|one| one.job.as_ref().unwrap().get("size").is_none()));
    assert_eq!(whole.contenders[0].bytes.as_deref(), Some("310000000"));
    let request = Request { size: Some(1_000_000), ..Request::default() };
    let part = case(&target, "one-big", &request, &[1]).unwrap();
    assert_eq!(part.title, "one-big of the first 1.00 MB of s3://b/k, 310 MB");
    assert_eq!(names(&part), ["lazy open", "mount", "mount, hydrated"]);
    let part = case(&target, "seq-read", &request, &[1]).unwrap();
    assert_eq!(part.title, "seq-read of the first 1.00 MB of s3://b/k, 310 MB");
    assert!(part.notes[0].starts_with("Only the first 1000000 bytes are read"), "{:?}", part.notes);
}

#[test]
fn a_target_is_not_written_without_permission() {
    let error = case(&tree(3), "upload", &Request::default(), &[1]).unwrap_err();
    assert!(error.contains("--write"), "{error}");
}

#[test]
fn each_number_of_jobs_is_a_contender() {
    let case = case(&tree(3), "open", &Request::default(), &[1, 4]).unwrap();
    let names: Vec<&str> = case.contenders.iter().map(|contender| contender.name.as_str()).collect();
    assert_eq!(names[..2], ["cp, then read x1", "cp, then read x4"]);
}
