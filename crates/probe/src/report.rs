//! Holds the report of a probe, and formats it as ten lines.

use std::collections::BTreeMap;

use firstbyte_advise::units::{count, shown_bytes, shown_seconds, significant};
use serde::Serialize;

use crate::access::{AccessReport, Right};
use crate::disk::DiskRates;
use crate::ledger::Spent;
use crate::names::ListingSpeed;
use crate::quantiles::Quantiles;
use crate::rates::ProbedRates;
use crate::small::{Ceiling, ProbedLatencies};

/// Findings of a probe. A part that was not observed is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbeReport {
    /// Rights, region and clock.
    pub access: AccessReport,
    /// Latencies of single requests.
    pub latencies: ProbedLatencies,
    /// Transfer rates.
    pub rates: Option<ProbedRates>,
    /// The highest rate of small requests; for local files, of opens.
    pub ceiling: Option<Ceiling>,
    /// The speed of listing. Absent for a single object.
    pub names: Option<ListingSpeed>,
    /// The highest rate of reading small files. Absent if there are no small files.
    pub small_files: Option<Ceiling>,
    /// The local disk.
    pub disk: Option<DiskRates>,
    /// The reason why the local disk was not measured.
    pub disk_failed: Option<String>,
    /// The reasons that ended parts early, by name: `first_byte`, `names`, `rates`, `ceiling`,
    /// `small_files`.
    pub ended: BTreeMap<String, String>,
    /// Objects that cannot be read.
    pub unreadable: Option<Unreadable>,
    /// True if the user ended the probe.
    pub interrupted: bool,
    /// Resources that the probe has used.
    pub spent: Spent,
}

/// Objects that the probe left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unreadable {
    /// Number of them.
    pub count: usize,
    /// The failure of the first.
    pub first: String,
}

/// Formats a rate in decimal units.
pub(crate) fn rate(bytes: f64) -> String {
    format!("{}/s", shown_bytes(bytes))
}

fn quantiles(times: &Quantiles) -> String {
    let mut text = format!("{} p50", shown_seconds(times.p50));
    for (name, value) in [("p95", times.p95), ("p99", times.p99)] {
        if let Some(value) = value {
            text.push_str(&format!(", {} {name}", shown_seconds(value)));
        }
    }
    format!("{text} ({} requests)", times.count)
}

fn right(name: &str, right: &Right) -> String {
    match right {
        Right::Granted => format!("{name} yes"),
        Right::Refused(refusal) => format!("{name} no ({})", refusal.why),
        Right::NotTried => format!("{name} not tried"),
    }
}

impl AccessReport {
    /// Returns the results in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut parts = Vec::new();
        if !self.single {
            parts.push(right("list", &self.list));
        }
        parts.extend([right("read", &self.read), right("write", &self.write)]);
        parts.extend(self.ranges.filter(|ranges| !ranges).map(|_| "answers ranges no".to_owned()));
        parts.extend(self.create.map(|create| format!("an empty object in {}", shown_seconds(create.p50))));
        parts.extend(self.region.as_ref().map(|region| format!("region {region}")));
        parts.extend(self.clock_ahead.map(|ahead| format!("clock {ahead:+} s")));
        parts.join(", ")
    }
}

