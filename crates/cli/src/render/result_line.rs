//! The last line of a verb that transfers: the receipt as a sentence. [`report`](super::report)
//! prints this line unless the user requests the receipt itself.

use firstbyte::receipt::{Receipt, VerifiedExtent};
use firstbyte::size::{grouped, human, human_rate};
use firstbyte_location::Service;

use crate::render::progress::PlannedSums;

/// Formats the line for a run, or for a dry run if `planned` is given.
pub fn result_line(receipt: &Receipt, planned: Option<&PlannedSums>) -> String {
    if let Some(planned) = planned {
        return planned_line(receipt, planned);
    }
    match &*receipt.verb {
        "mb" => format!("made {}", receipt.source),
        "rb" => format!("removed {}", receipt.source),
        "rm" => format!("deleted {}", objects(receipt.deleted.unwrap_or(0))),
        "release" => format!("released {} of {}", human(receipt.bytes), objects(receipt.objects)),
        "check" => check_line(receipt),
        "hydrate" if is_cached_already(receipt) => {
            format!("already hydrated: {}, {}", objects(receipt.objects), human(receipt.bytes))
        }
        "cp" if receipt.destination.is_none() => {
            format!("aborted {}", count_with_noun(receipt.deleted.unwrap_or(0), "upload", "uploads"))
        }
        _ => transfer_line(receipt),
    }
}

/// Returns whether the run found all requested bytes in the cache.
fn is_cached_already(receipt: &Receipt) -> bool {
    receipt.bytes > 0 && receipt.resumed_bytes == receipt.bytes && receipt.failed.is_empty()
}

/// Formats `copied 500 MiB in 0.52 s (963 MiB/s), verified`.
fn transfer_line(receipt: &Receipt) -> String {
    let failed = receipt.failed.len() as u64;
    let mut parts = Vec::new();
    if receipt.objects > 0 || receipt.bytes > 0 {
        let what = match (receipt.objects, receipt.bytes) {
            (count, 0) => objects(count),
            (1, bytes) => human(bytes),
            (count, bytes) => format!("{}, {}", objects(count), human(bytes)),
        };
        let rate = (receipt.bytes > 0).then(|| format!(" ({})", human_rate(receipt.bytes_per_second)));
        let (verb, seconds) = (participle(&receipt.verb), receipt.seconds);
        parts.push(format!("{verb} {what} in {seconds:.2} s{}", rate.unwrap_or_default()));
    }
    if receipt.skipped > 0 {
        parts.push(match parts.is_empty() {
            true => format!("up to date: {}", objects(receipt.skipped)),
            false => format!("{} up to date", grouped(receipt.skipped)),
        });
    }
    let counts = [(receipt.deleted, "deleted"), (receipt.left_out, "left out"), (Some(failed), "failed")];
    for (count, what) in counts {
        parts.extend(count.filter(|count| *count > 0).map(|count| format!("{} {what}", grouped(count))));
    }
    if parts.is_empty() {
        return "nothing to do: no object found".into();
    }
    if receipt.resumed_bytes > 0 {
        parts.push(format!("{} resumed", human(receipt.resumed_bytes)));
    }
    parts.extend(receipt.verified.map(|verified| match verified {
        VerifiedExtent::Full => "verified".into(),
        VerifiedExtent::Length => "verified by length".into(),
        VerifiedExtent::Nothing => "not verified: the server states no length".into(),
        _ => "verified as the receipt states".into(),
    }));
    parts.extend(receipt.bound_by.as_ref().map(|bound| format!("bound by {bound}")));
    parts.join(", ")
}

/// Formats `2,001 files are the same (by size; --content compares bytes)`.
fn check_line(receipt: &Receipt) -> String {
    let (same, different) = (receipt.objects, receipt.differences.unwrap_or(0));
    let is_stored = |location: &str| Service::of_text(location).is_some();
    let is_local = !is_stored(&receipt.source) || !receipt.destination.as_deref().is_some_and(is_stored);
    let items = |count| match is_local {
        true => count_with_noun(count, "file", "files"),
        false => objects(count),
    };
    let proof = match receipt.verified {
        Some(VerifiedExtent::Full) => "by checksum",
        Some(_) => "by size; --content compares bytes",
        // No name is in both places.
        None => "compared by name, size and checksum",
    };
    let verb = if same == 1 { "is" } else { "are" };
    let mut line = format!("{} {verb} the same ({proof})", items(same));
    if different > 0 {
        line = format!("{}; {line}", count_with_noun(different, "difference", "differences"));
    }
    match receipt.failed.len() as u64 {
        0 => line,
        failed => format!("{line}; {} could not be compared", items(failed)),
    }
}

