//! The numbers of requests and bytes of a mount, as its daemon counts them. `status` and `unmount`
//! show them.

use std::time::Duration;

use firstbyte::size::human;
use firstbyte_mount::{Control, ControlRequest, ControlResponse, MountCounts};
use serde_json::{Value, json};

/// Requests the counts from a daemon, and waits at most `patience`. `None` if the daemon does not
/// answer, or if its version is too old to have counts.
pub fn ask(daemon: &mut Control, patience: Duration) -> Option<MountCounts> {
    match daemon.ask_within(&ControlRequest::Counts, patience).ok()? {
        ControlResponse::Counts(counts) => Some(counts),
        _ => None,
    }
}

/// Adds the counts to a receipt.
pub fn add(receipt: &mut Value, counts: &MountCounts) {
    let Value::Object(fields) = receipt else { return };
    let Value::Object(own) = json!(counts) else { return };
    fields.insert("requests".to_owned(), json!(counts.requests_by_kind.total()));
    fields.extend(own);
}

/// Formats the counts as a line of text.
pub fn line(counts: &MountCounts) -> String {
    let requests = &counts.requests_by_kind;
    let kinds = [("get", requests.get), ("head", requests.head), ("list", requests.list)];
    let kinds: Vec<String> = kinds.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let usd = match counts.usd {
        None => String::new(),
        Some(0.0) => ", 0 USD".to_owned(),
        Some(usd) => format!(", {} USD", dollars(usd)),
    };
    let total = requests.total();
    format!(
        "{total} {} ({}), {} received{usd}",
        if total == 1 { "request" } else { "requests" },
        kinds.join(", "),
        human(counts.received_bytes)
    )
}

/// Formats dollars: at least one dollar with cents, less with three significant digits.
fn dollars(usd: f64) -> String {
    let decimals = (2.0 - usd.log10().floor()).clamp(2.0, 12.0);
    format!("{usd:.0$}", decimals as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_one_line_or_fields_of_a_receipt() {
        let mut counts = MountCounts { received_bytes: 2 << 20, ..MountCounts::default() };
        (counts.requests_by_kind.get, counts.requests_by_kind.list) = (16, 1);
        assert_eq!(line(&counts), "17 requests (16 get, 0 head, 1 list), 2.00 MiB received");
        counts.usd = Some(0.000_011_4);
        assert!(line(&counts).ends_with("received, 0.0000114 USD"), "{}", line(&counts));
        let mut receipt = json!({ "verb": "unmount" });
        add(&mut receipt, &counts);
        assert_eq!((&receipt["requests"], &receipt["requests_by_kind"]["get"]), (&json!(17), &json!(16)));
    }
}