impl ProbeReport {
    /// Returns the ten lines, each with its name.
    #[must_use]
    pub fn lines(&self) -> [(&'static str, String); 10] {
        let not_seen = || self.not_seen("rates");
        let rates = self.rates.as_ref();
        let access = match &self.unreadable {
            None => self.access.line(),
            Some(Unreadable { count, first }) => {
                format!("{}; {count} left out, as they cannot be read: {first}", self.access.line())
            }
        };
        [
            ("access", access),
            ("first byte", self.first_byte()),
            ("connection", rates.map_or_else(not_seen, |rates| rate(rates.connection))),
            ("connections", rates.map_or_else(not_seen, connections)),
            ("burst", rates.map_or_else(not_seen, burst)),
            (
                if self.latencies.open.is_some() { "opens" } else { "requests" },
                self.ceiling.as_ref().map_or_else(|| self.not_seen("ceiling"), ceiling),
            ),
            ("listing", self.listing()),
            ("small files", self.small_files.as_ref().map_or_else(|| self.not_seen("small_files"), ceiling)),
            ("local disk", self.local_disk()),
            ("limit", format!("{}; {}", self.limit(), self.used())),
        ]
    }

    /// Formats that a part was not seen, with the reason.
    fn not_seen(&self, part: &str) -> String {
        self.ended.get(part).map_or_else(|| "not seen".to_owned(), |why| format!("not seen: {why}"))
    }

    fn first_byte(&self) -> String {
        let first = self.latencies.first_byte.as_ref();
        let mut first = first.map_or_else(|| self.not_seen("first_byte"), quantiles);
        if let (Some(_), Some(why)) = (&self.latencies.first_byte, self.ended.get("first_byte")) {
            first = format!("{first}; ended: {why}");
        }
        match &self.latencies.open {
            Some(open) => format!("{first}; open and close {} p50", shown_seconds(open.p50)),
            None => first,
        }
    }

    fn listing(&self) -> String {
        let Some(names) = self.names else {
            return if self.access.single {
                "not seen: one object".to_owned()
            } else {
                self.not_seen("names")
            };
        };
        let (number, seconds) = (count(names.names), shown_seconds(names.seconds));
        let whole = if names.paged { "a page of" } else { "all" };
        match names.per_second() {
            Some(each) => format!("{whole} {number} names in {seconds}, {} names a second", count(each)),
            None => format!("{whole} {number} names in {seconds}: too few to tell a rate"),
        }
    }

    fn local_disk(&self) -> String {
        match (&self.disk, &self.disk_failed) {
            (Some(disk), _) => format!(
                "{} written durably, {} read, {} free ({})",
                rate(disk.write),
                rate(disk.read),
                shown_bytes(disk.free as f64),
                disk.place.display()
            ),
            (None, Some(why)) => format!("not measured: {why}"),
            (None, None) => "not seen".to_owned(),
        }
    }

    /// Describes what limits large and small objects.
    fn limit(&self) -> String {
        let large = match &self.rates {
            None => format!("large files: {}", self.not_seen("rates")),
            Some(rates) if rates.busy => {
                format!("large files: the processors of this machine, {} in all", rate(rates.total))
            }
            Some(rates) if rates.full => {
                format!("large files: {} in all, by {} connections", rate(rates.total), rates.enough())
            }
            Some(rates) => {
                let most = rates.steps.last().map_or(1, |step| step.connections);
                format!(
                    "large files: one connection, {}; {most} of them are not the end",
                    rate(rates.connection)
                )
            }
        };
        let one = self.latencies.first_byte.or(self.latencies.open).map_or(0.0, |times| times.p50);
        let small = match &self.ceiling {
            Some(ceiling) if ceiling.throttled => {
                format!("small ones: refused above {} requests a second", count(ceiling.per_second))
            }
            Some(ceiling) if ceiling.reached => {
                format!("small ones: {} a second, by {} at once", count(ceiling.per_second), ceiling.at_once)
            }
            None if self.ended.contains_key("ceiling") => format!("small ones: {}", self.not_seen("ceiling")),
            _ => format!("small ones: latency, {}", shown_seconds(one)),
        };
        format!("{large}; {small}")
    }

    fn used(&self) -> String {
        let spent = &self.spent;
        format!(
            "used {}, {} requests, {}, {}",
            shown_seconds(spent.seconds),
            count(spent.requests.total() as f64),
            shown_bytes(spent.bytes as f64),
            spent.usd.map_or_else(|| "cost not known".to_owned(), |usd| format!("{} USD", significant(usd)))
        )
    }
}

fn connections(rates: &ProbedRates) -> String {
    let steps: Vec<String> = rates
        .steps
        .iter()
        .map(|step| format!("{} {}", step.connections, significant(step.rate / 1e6)))
        .collect();
    let end = match (&rates.ended, rates.full) {
        (Some(why), _) => format!("ended: {why}"),
        (None, true) => format!("full with {}", rates.enough()),
        (None, false) => "more may bring more".to_owned(),
    };
    match steps.is_empty() {
        true => format!("not seen; {end}"),
        false => format!("{} MB/s; {end}", steps.join(", ")),
    }
}

fn burst(rates: &ProbedRates) -> String {
    match rates.burst {
        Some(burst) => {
            format!("{} at {}, then {}", shown_bytes(burst.bucket), rate(burst.rate), rate(rates.total))
        }
        None => format!("no end of one seen in {} at the highest rate", shown_seconds(rates.watched)),
    }
}

fn ceiling(ceiling: &Ceiling) -> String {
    let Ceiling { per_second, at_once, reached, throttled } = ceiling;
    let end = match (throttled, reached) {
        (true, _) => "then the place refused",
        (false, true) => "more bring no more",
        (false, false) => "none refused, more may bring more",
    };
    format!("{} a second with {at_once} at once; {end}", count(*per_second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::{EndedBurst, RampStep};

    fn report() -> ProbeReport {
        let access = AccessReport { list: Right::Granted, read: Right::Granted, ..AccessReport::default() };
        let first_byte = Quantiles::of(vec![0.03; 64]);
        let latencies = ProbedLatencies { first_byte, open: None };
        let mut report = ProbeReport { access, latencies, ..ProbeReport::default() };
        let step = |connections, rate| RampStep { connections, rate };
        report.rates = Some(ProbedRates {
            connection: 40e6,
            steps: vec![step(1, 40e6), step(16, 400e6), step(32, 400e6)],
            total: 400e6,
            full: true,
            watched: 9.0,
            ..ProbedRates::default()
        });
        report
    }

    #[test]
    fn the_report_has_ten_lines_without_line_breaks() {
        let lines = report().lines();
        assert!(
            lines.iter().all(|(name, text)| !text.is_empty() && !text.contains('\n') && name.len() <= 11)
        );
        let line = |name: &str| lines.iter().find(|(other, _)| *other == name).unwrap().1.clone();
        assert_eq!(line("access"), "list yes, read yes, write not tried");
        assert_eq!(line("first byte"), "30.0 ms p50, 30.0 ms p95 (64 requests)");
        assert_eq!(line("connections"), "1 40.0, 16 400, 32 400 MB/s; full with 16");
        assert_eq!(line("burst"), "no end of one seen in 9.00 s at the highest rate");
        assert!(
            line("limit").starts_with("large files: 400 MB/s in all, by 16 connections; small ones: latency")
        );
    }

    #[test]
    fn an_unmeasured_part_is_reported_with_its_reason() {
        let refused = "the place refused, and asked to slow down";
        let parts = ["rates", "ceiling", "small_files", "names"];
        let ended = parts.map(|part| (part.to_owned(), refused.to_owned())).into();
        let unreadable = Some(Unreadable { count: 2, first: "s3://b/k: archived".into() });
        let report = ProbeReport { ended, unreadable, rates: None, ..report() };
        let lines = report.lines();
        for at in [2, 3, 4, 5, 6, 7] {
            assert_eq!(lines[at].1, format!("not seen: {refused}"), "{}", lines[at].0);
        }
        assert!(
            lines[0].1.ends_with("; 2 left out, as they cannot be read: s3://b/k: archived"),
            "{lines:?}"
        );
        assert!(lines[9].1.ends_with("cost not known"), "{}", lines[9].1);
        let only_one =
            ProbedRates { connection: 5e9, ended: Some("the time was spent".into()), ..Default::default() };
        assert_eq!(connections(&only_one), "not seen; ended: the time was spent");
    }

    #[test]
    fn a_burst_and_a_refusal_are_reported() {
        let mut report = report();
        let rates = report.rates.as_mut().unwrap();
        (rates.burst, rates.total) = (Some(EndedBurst { rate: 1.35e9, bucket: 300e6 }), 77.5e6);
        report.ceiling = Some(Ceiling { per_second: 3_500.0, at_once: 32, reached: true, throttled: true });
        let lines = report.lines();
        assert_eq!(lines[4].1, "300 MB at 1.35 GB/s, then 77.5 MB/s");
        assert!(lines[5].1.ends_with("then the place refused"), "{}", lines[5].1);
        assert!(lines[9].1.contains("refused above"), "{}", lines[9].1);
    }
}