/// Formats `to copy: 3 objects, 293 KiB; to delete: 1 object`. The word `would` is left to the
/// rows.
fn planned_line(receipt: &Receipt, planned: &PlannedSums) -> String {
    let verb = if receipt.verb == "mv" { "move" } else { "copy" };
    let mut parts = Vec::new();
    if planned.objects > 0 {
        let bytes = (planned.unmeasured == 0).then(|| format!(", {}", human(planned.bytes)));
        parts.push(format!("to {verb}: {}{}", objects(planned.objects), bytes.unwrap_or_default()));
    }
    if planned.deletions > 0 {
        parts.push(format!("to delete: {}", objects(planned.deletions)));
    }
    parts.join("; ")
}

fn participle(verb: &str) -> &'static str {
    match verb {
        "mv" => "moved",
        "hydrate" => "hydrated",
        _ => "copied",
    }
}

fn objects(count: u64) -> String {
    count_with_noun(count, "object", "objects")
}

fn count_with_noun(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(verb: &'static str, change: impl FnOnce(&mut Receipt)) -> Receipt {
        let mut receipt = Receipt::new(verb, "s3://lab".into(), Some("there".into()));
        receipt.seconds = 0.52;
        change(&mut receipt);
        receipt
    }

    #[test]
    fn each_verb_says_what_it_did() {
        let line = |verb, change: fn(&mut Receipt)| result_line(&receipt(verb, change), None);
        assert_eq!(line("mb", |it| it.objects = 1), "made s3://lab");
        assert_eq!(line("rb", |it| it.deleted = Some(1)), "removed s3://lab");
        assert_eq!(line("rm", |it| it.deleted = Some(10)), "deleted 10 objects");
        let released = |it: &mut Receipt| (it.objects, it.bytes) = (2001, 562 << 20);
        assert_eq!(line("release", released), "released 562 MiB of 2,001 objects");
        let same = |it: &mut Receipt| (it.objects, it.verified) = (2001, Some(VerifiedExtent::Length));
        assert_eq!(line("check", same), "2,001 files are the same (by size; --content compares bytes)");
        let stored = |it: &mut Receipt| {
            (it.destination, it.objects) = (Some("s3://lab/there".into()), 0);
            it.differences = Some(2);
        };
        assert_eq!(
            line("check", stored),
            "2 differences; 0 objects are the same (compared by name, size and checksum)"
        );
        let cached = |it: &mut Receipt| (it.objects, it.bytes, it.resumed_bytes) = (800, 5 << 20, 5 << 20);
        assert_eq!(line("hydrate", cached), "already hydrated: 800 objects, 5.00 MiB");
        let aborted = |it: &mut Receipt| (it.destination, it.deleted) = (None, Some(1));
        assert_eq!(line("cp", aborted), "aborted 1 upload");
    }

    #[test]
    fn a_transfer_names_only_what_happened() {
        let line = |verb, change: fn(&mut Receipt)| result_line(&receipt(verb, change), None);
        let one = |it: &mut Receipt| {
            (it.objects, it.bytes, it.bytes_per_second) = (1, 500 << 20, 1.01e9);
            it.verified = Some(VerifiedExtent::Full);
        };
        assert_eq!(line("cp", one), "copied 500 MiB in 0.52 s (963 MiB/s), verified");
        let resumed = |it: &mut Receipt| {
            (it.objects, it.bytes, it.skipped, it.deleted) = (2, 3 << 20, 1999, Some(4));
            (it.bytes_per_second, it.resumed_bytes) = (6e6, 1 << 20);
            it.bound_by = Some("link".into());
        };
        assert_eq!(
            line("sync", resumed),
            "copied 2 objects, 3.00 MiB in 0.52 s (5.72 MiB/s), 1,999 up to date, 4 deleted, 1.00 MiB resumed, bound by link"
        );
        assert_eq!(line("sync", |it| it.skipped = 2001), "up to date: 2,001 objects");
        assert_eq!(line("sync", |_| {}), "nothing to do: no object found");
        assert_eq!(line("mv", |it| it.objects = 1), "moved 1 object in 0.52 s");
    }

    #[test]
    fn a_dry_run_sums_up_what_it_would_do() {
        let sync = receipt("sync", |_| {});
        let planned = PlannedSums { objects: 3, unmeasured: 0, bytes: 300_000, deletions: 1 };
        assert_eq!(result_line(&sync, Some(&planned)), "to copy: 3 objects, 293 KiB; to delete: 1 object");
    }
}
